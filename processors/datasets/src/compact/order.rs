//! In which order rows lie in a compacted file, and which of them need not lie there.
//!
//! The order is that of the dataset's `sort` columns, then of its key, then of `_position`, `_operation` and `_changed_at`; null
//! first, text by its bytes. Rows are compared as bytes in which that order is encoded (`arrow-row`), not value by value. What is
//! equal so far is the same row, made once or more often: that of the model's latest `_generation` comes first, and stays; of
//! several, one that is whole, with nothing in `_rescued`.
//!
//! The newest row of a key, as the views tell it: with `s` the time of the key's newest snapshot, a row of the stream counts
//! if its `_changed_at` is null or later than `s` − 15 minutes. The row with the greatest `_position` of those is the newest;
//! if there is none, the newest snapshot is. A row may go ([`Fate::Outdated`]) if the row after it is of the same key and
//!
//! - both are of the stream, the later one has the greater position, and counts whenever the earlier one does; or
//! - both are snapshots and the later one is newer; or
//! - the later one is a snapshot, and newer than the earlier one, of the stream, by 15 minutes or more.
//!
//! What is outdated so is outdated by the row that outdates that one, too; so it does not matter that that one may go next. And
//! whatever else there is of the key elsewhere can only add to what is beaten, never take from it. The newest snapshot always
//! stays: it decides what counts.

use std::sync::Arc;

use afterwrite::table::{Dataset, RowHistory};
use afterwrite::{Error, ErrorKind, Result};
use arrow_array::cast::AsArray as _;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{Array as _, ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{ArrowError, DataType, Schema, SortOptions};

use crate::schema::{CHANGED_AT, GENERATION, OPERATION, POSITION, RESCUED};

/// How much later a snapshot must have been taken than a change was made, to know of it for certain.
const SNAPSHOT_LAG_MS: i64 = 15 * 60 * 1000;
const SNAPSHOT: &str = "SNAPSHOT";

/// How many bytes at the end of a row's key tell it from its copies: of the generation one that tells null, and eight; of whether
/// something was rescued two.
const COPY_BYTES: usize = 11;

/// The order of a dataset's rows.
#[derive(Debug)]
pub(super) struct Order {
    converter: RowConverter,
    /// Where the columns lie that tell rows apart, in the order in which rows are sorted by them.
    columns: Vec<usize>,
    /// If outdated rows go: encode the columns up to the key, and those up to `_position`.
    prefixes: Option<[RowConverter; 2]>,
    operation: usize,
    changed_at: usize,
    generation: usize,
    rescued: usize,
}

impl Order {
    pub(super) fn new(dataset: &Dataset, schema: &Schema) -> Result<Self> {
        let unsorted = |error: ArrowError| {
            Error::new(ErrorKind::State, "the rows of a dataset cannot be sorted")
                .with("dataset", &*dataset.name)
                .caused_by(error)
        };
        let mut columns = Vec::new();
        for column in dataset.sort.iter().chain(&dataset.key).filter_map(|at| dataset.columns.get(*at)) {
            let at = schema.index_of(&column.name).map_err(unsorted)?;
            if !columns.contains(&at) {
                columns.push(at);
            }
        }
        let own = |name| schema.index_of(name).map_err(unsorted);
        let (position, operation, changed_at) = (own(POSITION)?, own(OPERATION)?, own(CHANGED_AT)?);
        let (generation, rescued) = (own(GENERATION)?, own(RESCUED)?);
        let fields = |columns: &[usize]| -> Vec<SortField> {
            columns.iter().map(|at| SortField::new(schema.field(*at).data_type().clone())).collect()
        };
        let converter = |columns: &[usize]| RowConverter::new(fields(columns)).map_err(unsorted);
        let item = converter(&columns)?;
        columns.push(position);
        let prefixes = match dataset.history {
            RowHistory::All => None,
            RowHistory::Newest => Some([item, converter(&columns)?]),
        };
        columns.extend([operation, changed_at]);
        let mut fields = fields(&columns);
        let latest_first = SortOptions { descending: true, nulls_first: false };
        fields.push(SortField::new_with_options(DataType::Int64, latest_first));
        fields.push(SortField::new(DataType::Boolean));
        let converter = RowConverter::new(fields).map_err(unsorted)?;
        Ok(Self { converter, columns, prefixes, operation, changed_at, generation, rescued })
    }

    /// Where the columns lie that tell rows apart, in the order in which rows are sorted by them.
    pub(super) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The keys of a batch's rows.
    pub(super) fn keys(&self, batch: &RecordBatch) -> Result<Keys> {
        let mut columns: Vec<_> = self.columns.iter().map(|at| batch.column(*at).clone()).collect();
        columns.extend([batch.column(self.generation).clone(), is_there(batch.column(self.rescued))]);
        let encode = |converter: &RowConverter, but: usize| {
            let columns = columns.get(..columns.len() - but).unwrap_or_default();
            converter
                .convert_columns(columns)
                .map_err(|error| Error::new(ErrorKind::State, "rows cannot be compared").caused_by(error))
        };
        let rows = encode(&self.converter, 0)?;
        let Some([item, position]) = &self.prefixes else { return Ok(Keys { rows, changes: Vec::new() }) };
        let (items, positions) = (encode(item, 5)?, encode(position, 4)?);
        let operations = batch.column(self.operation).as_string::<i32>();
        let changed_at = batch.column(self.changed_at).as_primitive::<TimestampMillisecondType>();
        let change = |row: usize| Change {
            item_bytes: items.row_len(row),
            position_bytes: positions.row_len(row),
            is_snapshot: operations.value(row) == SNAPSHOT,
            changed_at: changed_at.is_valid(row).then(|| changed_at.value(row)),
        };
        Ok(Keys { rows, changes: (0..batch.num_rows()).map(change).collect() })
    }
}

/// Which rows have a value.
fn is_there(column: &ArrayRef) -> ArrayRef {
    let all = || BooleanBuffer::new_set(column.len());
    let is_there = column.nulls().map_or_else(all, |nulls| nulls.inner().clone());
    Arc::new(BooleanArray::new(is_there, None))
}

/// The keys of a batch's rows: bytes that compare as the rows do.
#[derive(Debug)]
pub(super) struct Keys {
    rows: Rows,
    /// Aligned with the rows; empty if nothing outdated goes.
    changes: Vec<Change>,
}

impl Keys {
    pub(super) fn len(&self) -> usize {
        self.rows.num_rows()
    }

    /// The bytes that they take.
    pub(super) fn size(&self) -> usize {
        self.rows.size() + self.changes.capacity() * size_of::<Change>()
    }

    pub(super) fn bytes(&self, row: usize) -> &[u8] {
        self.rows.row(row).data()
    }

    pub(super) fn change(&self, row: usize) -> Option<Change> {
        self.changes.get(row).copied()
    }
}

/// What tells whether a row outdates another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    /// How many of the key's bytes tell the item.
    item_bytes: usize,
    /// How many of them tell the item and the position.
    position_bytes: usize,
    is_snapshot: bool,
    changed_at: Option<i64>,
}

/// What becomes of two rows that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Both stay.
    Kept,
    /// They are the same row: the later one goes.
    Identical,
    /// The earlier one goes.
    Outdated,
}

/// How many rows went, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Thinned {
    pub(super) duplicates: u64,
    pub(super) outdated: u64,
}

impl Thinned {
    pub(super) fn add(&mut self, other: Self) {
        self.duplicates += other.duplicates;
        self.outdated += other.outdated;
    }
}

/// Drops rows from a sorted sequence, by what follows each. It is one row behind.
#[derive(Debug, Default)]
pub(super) struct Thinning<P> {
    last: Option<(P, Option<Change>)>,
    /// The key of `last`; kept for its allocation.
    bytes: Vec<u8>,
    pub(super) thinned: Thinned,
}

impl<P> Thinning<P> {
    pub(super) fn new() -> Self {
        Self { last: None, bytes: Vec::new(), thinned: Thinned::default() }
    }

    /// Takes the next row, at `place`; gives the one before, if it stays and is decided by this.
    pub(super) fn next(&mut self, place: P, keys: &Keys, row: usize) -> Option<P> {
        let (bytes, change) = (keys.bytes(row), keys.change(row));
        let fate = self.last.as_ref().map(|(_, last)| fate(&self.bytes, *last, bytes, change));
        if fate == Some(Fate::Identical) {
            self.thinned.duplicates += 1;
            return None;
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        let (last, _) = self.last.replace((place, change))?;
        if fate == Some(Fate::Outdated) {
            self.thinned.outdated += 1;
            return None;
        }
        Some(last)
    }

    /// The last row.
    pub(super) fn end(&mut self) -> Option<P> {
        self.last.take().map(|(place, _)| place)
    }

    /// Where the row lies that nothing is decided of yet.
    pub(super) fn last(&mut self) -> Option<&mut P> {
        self.last.as_mut().map(|(place, _)| place)
    }
}

fn fate(earlier: &[u8], one: Option<Change>, later: &[u8], other: Option<Change>) -> Fate {
    let told_apart = |key: &'_ [u8]| key.len().saturating_sub(COPY_BYTES);
    if earlier.get(..told_apart(earlier)) == later.get(..told_apart(later)) {
        return Fate::Identical;
    }
    let (Some(one), Some(other)) = (one, other) else { return Fate::Kept };
    let are_equal = |(one, other): (usize, usize)| one == other && earlier.get(..one) == later.get(..other);
    if !are_equal((one.item_bytes, other.item_bytes)) {
        return Fate::Kept;
    }
    let is_outdated = match (one.is_snapshot, other.is_snapshot) {
        (false, false) => {
            let counts_too = match (one.changed_at, other.changed_at) {
                (_, None) => true,
                (Some(earlier), Some(later)) => earlier <= later,
                (None, Some(_)) => false,
            };
            counts_too && !are_equal((one.position_bytes, other.position_bytes))
        }
        (true, true) => one.changed_at.zip(other.changed_at).is_some_and(|(one, other)| one < other),
        (false, true) => one
            .changed_at
            .zip(other.changed_at)
            .is_some_and(|(change, snapshot)| change <= snapshot.saturating_sub(SNAPSHOT_LAG_MS)),
        (true, false) => false,
    };
    if is_outdated { Fate::Outdated } else { Fate::Kept }
}
