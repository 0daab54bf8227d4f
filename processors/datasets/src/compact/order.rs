//! The order of rows, and which rows of the log are dropped.
//!
//! Rows are sorted by the item's key, then by `_position`, `_operation` and `_changed_at`; nulls first, texts by their bytes. Files of
//! current rows are sorted by the dataset's `sort` columns before that. Rows are compared as bytes that encode this order
//! (`arrow-row`), not value by value. Rows that are equal so far are copies of one row: the copy of the greatest `_generation` comes
//! first and stays; among several, one without `_rescued`; among several of those, one with the outputs of lookups.
//!
//! The newest row of a key is defined as in the views. Let `s` be the time of the key's newest snapshot. A stream row counts if its
//! `_changed_at` is null or later than `s` − 15 minutes. The newest row is the counting row with the greatest `_position`, or,
//! without one, the newest snapshot. A row is dropped ([`RowRelation::Outdated`]) if the next row has the same key and
//!
//! - both are stream rows, the next row has the greater position, and it counts whenever this row counts; or
//! - both are snapshots, and the next row is newer; or
//! - this row is a stream row, and the next row is a snapshot that is newer by 15 minutes or more.
//!
//! If the entity keeps what expires, a row of an expiry is never dropped: it is a life of the item that stays counted, whatever
//! happened to the key since. The key of a rollup shows when it expires, so that it has one life: of its rows, the newest one stays.
//!
//! The relation is transitive, so the next row may be dropped in turn. Rows of the key in other files can only
//! outdate more rows, never fewer. The newest snapshot always stays: it decides what counts.

use std::sync::Arc;

use afterwrite_model::projection::RowOperation;
use afterwrite_model::table::{Dataset, ExpiredRows};
use arrow_array::cast::AsArray as _;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{Array as _, ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{ArrowError, DataType, Schema, SortOptions};

use crate::schema::{CHANGED_AT, GENERATION, OPERATION, POSITION, RESCUED, SNAPSHOT_LAG_MINUTES};

pub(super) const SNAPSHOT_LAG_MS: i64 = SNAPSHOT_LAG_MINUTES * 60 * 1000;

/// The columns that identify rows after `_position`: `_operation` and `_changed_at`.
const COLUMNS_AFTER_POSITION: usize = 2;

/// The bytes at the end of a sort key in which copies of a row may differ: `_generation` has one for null and eight for the
/// number, `_rescued` and each column of a lookup have two.
const GENERATION_BYTES: usize = 9;
const FLAG_BYTES: usize = 2;

/// The order of a dataset's rows.
#[derive(Debug)]
pub(super) struct RowOrder {
    converter: RowConverter,
    /// The columns that identify rows, in the order in which rows are sorted by them.
    columns: Vec<usize>,
    /// If rows of one item are compared: encoders of the columns of the item, and of those up to `_position`.
    prefixes: Option<[RowConverter; 2]>,
    /// The expired lives of an item whose rows are current.
    expired: ExpiredRows,
    operation: usize,
    changed_at: usize,
    generation: usize,
    rescued: usize,
    /// The columns that are outputs of lookups.
    looked_up: Vec<usize>,
}

/// The columns by which rows are sorted, and whether rows of one item are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrderPurpose {
    /// By item; every row stays.
    History,
    /// By item; rows of one item are compared.
    Newest,
    /// By the dataset's `sort` columns, then by item; every row stays.
    Readers,
}

impl RowOrder {
    pub(super) fn new(
        dataset: &Dataset,
        schema: &Schema,
        purpose: OrderPurpose,
        expired: ExpiredRows,
    ) -> Result<Self, ArrowError> {
        let leading: &[usize] = match purpose {
            OrderPurpose::History | OrderPurpose::Newest => &[],
            OrderPurpose::Readers => &dataset.sort,
        };
        let mut columns = Vec::new();
        for column in leading.iter().chain(&dataset.key).filter_map(|at| dataset.columns.get(*at)) {
            let at = schema.index_of(&column.name)?;
            if !columns.contains(&at) {
                columns.push(at);
            }
        }
        let item = RowConverter::new(sort_fields(schema, &columns))?;
        columns.push(schema.index_of(POSITION)?);
        let prefixes = match purpose {
            OrderPurpose::History | OrderPurpose::Readers => None,
            OrderPurpose::Newest => Some([item, RowConverter::new(sort_fields(schema, &columns))?]),
        };
        let (operation, changed_at) = (schema.index_of(OPERATION)?, schema.index_of(CHANGED_AT)?);
        columns.extend([operation, changed_at]);
        let mut fields = sort_fields(schema, &columns);
        let greatest_first = SortOptions { descending: true, nulls_first: false };
        fields.push(SortField::new_with_options(DataType::Int64, greatest_first));
        let looked_up = dataset.columns.iter().filter(|column| column.from.output_lookup().is_some());
        let looked_up =
            looked_up.map(|column| schema.index_of(&column.name)).collect::<Result<Vec<_>, _>>()?;
        fields.extend((0..=looked_up.len()).map(|_| SortField::new(DataType::Boolean)));
        Ok(Self {
            converter: RowConverter::new(fields)?,
            columns,
            prefixes,
            expired,
            operation,
            changed_at,
            generation: schema.index_of(GENERATION)?,
            rescued: schema.index_of(RESCUED)?,
            looked_up,
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
        columns.extend(self.looked_up.iter().map(|column| is_absent(batch.column(*column))));
        let rows = self.converter.convert_columns(&columns)?;
        let copy_bytes = GENERATION_BYTES + FLAG_BYTES * (1 + self.looked_up.len());
        let Some([item, position]) = &self.prefixes else {
            return Ok(RowKeys { rows, copy_bytes, changes: Vec::new() });
        };
        let position_columns = self.columns.len() - COLUMNS_AFTER_POSITION;
        let (position_columns, _) = columns.split_at(position_columns);
        let (item_columns, _) = position_columns.split_at(position_columns.len() - 1);
        let (items, positions) =
            (item.convert_columns(item_columns)?, position.convert_columns(position_columns)?);
        let operations = batch.column(self.operation).as_string::<i32>();
        let changed_at = batch.column(self.changed_at).as_primitive::<TimestampMillisecondType>();
        let changes = (0..batch.num_rows()).map(|row| KeyedChange {
            item_bytes: items.row_len(row),
            position_bytes: positions.row_len(row),
            kind: ChangeKind::of(operations.value(row), self.expired),
            changed_at: changed_at.is_valid(row).then(|| changed_at.value(row)),
        });
        Ok(RowKeys { rows, copy_bytes, changes: changes.collect() })
    }
}

fn sort_fields(schema: &Schema, columns: &[usize]) -> Vec<SortField> {
    columns.iter().map(|at| SortField::new(schema.field(*at).data_type().clone())).collect()
}

/// For each row, whether a column has no value.
fn is_absent(column: &ArrayRef) -> ArrayRef {
    let none = || BooleanBuffer::new_unset(column.len());
    let absent = column.nulls().map_or_else(none, |nulls| !nulls.inner());
    Arc::new(BooleanArray::new(absent, None))
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
    /// How many bytes at the end of a key may differ between copies of a row.
    copy_bytes: usize,
    /// Aligned with the rows; empty if rows of one item are not compared.
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

    pub(super) fn copy_bytes(&self) -> usize {
        self.copy_bytes
    }

    pub(super) fn change(&self, row: usize) -> Option<KeyedChange> {
        self.changes.get(row).copied()
    }
}

/// The fields that decide whether a row outdates another.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyedChange {
    /// How many bytes of the sort key identify the item.
    pub(super) item_bytes: usize,
    /// How many bytes of the sort key identify the item and the position.
    pub(super) position_bytes: usize,
    pub(super) kind: ChangeKind,
    pub(super) changed_at: Option<i64>,
}

/// The state of the item that a row reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeKind {
    /// It exists, or its only life has expired and stays counted.
    Existing,
    /// It existed when the table was read.
    Snapshot,
    /// It is gone.
    Gone,
    /// It expired, and this life of it stays counted.
    Expired,
}

impl ChangeKind {
    fn of(operation: &str, expired: ExpiredRows) -> Self {
        let is = |other: RowOperation| operation == other.name();
        if is(RowOperation::Snapshot) {
            Self::Snapshot
        } else if is(RowOperation::Expire) {
            match expired {
                ExpiredRows::NoLife => Self::Gone,
                ExpiredRows::EachLife => Self::Expired,
                // A row like any other: whatever happens to the key later, in another state table, is of the same life.
                ExpiredRows::NewestLife => Self::Existing,
            }
        } else if is(RowOperation::Remove) {
            Self::Gone
        } else {
            Self::Existing
        }
    }

    pub(super) fn is_snapshot(self) -> bool {
        self == Self::Snapshot
    }
}

/// How a row relates to the next one in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowRelation {
    /// Both stay.
    Distinct,
    /// They are copies: the next one is dropped.
    Identical,
    /// The next row outdates this one, which is dropped.
    Outdated,
}

/// How a row relates to the next one.
pub(super) fn relate(
    this: &[u8],
    change: Option<KeyedChange>,
    next: &[u8],
    next_change: Option<KeyedChange>,
    copy_bytes: usize,
) -> RowRelation {
    let without_copy = |key: &'_ [u8]| key.len().saturating_sub(copy_bytes);
    if this.get(..without_copy(this)) == next.get(..without_copy(next)) {
        return RowRelation::Identical;
    }
    let (Some(change), Some(next_change)) = (change, next_change) else { return RowRelation::Distinct };
    let are_equal =
        |bytes: usize, next_bytes: usize| bytes == next_bytes && this.get(..bytes) == next.get(..bytes);
    if !are_equal(change.item_bytes, next_change.item_bytes) {
        return RowRelation::Distinct;
    }
    if change.kind == ChangeKind::Expired {
        return RowRelation::Distinct;
    }
    let both_times = change.changed_at.zip(next_change.changed_at);
    let is_outdated = match (change.kind.is_snapshot(), next_change.kind.is_snapshot()) {
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
