//! Record batches: the number of rows in a batch, and batches of rows of other batches.

use afterwrite_model::{Error, ErrorKind, Result};
use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use arrow_select::interleave::interleave_record_batch;

/// The size of a batch that is read or written.
pub(super) const BATCH_BYTES: u64 = 4 * 1024 * 1024;

/// How many rows make a batch of `batch_bytes`, if `rows` rows take `bytes`.
pub(super) fn rows_per_batch(batch_bytes: u64, bytes: u64, rows: u64) -> usize {
    const RANGE: (u64, u64) = (16, 4096);
    let row_bytes = (bytes / rows.max(1)).max(1);
    usize::try_from((batch_bytes / row_bytes).clamp(RANGE.0, RANGE.1)).unwrap_or(16)
}

/// A row: its batch, and its place in the batch.
pub(super) type RowPlace = (usize, usize);

/// Copies these rows, in this order, into one batch; `None` without rows.
pub(super) fn gather_rows(batches: &[RecordBatch], rows: &[RowPlace]) -> Result<Option<RecordBatch>> {
    if rows.is_empty() {
        return Ok(None);
    }
    let batches: Vec<&RecordBatch> = batches.iter().collect();
    interleave_record_batch(&batches, rows).map(Some).map_err(unsortable)
}

/// The error of rows that cannot be compared or put in order.
pub(super) fn unsortable(error: ArrowError) -> Error {
    Error::new(ErrorKind::State, "cannot sort rows").caused_by(error)
}
