//! One partition: what of it is compacted together, and the steps of doing so.

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite::commit::{Clock as _, SystemClock};
use afterwrite::record::Timestamp;
use afterwrite::sink::{Bucket, ListedObject, ObjectBody, PutOutcome};
use afterwrite::table::Dataset;
use afterwrite::{Error, ErrorKind, Result};
use bytes::Bytes;
use lambda_runtime::tracing;

use super::inputs::{Fetched, Inputs};
use super::manifest::{Committed, Manifest, superseded};
use super::order::Order;
use super::output::{Output, Written};
use super::run::Run;
use super::sort::{Budget, Sorter};
use super::{Compacted, Compactor};
use crate::schema;

/// What begins the names of compacted files.
const COMPACTED: &str = "compacted-";
const PARQUET: &str = ".parquet";

/// How many files are compacted together at most: each is open meanwhile, and a Lambda function has 1,024 descriptors.
const FILES_AT_ONCE: usize = 500;

/// Where a dataset's files lie.
pub(super) fn files_of(dataset: &Dataset) -> String {
    format!("datasets/{}/", dataset.name)
}

/// Where a dataset's manifests lie.
pub(super) fn manifests_of(dataset: &Dataset) -> String {
    format!("compactions/{}/", dataset.name)
}

/// Whether what lies under this name in a partition is a Parquet file.
pub(super) fn is_file(name: &str) -> bool {
    name.ends_with(PARQUET) && !name.contains('/')
}

/// A dataset's rows of one day.
#[derive(Debug)]
pub(super) struct Partition<'m> {
    pub(super) dataset: &'m Dataset,
    pub(super) day: String,
}

impl Partition<'_> {
    fn files(&self) -> String {
        format!("{}dt={}/", files_of(self.dataset), self.day)
    }

    pub(super) fn manifests(&self) -> String {
        format!("{}dt={}/", manifests_of(self.dataset), self.day)
    }

    /// Its Parquet files.
    pub(super) async fn list_files<B: Bucket>(&self, bucket: &B) -> Result<Vec<ListedObject>> {
        let prefix = self.files();
        let mut files = bucket.list(&prefix).await?;
        files.retain(|file| file.key.strip_prefix(&prefix).is_some_and(is_file));
        Ok(files)
    }

    /// The key of a compacted file, or how it begins.
    pub(super) fn compacted(&self, rest: &str) -> String {
        format!("{}{COMPACTED}{rest}", self.files())
    }

    /// Whether a file is a compacted one.
    pub(super) fn is_compacted(key: &str) -> bool {
        key.rsplit('/').next().is_some_and(|name| name.starts_with(COMPACTED))
    }
}

impl<B: Bucket> Compactor<B> {
    pub(super) async fn compact_partition(
        &self,
        partition: &Partition<'_>,
        now: Timestamp,
    ) -> Result<Compacted> {
        let mut done = self.sweep(partition, now).await?;
        done.partitions = 1;
        let mut files = self.needed_files(partition).await?;
        files.retain(|file| file.size < self.options.small);
        for group in self.groups(files) {
            done += Box::pin(self.compact_group(partition, &group)).await?;
        }
        Ok(done)
    }

    /// The files that no manifest says are superseded.
    async fn needed_files(&self, partition: &Partition<'_>) -> Result<Vec<ListedObject>> {
        // Before the manifests: a file of a compaction that ends in between is then not taken for one that is needed.
        let mut files = partition.list_files(&self.bucket).await?;
        let committed = Committed::read_all(&self.bucket, partition).await?;
        let superseded = superseded(&committed);
        files.retain(|file| superseded.get(&*file.key).is_none_or(|since| file.modified > *since));
        Ok(files)
    }

    /// What is compacted together: two files at least, or one that has never been sorted.
    fn groups(&self, files: Vec<ListedObject>) -> Vec<Vec<ListedObject>> {
        let mut groups: Vec<Vec<ListedObject>> = Vec::new();
        let mut bytes = 0;
        for file in files {
            bytes += file.size;
            match groups.last_mut() {
                Some(group)
                    if group.len() < 2 || (group.len() < FILES_AT_ONCE && bytes <= self.options.at_once) =>
                {
                    group.push(file);
                }
                Some(_) | None => {
                    bytes = file.size;
                    groups.push(vec![file]);
                }
            }
        }
        groups.retain(|group| is_worth(group.iter().map(|file| &*file.key)));
        groups
    }

    async fn compact_group(&self, partition: &Partition<'_>, files: &[ListedObject]) -> Result<Compacted> {
        let (mut done, begun) = (Compacted::default(), SystemClock.now());
        let dataset = partition.dataset;
        let inputs = match Inputs::fetch(&self.bucket, dataset, files).await? {
            Fetched::All(inputs) => inputs,
            Fetched::Overtaken => return Ok(Compacted { overtaken: 1, ..done }),
        };
        done.files_left_alone = count(inputs.left_alone);
        if !is_worth(inputs.keys()) {
            return Ok(done);
        }
        let keys = inputs.keys().map(str::to_owned).collect();
        let written = self.rewrite(partition, inputs, &mut done)?;
        // Not before all is written: a run that fails for want of disk leaves nothing in the bucket, however often it is tried.
        let run = self.begin(partition, begun).await?;
        let mut outputs = Vec::with_capacity(written.len());
        for file in written {
            outputs.push(self.upload(run.file(outputs.len()), file, &mut done).await?);
        }
        let fingerprint = schema::fingerprint(&self.model, dataset);
        let manifest = Manifest { inputs: keys, outputs, fingerprint };
        let has_committed = self.commit(partition, &run, manifest).await?;
        done.overtaken = u64::from(!has_committed);
        tracing::info!(
            dataset = &*dataset.name,
            day = partition.day,
            files_in = done.files_in,
            files_out = done.files_out,
            rows = done.rows_out,
            "a partition was compacted"
        );
        Ok(done)
    }

    /// Sorts what was fetched, in temporary files.
    fn rewrite(
        &self,
        partition: &Partition<'_>,
        inputs: Inputs,
        done: &mut Compacted,
    ) -> Result<Vec<Written>> {
        let schema = Arc::clone(&inputs.schema);
        let order = Order::new(partition.dataset, &schema)?;
        let budget =
            Budget { memory: self.options.memory, batch: (self.options.target / 8).min(Budget::BATCH) };
        let mut sorter = Sorter::new(&order, budget);
        for input in &inputs.files {
            done.files_in += 1;
            done.bytes_in += input.bytes;
            for batch in input.read(&schema)? {
                let batch = batch?;
                done.rows_in += count(batch.num_rows());
                sorter.push(batch)?;
            }
        }
        drop(inputs);
        let mut sorted = sorter.finish()?;
        let mut output = Output::new(schema, &order, self.options.target)?;
        let mut written = Vec::new();
        while let Some(batch) = sorted.next()? {
            written.extend(output.write(&batch)?);
        }
        written.extend(output.finish()?);
        let thinned = sorted.thinned();
        (done.duplicates, done.outdated) = (thinned.duplicates, thinned.outdated);
        done.rows_out = written.iter().map(|file| file.rows).sum();
        if done.rows_out + done.duplicates + done.outdated != done.rows_in {
            return Err(Error::new(
                ErrorKind::State,
                "rows went missing while they were sorted; nothing is superseded",
            )
            .with("dataset", &*partition.dataset.name)
            .with("day", &*partition.day));
        }
        Ok(written)
    }

    async fn upload(&self, key: String, written: Written, done: &mut Compacted) -> Result<String> {
        // Nobody else makes this name: whatever is there already is this file, and only the answer was lost.
        let (PutOutcome::Written | PutOutcome::AlreadyExists) =
            self.bucket.put_new(&key, ObjectBody::File(written.file.path().to_owned())).await?;
        done.files_out += 1;
        done.bytes_out += written.bytes;
        Ok(key)
    }

    /// Writes the manifest, which ends the run; `false` if another compactor was faster: our outputs then go as if we had died.
    async fn commit(&self, partition: &Partition<'_>, run: &Run<'_>, manifest: Manifest) -> Result<bool> {
        // Inputs that another compactor has superseded lie in its outputs, even if its manifest has been swept since.
        let needed = self.needed_files(partition).await?;
        let needed: BTreeSet<&str> = needed.iter().map(|file| &*file.key).collect();
        let mut own = manifest.inputs.iter().chain(&manifest.outputs);
        if run.is_late() || !own.all(|key| needed.contains(&**key)) {
            return Ok(false);
        }
        let key = Manifest::key(partition, &manifest.inputs);
        let is_ours =
            match self.bucket.put_new(&key, ObjectBody::Bytes(Bytes::from(manifest.to_json()?))).await? {
                PutOutcome::Written => true,
                // Ours, if the answer to an earlier attempt was lost.
                PutOutcome::AlreadyExists => {
                    let there = Manifest::read(&self.bucket, &key).await?;
                    there.is_some_and(|there| there.outputs == manifest.outputs)
                }
            };
        if is_ours {
            self.end(run).await?;
        }
        Ok(is_ours)
    }
}

/// Whether compacting these files changes anything.
pub(super) fn is_worth<'k>(mut keys: impl Iterator<Item = &'k str>) -> bool {
    match (keys.next(), keys.next()) {
        (None, _) => false,
        (Some(only), None) => !Partition::is_compacted(only),
        (Some(_), Some(_)) => true,
    }
}

pub(super) fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
