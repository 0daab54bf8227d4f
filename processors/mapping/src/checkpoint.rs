//! How far each shard has been delivered.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

pub use afterwrite_ledger::state::checkpoint::ShardCheckpoint;
use afterwrite_model::Result;
use futures::FutureExt as _;
use futures::future::BoxFuture;

/// Keeps the checkpoints of one mapping.
pub trait CheckpointStore: Send + Sync {
    /// The stored checkpoints.
    fn load(&self) -> BoxFuture<'_, Result<StoredCheckpoints>>;

    /// Replaces a shard's checkpoint in the stream `stream_arn`.
    ///
    /// An error ends the mapping: another process may have taken over.
    fn save<'a>(
        &'a self,
        stream_arn: &'a str,
        shard: &'a str,
        checkpoint: &'a ShardCheckpoint,
    ) -> BoxFuture<'a, Result<()>>;
}

/// The stored checkpoints of a mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredCheckpoints {
    /// The ARN of the stream that they belong to; `None` without checkpoints.
    pub stream_arn: Option<String>,
    /// The checkpoint of each shard that was started.
    pub shards: BTreeMap<String, ShardCheckpoint>,
}

/// Checkpoints in memory.
#[derive(Debug, Default)]
pub struct MemoryCheckpoints(Mutex<StoredCheckpoints>);

impl MemoryCheckpoints {
    /// Checkpoints of an earlier run.
    #[must_use]
    pub fn new(stored: StoredCheckpoints) -> Self {
        Self(Mutex::new(stored))
    }

    /// The checkpoints now.
    #[must_use]
    pub fn stored(&self) -> StoredCheckpoints {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl CheckpointStore for MemoryCheckpoints {
    fn load(&self) -> BoxFuture<'_, Result<StoredCheckpoints>> {
        let stored = self.stored();
        async move { Ok(stored) }.boxed()
    }

    fn save<'a>(
        &'a self,
        stream_arn: &'a str,
        shard: &'a str,
        checkpoint: &'a ShardCheckpoint,
    ) -> BoxFuture<'a, Result<()>> {
        let mut stored = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if stored.stream_arn.as_deref() != Some(stream_arn) {
            *stored = StoredCheckpoints { stream_arn: Some(stream_arn.to_owned()), ..Default::default() };
        }
        stored.shards.insert(shard.to_owned(), checkpoint.clone());
        async { Ok(()) }.boxed()
    }
}
