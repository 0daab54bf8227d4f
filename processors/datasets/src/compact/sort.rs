//! Sorting rows within a memory budget.
//!
//! Rows are collected until the budget is full, and sorted as a *run*. If there are several runs, each is spilled to a temporary
//! file, and the runs are merged. Sorting moves 16 bytes per row: eight bytes of its sort key, and its place. Rows with equal
//! eight bytes are sorted by the next eight after the first byte in which they differ, and so on. So most comparisons compare
//! neighbouring numbers and touch no row.

use afterwrite_model::Result;
use arrow_array::RecordBatch;
use tempfile::SpooledTempFile;

use super::batches::{BATCH_BYTES, RowPlace, gather_rows, rows_per_batch, unsortable};
use super::filter::{DroppedRows, RowFilter, RowSelection};
use super::merge::RunMerger;
use super::order::{RowKeys, RowOrder};
use super::temporary::spill_batches;
use super::totals::count;

/// The size of a batch of a spilled run: merging holds one batch of each run in memory.
const SPILLED_BATCH_BYTES: u64 = 1024 * 1024;

/// Collects rows and sorts them.
pub(super) struct RowSorter<'o> {
    order: &'o RowOrder,
    /// Which rows stay in the end. Of a run that is spilled, all rows stay that could.
    selection: RowSelection,
    /// The maximum size of a run in memory.
    memory_bytes: u64,
    /// The approximate size of a sorted batch.
    batch_bytes: u64,
    batches: Vec<RecordBatch>,
    keys: Vec<RowKeys>,
    /// The size of the batches and keys.
    held_bytes: u64,
    /// The size and number of all rows that were pushed: they tell the size of one row.
    bytes: u64,
    rows: u64,
    spilled: Vec<SpooledTempFile>,
    /// Rows dropped from the spilled runs.
    dropped: DroppedRows,
}

impl<'o> RowSorter<'o> {
    /// A sorter for files of this size: several batches make a file.
    pub(super) fn new(
        order: &'o RowOrder,
        selection: RowSelection,
        memory_bytes: u64,
        target_file_bytes: u64,
    ) -> Self {
        Self {
            order,
            selection,
            memory_bytes,
            batch_bytes: (target_file_bytes / 8).min(BATCH_BYTES),
            batches: Vec::new(),
            keys: Vec::new(),
            held_bytes: 0,
            bytes: 0,
            rows: 0,
            spilled: Vec::new(),
            dropped: DroppedRows::default(),
        }
    }

    /// Adds rows. Copies of a row stay in the order in which they were added.
    pub(super) fn push(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let keys = self.order.keys(&batch).map_err(unsortable)?;
        let bytes = count(batch.get_array_memory_size() + keys.size() + batch.num_rows() * size_of::<u128>());
        if self.held_bytes + bytes > self.memory_bytes && !self.batches.is_empty() {
            self.spill()?;
        }
        self.held_bytes += bytes;
        self.bytes += bytes;
        self.rows += count(batch.num_rows());
        self.batches.push(batch);
        self.keys.push(keys);
        Ok(())
    }

    /// Sorts the rows in memory.
    fn sort(&mut self, selection: RowSelection, batch_bytes: u64) -> MemoryRun {
        self.held_bytes = 0;
        let (batches, keys) = (std::mem::take(&mut self.batches), std::mem::take(&mut self.keys));
        let filter = RowFilter::new(selection, self.dropped);
        MemoryRun::new(batches, keys, self.batch_rows(batch_bytes), filter)
    }

    fn batch_rows(&self, batch_bytes: u64) -> usize {
        rows_per_batch(batch_bytes, self.bytes, self.rows)
    }

    fn spill(&mut self) -> Result<()> {
        let Some(schema) = self.batches.first().map(RecordBatch::schema) else { return Ok(()) };
        let mut run = self.sort(RowSelection::Log, self.batch_bytes.min(SPILLED_BATCH_BYTES));
        self.spilled.push(spill_batches(&schema, || run.next_batch())?);
        self.dropped = run.filter.dropped();
        Ok(())
    }

    /// Writes all rows in order, batch by batch; returns how many were dropped.
    pub(super) fn finish(mut self, mut write: impl FnMut(&RecordBatch) -> Result<()>) -> Result<DroppedRows> {
        if self.spilled.is_empty() {
            let mut run = self.sort(self.selection, self.batch_bytes);
            while let Some(batch) = run.next_batch()? {
                write(&batch)?;
            }
            return Ok(run.filter.dropped());
        }
        self.spill()?;
        let batch_rows = self.batch_rows(self.batch_bytes);
        let filter = RowFilter::new(self.selection, self.dropped);
        let mut merger = RunMerger::new(self.order, self.spilled, batch_rows, filter)?;
        while let Some(batch) = merger.next_batch()? {
            write(&batch)?;
        }
        Ok(merger.filter.dropped())
    }
}

/// A run in memory.
struct MemoryRun {
    batches: Vec<RecordBatch>,
    keys: Vec<RowKeys>,
    entries: std::vec::IntoIter<u128>,
    /// How many rows a batch has.
    batch_rows: usize,
    filter: RowFilter<RowPlace>,
}

impl MemoryRun {
    fn new(
        batches: Vec<RecordBatch>,
        keys: Vec<RowKeys>,
        batch_rows: usize,
        filter: RowFilter<RowPlace>,
    ) -> Self {
        let mut entries: Vec<u128> = Vec::with_capacity(keys.iter().map(RowKeys::len).sum());
        for (batch, keys) in keys.iter().enumerate() {
            entries.extend((0..keys.len()).map(|row| entry_of((batch, row))));
        }
        sort_entries(&mut entries, &keys);
        Self { batches, keys, entries: entries.into_iter(), batch_rows, filter }
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let mut chosen = Vec::with_capacity(self.batch_rows);
        for entry in self.entries.by_ref() {
            let place = place_of(entry);
            let Some(keys) = self.keys.get(place.0) else { continue };
            self.filter.push(place, keys, place.1, &mut chosen);
            if chosen.len() >= self.batch_rows {
                break;
            }
        }
        if chosen.len() < self.batch_rows {
            self.filter.finish(&mut chosen);
        }
        gather_rows(&self.batches, &chosen)
    }
}

/// An entry: eight bytes of a sort key (zero at first), then the batch, then the row. Compares by the key, and then by which row
/// came first.
fn entry_of((batch, row): RowPlace) -> u128 {
    let number = |index: usize| u128::from(u32::try_from(index).unwrap_or(u32::MAX));
    number(batch) << 32 | number(row)
}

fn place_of(entry: u128) -> RowPlace {
    let index = |bits: u128| usize::try_from(bits & u128::from(u32::MAX)).unwrap_or(usize::MAX);
    (index(entry >> 32), index(entry))
}

/// The sort key of an entry's row, from a byte on.
fn key_from(keys: &[RowKeys], entry: u128, begin: usize) -> &[u8] {
    let (batch, row) = place_of(entry);
    keys.get(batch).and_then(|keys| keys.bytes(row).get(begin..)).unwrap_or_default()
}

/// Sorts entries by the sort keys of their rows.
fn sort_entries(entries: &mut [u128], keys: &[RowKeys]) {
    const PLACE: u128 = (1 << 64) - 1;
    // Ranges of entries whose keys are equal up to a byte; each is sorted by what follows. No key is a prefix of another.
    let mut unsorted = vec![(0..entries.len(), 0)];
    while let Some((range, equal)) = unsorted.pop() {
        let Some(part) = entries.get_mut(range.clone()) else { continue };
        let Some(common) = common_bytes(part, keys, equal) else { continue };
        let begin = equal + common;
        for entry in part.iter_mut() {
            let mut bytes = [0; 8];
            bytes.iter_mut().zip(key_from(keys, *entry, begin)).for_each(|(byte, next)| *byte = *next);
            *entry = u128::from(u64::from_be_bytes(bytes)) << 64 | *entry & PLACE;
        }
        part.sort_unstable();
        let mut start = range.start;
        for equals in part.chunk_by(|one, other| one >> 64 == other >> 64) {
            if equals.len() > 1 {
                unsorted.push((start..start + equals.len(), begin + 8));
            }
            start += equals.len();
        }
    }
}

/// How many bytes after `begin` all keys have in common; `None` if the keys are identical: their entries are in order already.
fn common_bytes(entries: &[u128], keys: &[RowKeys], begin: usize) -> Option<usize> {
    let first = key_from(keys, *entries.first()?, begin);
    let mut common = first;
    for entry in entries.iter().skip(1) {
        let other = key_from(keys, *entry, begin);
        if !other.starts_with(common) {
            let equal = common.iter().zip(other).take_while(|(one, other)| one == other).count();
            common = common.get(..equal).unwrap_or_default();
        }
    }
    (common.len() < first.len()).then_some(common.len())
}
