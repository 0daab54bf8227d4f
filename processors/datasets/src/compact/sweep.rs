//! Removing what has been superseded for a grace period, and what a compactor that died has left. Every step can be the last, be
//! done twice, and be done by two at once.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite::Result;
use afterwrite::record::Timestamp;
use afterwrite::sink::Bucket;
use lambda_runtime::tracing;

use super::manifest::Committed;
use super::partition::Partition;
use super::{Compacted, Compactor};

impl<B: Bucket> Compactor<B> {
    /// Removes what runs that died have left; then the inputs of every manifest that is as old as the grace period, and the
    /// manifest.
    pub(super) async fn sweep(&self, partition: &Partition<'_>, now: Timestamp) -> Result<Compacted> {
        let mut committed = Committed::read_all(&self.bucket, partition).await?;
        let mut done = self.sweep_runs(partition, &committed, now).await?;
        // A bucket's clock that is ahead of ours makes nothing older.
        let is_due = |modified: Timestamp| modified <= now && now.since(modified) >= self.options.grace;
        if !committed.iter().any(|manifest| is_due(manifest.modified)) {
            return Ok(done);
        }
        // After the manifests: whatever they name was there when they were written, so what is missing now has been removed.
        let files: BTreeMap<String, Timestamp> = partition
            .list_files(&self.bucket)
            .await?
            .into_iter()
            .map(|file| (file.key, file.modified))
            .collect();
        committed.sort_by(|one, other| (one.modified, &one.key).cmp(&(other.modified, &other.key)));
        // What follows from a manifest that is swept may be swept in the same pass, so this ends when nothing more can be.
        while let Some(at) = (0..committed.len()).find(|at| can_be_swept(&committed, *at, is_due)) {
            let swept = committed.remove(at);
            done.files_removed += self.sweep_one(&swept, &files).await?;
        }
        Ok(done)
    }

    async fn sweep_one(&self, swept: &Committed, files: &BTreeMap<String, Timestamp>) -> Result<u64> {
        let Committed { key, modified, manifest } = swept;
        let is_superseded = |input: &&String| files.get(*input).is_some_and(|written| written <= modified);
        let mut removed = Vec::new();
        if manifest.outputs.iter().all(|output| files.contains_key(output)) {
            removed.extend(manifest.inputs.iter().filter(is_superseded).cloned());
            self.bucket.delete(&removed).await?;
        } else if manifest.inputs.iter().any(|input| files.contains_key(input)) {
            tracing::warn!(
                manifest = key,
                "files that superseded others are gone; the others stay, and are compacted again"
            );
        }
        self.bucket.delete(std::slice::from_ref(key)).await?;
        Ok(removed.len().try_into().unwrap_or(u64::MAX))
    }
}

/// Whether a manifest is due, and none of its inputs is what another one's inputs live on in.
fn can_be_swept(committed: &[Committed], at: usize, is_due: impl Fn(Timestamp) -> bool) -> bool {
    let Some(candidate) = committed.get(at).filter(|candidate| is_due(candidate.modified)) else {
        return false;
    };
    let inputs: BTreeSet<&String> = candidate.manifest.inputs.iter().collect();
    let others = committed.iter().filter(|other| other.key != candidate.key);
    !others.flat_map(|other| &other.manifest.outputs).any(|output| inputs.contains(output))
}
