//! The vacuum: removing files that no version within the retention has, and the old part of the log.
//!
//! | object | is removed |
//! |---|---|
//! | a file of the newest version | never |
//! | a file that has left the table | when it left before the retention |
//! | any other file (of a writer that died or was overtaken) | when it is older than the retention and than [`ORPHAN_AGE`] |
//! | a commit or checkpoint | when it is older than [`LOG_RETENTION`], and before the newest checkpoint that is |
//!
//! A writer must not commit a file that has been in the bucket for half of [`ORPHAN_AGE`] or longer: it may be removed meanwhile.
//! The vacuum may stop after any request; removing twice equals removing once.

use std::collections::BTreeSet;
use std::time::Duration;

use afterwrite_model::Result;
use afterwrite_model::record::Timestamp;
use afterwrite_services::{Bucket, ListedObject};

use super::log_files::{LogFile, log_prefix};
use super::snapshot::{TableSnapshot, relative_key};
use super::table::DeltaTable;

/// How old a file is at least that is removed without ever having been in the table.
pub const ORPHAN_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// How long old commits and checkpoints stay.
pub const LOG_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The numbers of removed objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VacuumTotals {
    /// Data files.
    pub files: usize,
    /// Commits and checkpoints.
    pub log_files: usize,
}

impl<B: Bucket> DeltaTable<B> {
    /// Removes what no version within the retention needs. A file that never was in the table is removed only if `is_ours` returns `true`;
    /// its argument is the path within the table.
    ///
    /// # Errors
    /// Those of [`Self::snapshot`] and of the bucket.
    pub async fn vacuum(
        &self,
        now: Timestamp,
        is_ours: impl Fn(&str) -> bool + Send,
    ) -> Result<VacuumTotals> {
        // The list before the snapshot: a file that is committed in between is in the snapshot.
        let listed = self.bucket().list(self.root()).await?;
        let snapshot = self.snapshot().await?;
        let files = unneeded_files(self.root(), &listed, &snapshot, now, is_ours);
        let log = unneeded_log(self.root(), &listed, now);
        self.bucket().delete(&files).await?;
        self.bucket().delete(&log).await?;
        Ok(VacuumTotals { files: files.len(), log_files: log.len() })
    }
}

fn unneeded_files(
    root: &str,
    listed: &[ListedObject],
    snapshot: &TableSnapshot,
    now: Timestamp,
    is_ours: impl Fn(&str) -> bool,
) -> Vec<String> {
    let retained_since = now.minus(snapshot.retention());
    let orphans_since = now.minus(snapshot.retention().max(ORPHAN_AGE));
    let needed: BTreeSet<String> = snapshot.files().map(|file| relative_key(&file.path)).collect();
    let (mut recent, mut superseded) = (BTreeSet::new(), BTreeSet::new());
    for (path, removed) in snapshot.tombstones() {
        let paths = if removed >= retained_since { &mut recent } else { &mut superseded };
        paths.insert(relative_key(path));
    }
    let log = log_prefix(root);
    let candidates = listed.iter().filter(|object| !object.key.starts_with(&log));
    let unneeded = candidates.filter(|object| {
        let Some(path) = object.key.strip_prefix(root) else { return false };
        let is_orphan = object.modified < orphans_since && is_ours(path);
        (superseded.contains(path) || is_orphan) && !needed.contains(path) && !recent.contains(path)
    });
    unneeded.map(|object| object.key.clone()).collect()
}

/// The objects of the log before the newest checkpoint that is older than the log's retention. Checkpoints come first: a reader never
/// finds one whose following commits are gone.
fn unneeded_log(root: &str, listed: &[ListedObject], now: Timestamp) -> Vec<String> {
    let before = now.minus(LOG_RETENTION);
    let old = listed.iter().filter(|object| object.modified < before);
    let old: Vec<(LogFile, &str)> =
        old.filter_map(|object| Some((LogFile::of(root, &object.key)?, &*object.key))).collect();
    let checkpoints = old.iter().filter_map(|(file, _)| match file {
        LogFile::Checkpoint(version) => Some(*version),
        LogFile::Commit(_) | LogFile::CheckpointPart(..) | LogFile::LaterCheckpoint(_) => None,
    });
    let Some(first_needed) = checkpoints.max() else { return Vec::new() };
    let (mut checkpoints, mut commits) = (Vec::new(), Vec::new());
    for (file, key) in old {
        match file {
            LogFile::Checkpoint(version) | LogFile::CheckpointPart(version, _) if version < first_needed => {
                checkpoints.push(key.to_owned());
            }
            LogFile::Commit(version) if version < first_needed => commits.push(key.to_owned()),
            LogFile::Checkpoint(_)
            | LogFile::CheckpointPart(..)
            | LogFile::LaterCheckpoint(_)
            | LogFile::Commit(_) => {}
        }
    }
    checkpoints.append(&mut commits);
    checkpoints
}
