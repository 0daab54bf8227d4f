//! Compacting one partition.

use std::collections::BTreeSet;

use afterwrite::clock::Clock;
use afterwrite::sink::{Bucket, ListedObject, ObjectBody, PutOutcome};
use afterwrite::table::Model;
use afterwrite::{Error, ErrorKind, Result};

use super::batches::unsortable;
use super::files::{group_files, is_worth_compacting, list_needed_files};
use super::inputs::CompactionInputs;
use super::manifest::CompactionManifest;
use super::options::CompactionOptions;
use super::order::RowOrder;
use super::output::{OutputFile, OutputWriter};
use super::run::CompactionRun;
use super::sort::RowSorter;
use super::sweep::sweep_partition;
use super::totals::{CompactionTotals, count};
use crate::paths::DatasetPartition;
use crate::schema::fingerprint;

/// Compacts one partition.
pub(super) struct PartitionCompactor<'c, B, C> {
    pub(super) model: &'c Model,
    pub(super) bucket: &'c B,
    pub(super) options: &'c CompactionOptions,
    pub(super) clock: &'c C,
    pub(super) partition: DatasetPartition<'c>,
}

impl<B: Bucket, C: Clock> PartitionCompactor<'_, B, C> {
    /// Removes what was superseded a grace period ago, then compacts the small files.
    pub(super) async fn compact(&self, totals: &mut CompactionTotals) -> Result<()> {
        let now = self.clock.now();
        totals.partitions += 1;
        totals.files_removed +=
            sweep_partition(self.bucket, &self.partition, self.options.grace_period, now).await?;
        let mut files = list_needed_files(self.bucket, &self.partition).await?;
        files.retain(|file| file.size < self.options.small_file_bytes);
        for group in group_files(files, self.options.group_bytes) {
            Box::pin(self.compact_group(&group, totals)).await?;
        }
        Ok(())
    }

    async fn compact_group(&self, files: &[ListedObject], totals: &mut CompactionTotals) -> Result<()> {
        let begun = self.clock.now();
        let Some(inputs) = CompactionInputs::fetch(self.bucket, self.partition.dataset, files).await? else {
            totals.overtaken += 1;
            return Ok(());
        };
        totals.files_left_alone += count(inputs.left_alone);
        if !is_worth_compacting(inputs.keys()) {
            return Ok(());
        }
        let keys = inputs.keys().map(str::to_owned).collect();
        let files = self.sort(inputs, totals)?;
        let rows: u64 = files.iter().map(|file| file.rows).sum();
        // The run begins after all files are written: a compaction that fails for lack of disk leaves nothing in the bucket,
        // however often it is retried.
        let run = CompactionRun::begin(self.bucket, &self.partition, begun).await?;
        let outputs = self.upload(&run, files, totals).await?;
        let fingerprint = fingerprint(self.model, self.partition.dataset);
        let manifest = CompactionManifest { inputs: keys, outputs, fingerprint };
        let has_committed = self.commit(&run, &manifest).await?;
        totals.overtaken += u64::from(!has_committed);
        tracing::info!(
            dataset = &*self.partition.dataset.name,
            day = self.partition.day,
            files_in = manifest.inputs.len(),
            files_out = manifest.outputs.len(),
            rows,
            "files of a partition were compacted"
        );
        Ok(())
    }

    /// Sorts the rows of the inputs into temporary files.
    fn sort(&self, inputs: CompactionInputs, totals: &mut CompactionTotals) -> Result<Vec<OutputFile>> {
        let CompactionOptions { memory_bytes, target_file_bytes, .. } = *self.options;
        let order = RowOrder::new(self.partition.dataset, &inputs.schema).map_err(unsortable)?;
        let mut output = OutputWriter::new(inputs.schema.clone(), &order, target_file_bytes)?;
        let mut sorter = RowSorter::new(&order, memory_bytes, target_file_bytes);
        let mut rows_in = 0;
        for input in &inputs.files {
            totals.files_in += 1;
            totals.bytes_in += input.bytes;
            for batch in input.batches(&inputs.schema)? {
                let batch = batch?;
                rows_in += count(batch.num_rows());
                sorter.push(batch)?;
            }
        }
        // Their disk is needed for the outputs.
        drop(inputs);
        let dropped = sorter.finish(|batch| output.write(batch))?;
        let files = output.finish()?;
        let rows_out = files.iter().map(|file| file.rows).sum::<u64>();
        if rows_out + dropped.duplicates + dropped.outdated != rows_in {
            let message = "rows went missing during sorting; nothing is superseded";
            return Err(Error::new(ErrorKind::State, message));
        }
        totals.rows_in += rows_in;
        totals.rows_out += rows_out;
        totals.duplicates += dropped.duplicates;
        totals.outdated += dropped.outdated;
        Ok(files)
    }

    /// Uploads the files of a run; returns their keys.
    async fn upload(
        &self,
        run: &CompactionRun<'_>,
        files: Vec<OutputFile>,
        totals: &mut CompactionTotals,
    ) -> Result<Vec<String>> {
        let mut keys = Vec::with_capacity(files.len());
        for OutputFile { file, bytes, .. } in files {
            let key = run.file(keys.len());
            // No other run uses this key: an object that exists already is this file, and only the response was lost.
            let (PutOutcome::Written | PutOutcome::AlreadyExists) =
                self.bucket.put_new(&key, ObjectBody::File(file.path().to_owned())).await?;
            totals.files_out += 1;
            totals.bytes_out += bytes;
            keys.push(key);
        }
        Ok(keys)
    }

    /// Writes the manifest and ends the run; returns `false` if another compactor was faster: this run's files are then swept
    /// like those of a dead compactor.
    async fn commit(&self, run: &CompactionRun<'_>, manifest: &CompactionManifest) -> Result<bool> {
        // Inputs that another compactor has superseded are in its outputs, even if its manifest has been swept since.
        let needed = list_needed_files(self.bucket, &self.partition).await?;
        let needed: BTreeSet<&str> = needed.iter().map(|file| &*file.key).collect();
        let mut own = manifest.inputs.iter().chain(&manifest.outputs);
        if run.is_late(self.clock.now()) || !own.all(|key| needed.contains(&**key)) {
            return Ok(false);
        }
        let has_committed = manifest.commit(self.bucket, &self.partition).await?;
        if has_committed {
            run.end(self.bucket).await?;
        }
        Ok(has_committed)
    }
}
