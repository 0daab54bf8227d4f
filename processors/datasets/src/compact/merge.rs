//! Merging sorted runs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use afterwrite_model::Result;
use arrow_array::RecordBatch;
use tempfile::SpooledTempFile;

use super::batches::{RowPlace, gather_rows, unsortable};
use super::filter::RowFilter;
use super::order::{RowKeys, RowOrder};
use super::temporary::SpilledBatches;

/// Merges sorted runs into one sequence.
pub(super) struct RunMerger<'o> {
    order: &'o RowOrder,
    runs: Vec<SpilledRun>,
    /// The sort key of the next row of each run that has one, and the run. Least first; among copies the row of the earlier run.
    heads: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
    /// The batches of the runs from which rows are still to be written.
    batches: Vec<RecordBatch>,
    /// How many rows a merged batch has.
    batch_rows: usize,
    /// The rows of the next merged batch.
    chosen: Vec<RowPlace>,
    /// Counts on from the rows that were dropped when the runs were made.
    pub(super) filter: RowFilter<RowPlace>,
}

/// A run that is being read.
struct SpilledRun {
    reader: SpilledBatches,
    keys: RowKeys,
    /// The index of the batch that it reads, in [`RunMerger::batches`].
    batch: usize,
    row: usize,
}

impl<'o> RunMerger<'o> {
    /// Merges the runs of these files.
    pub(super) fn new(
        order: &'o RowOrder,
        files: Vec<SpooledTempFile>,
        batch_rows: usize,
        filter: RowFilter<RowPlace>,
    ) -> Result<Self> {
        let mut merger = Self {
            order,
            runs: Vec::with_capacity(files.len()),
            heads: BinaryHeap::with_capacity(files.len()),
            batches: Vec::new(),
            batch_rows,
            chosen: Vec::new(),
            filter,
        };
        for file in files {
            let mut reader = SpilledBatches::open(file)?;
            let Some(batch) = reader.next_batch()? else { continue };
            let keys = order.keys(&batch).map_err(unsortable)?;
            let run = merger.runs.len();
            merger.heads.push(Reverse((keys.bytes(0).to_vec(), run)));
            merger.runs.push(SpilledRun { reader, keys, batch: run, row: 0 });
            merger.batches.push(batch);
        }
        Ok(merger)
    }

    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        while !self.heads.is_empty() || !self.filter.pending().is_empty() {
            // The rows of a batch that has been read to its end stay in memory until they are merged: limit the number of such
            // batches. Rows that are not decided yet may keep more of them: each turn may read one more.
            let max_batches = (self.runs.len() * 2 + 8).max(self.batches.len() + 1);
            while self.chosen.len() < self.batch_rows && self.batches.len() < max_batches {
                if !self.take_row()? {
                    self.filter.finish(&mut self.chosen);
                    break;
                }
            }
            let merged = gather_rows(&self.batches, &self.chosen)?;
            self.chosen.clear();
            self.release_batches();
            // Without a batch all rows read were dropped: there are more.
            if merged.is_some() {
                return Ok(merged);
            }
        }
        Ok(None)
    }

    /// Takes the least row; returns `false` if no row is left.
    fn take_row(&mut self) -> Result<bool> {
        let Some(mut head) = self.heads.peek_mut() else { return Ok(false) };
        let (key, run) = &mut head.0;
        let Some(run) = self.runs.get_mut(*run) else { return Ok(false) };
        self.filter.push((run.batch, run.row), &run.keys, run.row, &mut self.chosen);
        run.row += 1;
        if run.row == run.keys.len() {
            let Some(batch) = run.reader.next_batch()? else {
                PeekMut::pop(head);
                return Ok(true);
            };
            (run.keys, run.batch, run.row) =
                (self.order.keys(&batch).map_err(unsortable)?, self.batches.len(), 0);
            self.batches.push(batch);
        }
        key.clear();
        key.extend_from_slice(run.keys.bytes(run.row));
        Ok(true)
    }

    /// Releases the batches that have been merged completely.
    fn release_batches(&mut self) {
        let reading = self.runs.iter_mut().filter(|run| run.row < run.keys.len()).map(|run| &mut run.batch);
        let pending = self.filter.pending().into_iter().map(|(batch, _)| batch);
        let mut kept: Vec<usize> = Vec::new();
        for batch in reading.chain(pending) {
            let place = kept.iter().position(|one| one == batch).unwrap_or(kept.len());
            if place == kept.len() {
                kept.push(*batch);
            }
            *batch = place;
        }
        self.batches = kept.iter().filter_map(|batch| self.batches.get(*batch).cloned()).collect();
    }
}
