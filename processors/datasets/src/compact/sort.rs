//! Sorting rows within a memory budget.
//!
//! Rows are collected until the budget is full, and a *run* of them is sorted; if there are several, each goes to a temporary file
//! (Arrow IPC, uncompressed), and they are merged. What is sorted is 16 bytes a row: eight bytes of its key, and where it
//! lies. Rows whose eight bytes are equal are sorted by their next ones, and so on, beginning where they first differ; so
//! most comparisons are of neighbouring numbers, and touch no row.

use std::fs::File;
use std::io::{BufWriter, Seek as _, SeekFrom, Write as _};

use afterwrite::{Error, ErrorKind, Result};
use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::ArrowError;
use arrow_select::interleave::interleave_record_batch;

use super::inputs::{rows_of, temporary};
use super::merge::Merge;
use super::order::{Keys, Order, Thinned, Thinning};
use super::partition::count;

/// How much is held at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// Bytes of a run.
    pub(super) memory: u64,
    /// Bytes of a sorted batch, roughly.
    pub(super) batch: u64,
}

impl Budget {
    /// A sorted batch as it is written.
    pub(super) const BATCH: u64 = 4 * 1024 * 1024;
    /// A batch of a spilled run: of every run one is held while they are merged.
    const SPILLED: u64 = 1024 * 1024;
}

/// Collects rows and sorts them.
pub(super) struct Sorter<'o> {
    order: &'o Order,
    budget: Budget,
    batches: Vec<RecordBatch>,
    keys: Vec<Keys>,
    /// Bytes of the batches and keys held.
    held: u64,
    /// Bytes and rows of all that was pushed: how large a row is.
    bytes: u64,
    rows: u64,
    spilled: Vec<File>,
    thinned: Thinned,
}

/// Rows in order, batch by batch.
pub(super) enum Sorted<'o> {
    /// They are all in memory.
    Run(Box<Run>),
    /// They lie in temporary files.
    Merge(Box<Merge<'o>>),
}

impl<'o> Sorter<'o> {
    pub(super) fn new(order: &'o Order, budget: Budget) -> Self {
        Self {
            order,
            budget,
            batches: Vec::new(),
            keys: Vec::new(),
            held: 0,
            bytes: 0,
            rows: 0,
            spilled: Vec::new(),
            thinned: Thinned::default(),
        }
    }

    /// Takes more rows. Of identical ones those stay that came first.
    pub(super) fn push(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let keys = self.order.keys(&batch)?;
        let bytes = count(batch.get_array_memory_size() + keys.size() + batch.num_rows() * size_of::<u128>());
        if self.held + bytes > self.budget.memory && !self.batches.is_empty() {
            self.spill()?;
        }
        self.held += bytes;
        self.bytes += bytes;
        self.rows += count(batch.num_rows());
        self.batches.push(batch);
        self.keys.push(keys);
        Ok(())
    }

    /// Sorts what it has.
    fn run(&mut self, batch_bytes: u64) -> Run {
        self.held = 0;
        let rows = self.batch_rows(batch_bytes);
        Run::sort(std::mem::take(&mut self.batches), std::mem::take(&mut self.keys), rows)
    }

    fn batch_rows(&self, batch_bytes: u64) -> usize {
        rows_of(batch_bytes, self.bytes, self.rows)
    }

    fn spill(&mut self) -> Result<()> {
        let mut run = self.run(self.budget.batch.min(Budget::SPILLED));
        let unwritten = |error: ArrowError| temporary(error.into());
        let file = tempfile::tempfile().map_err(|error| temporary(error.into()))?;
        let Some(schema) = run.batches.first().map(RecordBatch::schema) else { return Ok(()) };
        let mut writer =
            StreamWriter::try_new(BufWriter::with_capacity(1 << 18, file), &schema).map_err(unwritten)?;
        while let Some(batch) = run.next()? {
            writer.write(&batch).map_err(unwritten)?;
        }
        self.thinned.add(run.thinned());
        let mut file = writer.into_inner().map_err(unwritten)?;
        file.flush().map_err(|error| temporary(error.into()))?;
        let mut file = file.into_inner().map_err(|error| temporary(error.into_error().into()))?;
        file.seek(SeekFrom::Start(0)).map_err(|error| temporary(error.into()))?;
        self.spilled.push(file);
        Ok(())
    }

    /// The rows in order.
    pub(super) fn finish(mut self) -> Result<Sorted<'o>> {
        if self.spilled.is_empty() {
            return Ok(Sorted::Run(Box::new(self.run(self.budget.batch))));
        }
        self.spill()?;
        let rows = self.batch_rows(self.budget.batch);
        Merge::new(self.order, self.spilled, rows, self.thinned).map(Box::new).map(Sorted::Merge)
    }
}

impl Sorted<'_> {
    /// The next batch of rows.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        match self {
            Self::Run(run) => run.next(),
            Self::Merge(merge) => merge.next(),
        }
    }

    /// How many rows went; all of them once the last batch has come.
    pub(super) fn thinned(&self) -> Thinned {
        match self {
            Self::Run(run) => run.thinned(),
            Self::Merge(merge) => merge.thinned(),
        }
    }
}

/// Sorted rows in memory.
pub(super) struct Run {
    batches: Vec<RecordBatch>,
    keys: Vec<Keys>,
    entries: std::vec::IntoIter<u128>,
    /// How many rows a batch has.
    rows: usize,
    thinning: Thinning<(usize, usize)>,
}

impl Run {
    fn sort(batches: Vec<RecordBatch>, keys: Vec<Keys>, rows: usize) -> Self {
        let mut entries: Vec<u128> = Vec::with_capacity(keys.iter().map(Keys::len).sum());
        for (batch, keys) in keys.iter().enumerate() {
            entries.extend((0..keys.len()).map(|row| entry(batch, row)));
        }
        sort(&mut entries, &keys);
        Self { batches, keys, entries: entries.into_iter(), rows, thinning: Thinning::new() }
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        let mut chosen = Vec::with_capacity(self.rows);
        for entry in self.entries.by_ref() {
            let place = place(entry);
            let Some(keys) = self.keys.get(place.0) else { continue };
            chosen.extend(self.thinning.next(place, keys, place.1));
            if chosen.len() >= self.rows {
                break;
            }
        }
        if chosen.len() < self.rows {
            chosen.extend(self.thinning.end());
        }
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        gather(&batches, &chosen)
    }

    fn thinned(&self) -> Thinned {
        self.thinning.thinned
    }
}

/// These rows of these batches as one; `None` for no rows.
pub(super) fn gather(batches: &[&RecordBatch], rows: &[(usize, usize)]) -> Result<Option<RecordBatch>> {
    if rows.is_empty() {
        return Ok(None);
    }
    let unsorted = |error| Error::new(ErrorKind::State, "rows cannot be put in order").caused_by(error);
    interleave_record_batch(batches, rows).map(Some).map_err(unsorted)
}

/// Eight bytes of a key to come, then the batch, then the row: compares by the key and, where it is equal, by what came first.
fn entry(batch: usize, row: usize) -> u128 {
    let number = |index: usize| u128::from(u32::try_from(index).unwrap_or(u32::MAX));
    number(batch) << 32 | number(row)
}

/// The batch and the row of an entry.
fn place(entry: u128) -> (usize, usize) {
    let index = |bits: u128| usize::try_from(bits & u128::from(u32::MAX)).unwrap_or(usize::MAX);
    (index(entry >> 32), index(entry))
}

/// Sorts entries by the keys of their rows.
fn sort(entries: &mut [u128], keys: &[Keys]) {
    const PLACE: u128 = (1 << 64) - 1;
    let key = |entry: u128| {
        let (batch, row) = place(entry);
        keys.get(batch).map_or(&[][..], |keys| keys.bytes(row))
    };
    // Ranges whose keys are equal up to a byte; each is sorted by what follows. Keys are no prefixes of each other, so one that
    // ends sooner has differed before, or is the same.
    let mut unsorted = vec![(0..entries.len(), 0)];
    while let Some((range, equal)) = unsorted.pop() {
        let Some(range_entries) = entries.get_mut(range.clone()) else { continue };
        let Some(first) = range_entries.first().map(|first| key(*first)) else { continue };
        let after = |key: &'_ [u8]| key.len().min(equal);
        let rest = first.get(after(first)..).unwrap_or_default();
        let mut common = rest.len();
        for entry in range_entries.iter().skip(1) {
            let other = key(*entry);
            let other = other.get(after(other)..).unwrap_or_default();
            let shared = rest.get(..common).unwrap_or_default();
            if !other.starts_with(shared) {
                common = shared.iter().zip(other).take_while(|(one, other)| one == other).count();
            }
        }
        let begun = equal + common;
        for entry in range_entries.iter_mut() {
            let mut bytes = [0; 8];
            let rest = key(*entry).get(begun..).unwrap_or_default();
            bytes.iter_mut().zip(rest).for_each(|(byte, next)| *byte = *next);
            *entry = u128::from(u64::from_be_bytes(bytes)) << 64 | *entry & PLACE;
        }
        range_entries.sort_unstable();
        if common == first.len() - after(first) {
            // The first key has ended, so all are the same.
            continue;
        }
        let mut begin = range.start;
        for equals in range_entries.chunk_by(|one, other| one >> 64 == other >> 64) {
            if equals.len() > 1 {
                unsorted.push((begin..begin + equals.len(), begun + 8));
            }
            begin += equals.len();
        }
    }
}
