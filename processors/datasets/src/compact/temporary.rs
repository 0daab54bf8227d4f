//! Temporary files: creating them, and spilling record batches to them (Arrow IPC, uncompressed).

use std::fs::File;
use std::io::{BufReader, BufWriter, Seek as _, SeekFrom};

use afterwrite::{Error, ErrorKind, Result};
use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::Schema;

const BUFFER_BYTES: usize = 256 * 1024;

/// A temporary file without a name.
pub(super) fn temporary_file() -> Result<File> {
    tempfile::tempfile().map_err(temporary_file_error)
}

/// The error of a temporary file that cannot be written or read.
pub(super) fn temporary_file_error(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorKind::Configuration, "cannot write or read a temporary file")
        .hint("Give the compactor more ephemeral storage, or have it compact less at once")
        .caused_by(cause)
}

/// Writes batches to a temporary file, which is positioned at its begin.
pub(super) fn spill_batches(
    schema: &Schema,
    mut next_batch: impl FnMut() -> Result<Option<RecordBatch>>,
) -> Result<File> {
    let file = BufWriter::with_capacity(BUFFER_BYTES, temporary_file()?);
    let mut writer = StreamWriter::try_new(file, schema).map_err(temporary_file_error)?;
    while let Some(batch) = next_batch()? {
        writer.write(&batch).map_err(temporary_file_error)?;
    }
    let file = writer.into_inner().map_err(temporary_file_error)?;
    let mut file = file.into_inner().map_err(|error| temporary_file_error(error.into_error()))?;
    file.seek(SeekFrom::Start(0)).map_err(temporary_file_error)?;
    Ok(file)
}

/// Reads the batches of a temporary file.
pub(super) struct SpilledBatches(StreamReader<BufReader<File>>);

impl SpilledBatches {
    pub(super) fn open(file: File) -> Result<Self> {
        let file = BufReader::with_capacity(BUFFER_BYTES, file);
        StreamReader::try_new(file, None).map(Self).map_err(temporary_file_error)
    }

    /// The next batch with rows.
    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let has_rows =
            |batch: &Result<RecordBatch, _>| batch.as_ref().map_or(true, |batch| batch.num_rows() > 0);
        self.0.find(has_rows).transpose().map_err(temporary_file_error)
    }
}
