//! A table: reading its newest version, and committing the next.

use std::sync::Arc;

use afterwrite_model::clock::Clock;
use afterwrite_model::record::Timestamp;
use afterwrite_model::retry::RetryPolicy;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::{Bucket, ObjectBody, PutOutcome};
use bytes::Bytes;
use futures::future::try_join_all;
use futures::lock::Mutex;

use super::action::ActionLine;
use super::change::{CommitAttempt, TableChange, commit_text};
use super::checkpoint::{newest_checkpoint, write_checkpoint};
use super::log_files::{commit_key, parse_commit};
use super::snapshot::TableSnapshot;
use crate::objects::read_object;

/// Versions at which their writer writes a checkpoint.
const CHECKPOINT_VERSIONS: u64 = 100;

/// How many commits are read at once: a reader that is up to date requests one that does not exist.
const FIRST_WINDOW: u64 = 1;
const LARGEST_WINDOW: u64 = 32;

/// A Delta table in a bucket. It remembers the newest version that it has read, and reads only what was committed since.
#[derive(Debug)]
pub struct DeltaTable<B> {
    bucket: B,
    /// The prefix of its objects, with a `/` at the end.
    root: String,
    latest: Mutex<Arc<TableSnapshot>>,
}

impl<B: Bucket> DeltaTable<B> {
    /// The table with this prefix, such as `datasets/attempts/`. It is created by its first commit.
    #[must_use]
    pub fn new(bucket: B, root: impl Into<String>) -> Self {
        Self { bucket, root: root.into(), latest: Mutex::default() }
    }

    /// The prefix of its objects.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    /// The bucket.
    #[must_use]
    pub fn bucket(&self) -> &B {
        &self.bucket
    }

    /// The newest version.
    ///
    /// # Errors
    /// `State` for a log that cannot be read; otherwise the bucket's.
    pub async fn snapshot(&self) -> Result<Arc<TableSnapshot>> {
        let mut latest = self.latest.lock().await;
        self.refresh(&mut latest).await?;
        Ok(Arc::clone(&latest))
    }

    /// When a version was committed, by the committer's clock; `None` if the commit is not there any more.
    ///
    /// # Errors
    /// Those of [`Self::snapshot`].
    pub async fn commit_time(&self, version: u64) -> Result<Option<Timestamp>> {
        let lines = self.read_commit(version).await?.unwrap_or_default();
        let info = lines.into_iter().find_map(|line| line.commit_info);
        Ok(info.map(|info| Timestamp::from_epoch_ms(info.timestamp)))
    }

    /// Commits what `decide` makes of the newest version; after a lost race it decides again, with back-off, until the deadline.
    /// Returns the version of the commit, or `None` if `decide` found nothing to change.
    ///
    /// # Errors
    /// `Conflict` if other writers were faster until the deadline; the errors of [`Self::snapshot`] and of `decide`.
    pub async fn update(
        &self,
        clock: &impl Clock,
        deadline: Timestamp,
        mut decide: impl FnMut(&TableSnapshot) -> Result<Option<TableChange>> + Send,
    ) -> Result<Option<u64>> {
        for retry in 1.. {
            {
                // One commit at a time in a process: its own tasks never race each other.
                let mut latest = self.latest.lock().await;
                self.refresh(&mut latest).await?;
                let Some(change) = decide(&latest)? else { return Ok(None) };
                match self.commit(&mut latest, change, clock.now()).await? {
                    CommitAttempt::Committed(version) => return Ok(Some(version)),
                    CommitAttempt::Conflict => {}
                }
            }
            if !RetryPolicy::STANDARD.wait(retry, deadline, clock).await {
                break;
            }
        }
        Err(Error::new(ErrorKind::Conflict, "other writers were faster until the deadline")
            .with("table", &*self.root))
    }

    /// Commits a change as the version after `latest`, if nobody has written that version.
    async fn commit(
        &self,
        latest: &mut Arc<TableSnapshot>,
        change: TableChange,
        now: Timestamp,
    ) -> Result<CommitAttempt> {
        let version = latest.next_version();
        let key = commit_key(&self.root, version);
        let lines = change.lines(latest, now).map_err(|error| error.with("table", &*self.root))?;
        let text = Bytes::from(commit_text(&lines)?);
        let written = match self.bucket.put_new(&key, ObjectBody::Bytes(text.clone())).await {
            Err(error) if error.kind() == ErrorKind::Conflict => return Ok(CommitAttempt::Conflict),
            written => written?,
        };
        match written {
            PutOutcome::Written => {}
            // It is this commit if the response to an earlier attempt was lost.
            PutOutcome::AlreadyExists if read_object(&self.bucket, &key).await?.as_ref() == Some(&text) => {}
            PutOutcome::AlreadyExists => return Ok(CommitAttempt::Conflict),
        }
        Arc::make_mut(latest).apply(version, lines)?;
        if version > 0 && version.is_multiple_of(CHECKPOINT_VERSIONS) {
            self.write_checkpoint(latest, now).await;
        }
        Ok(CommitAttempt::Committed(version))
    }

    /// Writes a checkpoint. Without it readers read more commits; so a failure is only reported.
    async fn write_checkpoint(&self, snapshot: &TableSnapshot, now: Timestamp) {
        if let Err(error) = Box::pin(write_checkpoint(&self.bucket, &self.root, snapshot, now)).await {
            tracing::warn!(table = self.root, %error, "a checkpoint was not written");
        }
    }

    /// Reads what was committed since.
    async fn refresh(&self, latest: &mut Arc<TableSnapshot>) -> Result<()> {
        if latest.version().is_none()
            && let Some(checkpoint) = Box::pin(newest_checkpoint(&self.bucket, &self.root)).await?
        {
            *latest = Arc::new(checkpoint);
        }
        let mut window = FIRST_WINDOW;
        loop {
            let next = latest.next_version();
            let commits = (next..next + window).map(|version| self.read_commit(version));
            for (version, lines) in (next..).zip(try_join_all(commits).await?) {
                let Some(lines) = lines else { return Ok(()) };
                Arc::make_mut(latest)
                    .apply(version, lines)
                    .map_err(|error| error.with("table", &*self.root))?;
            }
            window = (window * 2).min(LARGEST_WINDOW);
        }
    }

    async fn read_commit(&self, version: u64) -> Result<Option<Vec<ActionLine>>> {
        let key = commit_key(&self.root, version);
        let text = read_object(&self.bucket, &key).await?;
        text.map(|text| parse_commit(&key, &text)).transpose()
    }
}
