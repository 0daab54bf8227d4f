//! Removing files that have been superseded for the grace period, and files that dead compactors left. The sweep may stop after
//! any step; a step may be repeated, and two sweeps may run at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use afterwrite::Result;
use afterwrite::record::Timestamp;
use afterwrite::sink::Bucket;

use super::files::list_files;
use super::manifest::StoredManifest;
use super::run::{CompactionRun, is_older};
use super::totals::count;
use crate::paths::DatasetPartition;

/// Removes the files of dead runs; then the inputs of every manifest that is as old as the grace period, and the manifest.
/// Returns the number of files removed.
pub(super) async fn sweep_partition<B: Bucket>(
    bucket: &B,
    partition: &DatasetPartition<'_>,
    grace_period: Duration,
    now: Timestamp,
) -> Result<u64> {
    let mut manifests = StoredManifest::read_all(bucket, partition).await?;
    let mut removed = sweep_runs(bucket, partition, &manifests, now).await?;
    let is_due = |manifest: &StoredManifest| is_older(manifest.modified, grace_period, now);
    if !manifests.iter().any(is_due) {
        return Ok(removed);
    }
    // After the manifests: the files that they name existed when they were written, so a file missing now has been removed.
    let files = list_files(bucket, partition).await?;
    let files: BTreeMap<String, Timestamp> =
        files.into_iter().map(|file| (file.key, file.modified)).collect();
    manifests.sort_by(|one, other| (one.modified, &one.key).cmp(&(other.modified, &other.key)));
    // Sweeping one manifest may allow the next to be swept, so search again after each.
    while let Some(at) = manifests.iter().position(|one| is_due(one) && !must_wait(one, &manifests)) {
        removed += sweep_manifest(bucket, &manifests.remove(at), &files).await?;
    }
    Ok(removed)
}

/// Whether an input of this manifest is an output of another: that manifest is only proof while its outputs exist, so it goes first.
fn must_wait(candidate: &StoredManifest, manifests: &[StoredManifest]) -> bool {
    let inputs: BTreeSet<&String> = candidate.manifest.inputs.iter().collect();
    let others = manifests.iter().filter(|other| other.key != candidate.key);
    others.flat_map(|other| &other.manifest.outputs).any(|output| inputs.contains(output))
}

async fn sweep_manifest<B: Bucket>(
    bucket: &B,
    StoredManifest { key, modified, manifest }: &StoredManifest,
    files: &BTreeMap<String, Timestamp>,
) -> Result<u64> {
    let is_superseded = |input: &&String| files.get(*input).is_some_and(|written| written <= modified);
    let mut superseded = Vec::new();
    if manifest.outputs.iter().all(|output| files.contains_key(output)) {
        superseded.extend(manifest.inputs.iter().filter(is_superseded).cloned());
        bucket.delete(&superseded).await?;
    } else if manifest.inputs.iter().any(|input| files.contains_key(input)) {
        tracing::warn!(
            manifest = key,
            "outputs of a manifest are gone; its inputs stay and are compacted again"
        );
    }
    bucket.delete(std::slice::from_ref(key)).await?;
    Ok(count(superseded.len()))
}

/// Ends the runs that committed and died before they removed their mark, and removes the files of abandoned runs.
///
/// The manifests must have been read before: no sweep removes a manifest whose run has a mark, so a run that has a mark now and had
/// no manifest then has not committed; and it is far too late to commit.
async fn sweep_runs<B: Bucket>(
    bucket: &B,
    partition: &DatasetPartition<'_>,
    manifests: &[StoredManifest],
    now: Timestamp,
) -> Result<u64> {
    let mut removed = 0;
    let listed = bucket.list(&partition.manifests()).await?;
    for run in listed.iter().filter_map(|object| CompactionRun::from_mark(partition, object)) {
        let prefix = run.files();
        let mut outputs = manifests.iter().flat_map(|one| &one.manifest.outputs);
        if outputs.any(|output| output.starts_with(&prefix)) {
            run.end(bucket).await?;
        } else if run.is_abandoned(now) {
            let files = bucket.list(&prefix).await?;
            let files: Vec<String> = files.into_iter().map(|file| file.key).collect();
            bucket.delete(&files).await?;
            run.end(bucket).await?;
            removed += count(files.len());
        }
    }
    Ok(removed)
}
