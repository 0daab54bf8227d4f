//! The order of rows in a compacted file, and which rows are dropped.
//!
//! Rows are sorted by the dataset's `sort` columns, then by its key, then by `_position`, `_operation` and `_changed_at`; nulls
//! first, texts by their bytes. Rows are compared as bytes that encode this order (`arrow-row`), not value by value. Rows that
//! are equal so far are copies of one row: the copy of the greatest `_generation` comes first and stays; among several, one without
//! `_rescued`.
//!
//! The newest row of a key is defined as in the views. Let `s` be the time of the key's newest snapshot. A stream row counts if its
//! `_changed_at` is null or later than `s` − 15 minutes. The newest row is the counting row with the greatest `_position`, or,
//! without one, the newest snapshot. A row is dropped ([`RowRelation::Outdated`]) if the next row has the same key and
//!
//! - both are stream rows, the next row has the greater position, and it counts whenever this row counts; or
//! - both are snapshots, and the next row is newer; or
//! - this row is a stream row, and the next row is a snapshot that is newer by 15 minutes or more.
//!
//! The relation is transitive, so the next row may be dropped in turn. Rows of the key in other files can only
//! outdate more rows, never fewer. The newest snapshot always stays: it decides what counts.

use std::sync::Arc;

use afterwrite::projection::RowOperation;
use afterwrite::table::{Dataset, RowHistory};
use arrow_array::cast::AsArray as _;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{Array as _, ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{ArrowError, DataType, Schema, SortOptions};

use crate::schema::{CHANGED_AT, GENERATION, OPERATION, POSITION, RESCUED, SNAPSHOT_LAG_MINUTES};

const SNAPSHOT_LAG_MS: i64 = SNAPSHOT_LAG_MINUTES * 60 * 1000;

/// The columns of a sort key after the item's: `_position`, then `_operation`, `_changed_at`, `_generation`, and whether
/// `_rescued` is set.
const COLUMNS_AFTER_ITEM: usize = 5;
const COLUMNS_AFTER_POSITION: usize = 4;

/// The bytes at the end of a sort key in which copies of a row may differ: `_generation` has one for null and eight for the
/// number, `_rescued` two.
const COPY_BYTES: usize = 11;

/// The order of a dataset's rows.
#[derive(Debug)]
pub(super) struct RowOrder {
    converter: RowConverter,
    /// The columns that identify rows, in the order in which rows are sorted by them.
    columns: Vec<usize>,
    /// If outdated rows are dropped: encoders of the columns of the item, and of those up to `_position`.
    prefixes: Option<[RowConverter; 2]>,
    operation: usize,
    changed_at: usize,
    generation: usize,
    rescued: usize,
}

impl RowOrder {
    pub(super) fn new(dataset: &Dataset, schema: &Schema) -> Result<Self, ArrowError> {
        let mut columns = Vec::new();
        for column in dataset.sort.iter().chain(&dataset.key).filter_map(|at| dataset.columns.get(*at)) {
            let at = schema.index_of(&column.name)?;
            if !columns.contains(&at) {
                columns.push(at);
            }
        }
        let item = RowConverter::new(sort_fields(schema, &columns))?;
        columns.push(schema.index_of(POSITION)?);
        let prefixes = match dataset.history {
            RowHistory::All => None,
            RowHistory::Newest => Some([item, RowConverter::new(sort_fields(schema, &columns))?]),
        };
        let (operation, changed_at) = (schema.index_of(OPERATION)?, schema.index_of(CHANGED_AT)?);
        columns.extend([operation, changed_at]);
        let mut fields = sort_fields(schema, &columns);
        let greatest_first = SortOptions { descending: true, nulls_first: false };
        fields.push(SortField::new_with_options(DataType::Int64, greatest_first));
        fields.push(SortField::new(DataType::Boolean));
        Ok(Self {
            converter: RowConverter::new(fields)?,
            columns,
            prefixes,
            operation,
            changed_at,
            generation: schema.index_of(GENERATION)?,
            rescued: schema.index_of(RESCUED)?,
        })
    }

    /// The columns that identify rows, in the order in which rows are sorted by them.
    pub(super) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The sort keys of a batch's rows.
    pub(super) fn keys(&self, batch: &RecordBatch) -> Result<RowKeys, ArrowError> {
        let mut columns: Vec<_> = self.columns.iter().map(|at| batch.column(*at).clone()).collect();
        columns.extend([batch.column(self.generation).clone(), is_valid(batch.column(self.rescued))]);
        let rows = self.converter.convert_columns(&columns)?;
        let Some([item, position]) = &self.prefixes else {
            return Ok(RowKeys { rows, changes: Vec::new() });
        };
        let (item_columns, _) = columns.split_at(columns.len() - COLUMNS_AFTER_ITEM);
        let (position_columns, _) = columns.split_at(columns.len() - COLUMNS_AFTER_POSITION);
        let (items, positions) =
            (item.convert_columns(item_columns)?, position.convert_columns(position_columns)?);
        let operations = batch.column(self.operation).as_string::<i32>();
        let changed_at = batch.column(self.changed_at).as_primitive::<TimestampMillisecondType>();
        let changes = (0..batch.num_rows()).map(|row| KeyedChange {
            item_bytes: items.row_len(row),
            position_bytes: positions.row_len(row),
            is_snapshot: operations.value(row) == RowOperation::Snapshot.name(),
            changed_at: changed_at.is_valid(row).then(|| changed_at.value(row)),
        });
        Ok(RowKeys { rows, changes: changes.collect() })
    }
}

fn sort_fields(schema: &Schema, columns: &[usize]) -> Vec<SortField> {
    columns.iter().map(|at| SortField::new(schema.field(*at).data_type().clone())).collect()
}

/// For each row, whether a column has a value.
fn is_valid(column: &ArrayRef) -> ArrayRef {
    let all = || BooleanBuffer::new_set(column.len());
    let valid = column.nulls().map_or_else(all, |nulls| nulls.inner().clone());
    Arc::new(BooleanArray::new(valid, None))
}

/// The sort keys of a batch's rows: bytes that compare as the rows do.
#[derive(Debug)]
pub(super) struct RowKeys {
    rows: Rows,
    /// Aligned with the rows; empty if no outdated rows are dropped.
    changes: Vec<KeyedChange>,
}

impl RowKeys {
    pub(super) fn len(&self) -> usize {
        self.rows.num_rows()
    }

    /// Their size in memory, in bytes.
    pub(super) fn size(&self) -> usize {
        self.rows.size() + self.changes.capacity() * size_of::<KeyedChange>()
    }

    pub(super) fn bytes(&self, row: usize) -> &[u8] {
        self.rows.row(row).data()
    }
}

/// The fields that decide whether a row outdates another.
#[derive(Clone, Copy, Debug)]
struct KeyedChange {
    /// How many bytes of the sort key identify the item.
    item_bytes: usize,
    /// How many bytes of the sort key identify the item and the position.
    position_bytes: usize,
    is_snapshot: bool,
    changed_at: Option<i64>,
}

/// How a row relates to the next one in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowRelation {
    /// Both stay.
    Distinct,
    /// They are copies: the next one is dropped.
    Identical,
    /// The next row outdates this one, which is dropped.
    Outdated,
}

/// How many rows were dropped, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DroppedRows {
    pub(super) duplicates: u64,
    pub(super) outdated: u64,
}

/// Drops rows from a sorted sequence. A row is decided by the next one, so the filter is one row behind.
#[derive(Debug)]
pub(super) struct RowFilter<P> {
    pending: Option<(P, Option<KeyedChange>)>,
    /// The sort key of the pending row. Its allocation is reused.
    bytes: Vec<u8>,
    /// The rows that were dropped so far.
    pub(super) dropped: DroppedRows,
}

impl<P> RowFilter<P> {
    /// A filter that continues to count from `dropped`.
    pub(super) fn new(dropped: DroppedRows) -> Self {
        Self { pending: None, bytes: Vec::new(), dropped }
    }

    /// Takes the next row, at `place`. Returns the pending row, if this one decides that it stays.
    pub(super) fn push(&mut self, place: P, keys: &RowKeys, row: usize) -> Option<P> {
        let (bytes, change) = (keys.bytes(row), keys.changes.get(row).copied());
        let relation = self.pending.as_ref().map(|(_, pending)| relate(&self.bytes, *pending, bytes, change));
        if relation == Some(RowRelation::Identical) {
            self.dropped.duplicates += 1;
            return None;
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        let (pending, _) = self.pending.replace((place, change))?;
        if relation == Some(RowRelation::Outdated) {
            self.dropped.outdated += 1;
            return None;
        }
        Some(pending)
    }

    /// Ends the sequence: the pending row stays.
    pub(super) fn finish(&mut self) -> Option<P> {
        self.pending.take().map(|(place, _)| place)
    }

    /// The place of the row that is not decided yet.
    pub(super) fn pending(&mut self) -> Option<&mut P> {
        self.pending.as_mut().map(|(place, _)| place)
    }
}

fn relate(
    this: &[u8],
    change: Option<KeyedChange>,
    next: &[u8],
    next_change: Option<KeyedChange>,
) -> RowRelation {
    let without_copy = |key: &'_ [u8]| key.len().saturating_sub(COPY_BYTES);
    if this.get(..without_copy(this)) == next.get(..without_copy(next)) {
        return RowRelation::Identical;
    }
    let (Some(change), Some(next_change)) = (change, next_change) else { return RowRelation::Distinct };
    let are_equal =
        |bytes: usize, next_bytes: usize| bytes == next_bytes && this.get(..bytes) == next.get(..bytes);
    if !are_equal(change.item_bytes, next_change.item_bytes) {
        return RowRelation::Distinct;
    }
    let both_times = change.changed_at.zip(next_change.changed_at);
    let is_outdated = match (change.is_snapshot, next_change.is_snapshot) {
        (false, false) => {
            let counts_whenever_this_does = match (change.changed_at, next_change.changed_at) {
                (_, None) => true,
                (Some(time), Some(next_time)) => time <= next_time,
                (None, Some(_)) => false,
            };
            counts_whenever_this_does && !are_equal(change.position_bytes, next_change.position_bytes)
        }
        (true, true) => both_times.is_some_and(|(time, next_time)| time < next_time),
        (false, true) => {
            both_times.is_some_and(|(time, snapshot)| time <= snapshot.saturating_sub(SNAPSHOT_LAG_MS))
        }
        (true, false) => false,
    };
    if is_outdated { RowRelation::Outdated } else { RowRelation::Distinct }
}
