//! Merging sorted runs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::BufReader;

use afterwrite::Result;
use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;

use super::inputs::temporary;
use super::order::{Keys, Order, Thinned, Thinning};
use super::sort::gather;

/// Several sorted runs as one.
pub(super) struct Merge<'o> {
    order: &'o Order,
    runs: Vec<Run>,
    /// The next row of each run that has one, least first; among identical ones that of the earlier run.
    heads: BinaryHeap<Reverse<Head>>,
    /// What rows are taken from until they are written: the runs' batches.
    batches: Vec<RecordBatch>,
    /// How many rows a merged batch has.
    rows: usize,
    /// Which rows of which batches come next.
    chosen: Vec<(usize, usize)>,
    thinning: Thinning<(usize, usize)>,
    /// What went while the runs were made.
    before: Thinned,
}

/// A run as it is read.
struct Run {
    reader: StreamReader<BufReader<File>>,
    keys: Keys,
    /// Which of the merge's batches it reads.
    batch: usize,
    row: usize,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    key: Vec<u8>,
    run: usize,
}

impl<'o> Merge<'o> {
    pub(super) fn new(order: &'o Order, files: Vec<File>, rows: usize, before: Thinned) -> Result<Self> {
        let mut merge = Self {
            order,
            runs: Vec::with_capacity(files.len()),
            heads: BinaryHeap::with_capacity(files.len()),
            batches: Vec::new(),
            rows,
            chosen: Vec::new(),
            thinning: Thinning::new(),
            before,
        };
        for file in files {
            let reader = BufReader::with_capacity(1 << 18, file);
            let mut reader = StreamReader::try_new(reader, None).map_err(|error| temporary(error.into()))?;
            let Some(batch) = read(&mut reader)? else { continue };
            let keys = order.keys(&batch)?;
            let run = merge.runs.len();
            merge.heads.push(Reverse(Head { key: keys.bytes(0).to_vec(), run }));
            merge.runs.push(Run { reader, keys, batch: run, row: 0 });
            merge.batches.push(batch);
        }
        Ok(merge)
    }

    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        while !self.heads.is_empty() || self.thinning.last().is_some() {
            // The rows of a batch that is read to its end are still needed until they are merged, so not many such may come
            // together.
            let held_at_most = self.runs.len() * 2 + 8;
            while self.chosen.len() < self.rows && self.batches.len() < held_at_most {
                if !self.step()? {
                    self.chosen.extend(self.thinning.end());
                    break;
                }
            }
            let batches: Vec<&RecordBatch> = self.batches.iter().collect();
            let merged = gather(&batches, &self.chosen)?;
            self.chosen.clear();
            self.let_go();
            // If all rows that were read were dropped, there are more.
            if merged.is_some() {
                return Ok(merged);
            }
        }
        Ok(None)
    }

    pub(super) fn thinned(&self) -> Thinned {
        let mut thinned = self.before;
        thinned.add(self.thinning.thinned);
        thinned
    }

    /// Takes the least row; `false` if there is none.
    fn step(&mut self) -> Result<bool> {
        let Some(mut head) = self.heads.peek_mut() else { return Ok(false) };
        let Some(run) = self.runs.get_mut(head.0.run) else { return Ok(false) };
        self.chosen.extend(self.thinning.next((run.batch, run.row), &run.keys, run.row));
        run.row += 1;
        if run.row == run.keys.len() {
            let Some(batch) = read(&mut run.reader)? else {
                PeekMut::pop(head);
                return Ok(true);
            };
            (run.keys, run.batch, run.row) = (self.order.keys(&batch)?, self.batches.len(), 0);
            self.batches.push(batch);
        }
        head.0.key.clear();
        head.0.key.extend_from_slice(run.keys.bytes(run.row));
        Ok(true)
    }

    /// Lets go of the batches that nothing is read from any more.
    fn let_go(&mut self) {
        let mut kept = Vec::with_capacity(self.runs.len() + 1);
        let mut keep = |batch: &mut usize| {
            let place = kept.iter().position(|kept| kept == batch).unwrap_or(kept.len());
            if place == kept.len() {
                kept.push(*batch);
            }
            *batch = place;
        };
        let is_read = |run: &&mut Run| run.row < run.keys.len();
        self.runs.iter_mut().filter(is_read).for_each(|run| keep(&mut run.batch));
        if let Some((batch, _)) = self.thinning.last() {
            keep(batch);
        }
        self.batches = kept.iter().filter_map(|batch| self.batches.get(*batch).cloned()).collect();
    }
}

/// The next batch of a run that has rows.
fn read(reader: &mut StreamReader<BufReader<File>>) -> Result<Option<RecordBatch>> {
    reader
        .find(|batch| batch.as_ref().map_or(true, |batch| batch.num_rows() > 0))
        .transpose()
        .map_err(|error| temporary(error.into()))
}
