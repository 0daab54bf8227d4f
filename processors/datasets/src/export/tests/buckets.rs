//! Buckets in which requests hang or fail.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use afterwrite_memory::MemoryObjects;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::{Bucket, ListedObject, ObjectBody, ObjectChunks, ObjectStore, PutOutcome};

/// A bucket in which the objects of one key never respond.
#[derive(Debug)]
pub(super) struct HangingBucket {
    pub(super) inner: Arc<MemoryObjects>,
    /// The key.
    pub(super) hanging: &'static str,
}

impl ObjectStore for HangingBucket {
    async fn put(&self, key: &str, body: Vec<u8>) -> Result<()> {
        self.inner.put(key, body).await
    }
}

impl Bucket for HangingBucket {
    async fn get(&self, key: &str) -> Result<Option<ObjectChunks>> {
        if key == self.hanging { std::future::pending().await } else { self.inner.get(key).await }
    }
    async fn put_new(&self, key: &str, body: ObjectBody) -> Result<PutOutcome> {
        self.inner.put_new(key, body).await
    }
    async fn list(&self, prefix: &str) -> Result<Vec<ListedObject>> {
        self.inner.list(prefix).await
    }
    async fn delete(&self, keys: &[String]) -> Result<()> {
        self.inner.delete(keys).await
    }
}

/// A bucket that stops responding after a number of written files, and counts requests in flight.
#[derive(Debug)]
pub(super) struct LimitedBucket {
    inner: Arc<MemoryObjects>,
    writes: AtomicUsize,
    limit: usize,
    in_flight: AtomicUsize,
    pub(super) most_in_flight: AtomicUsize,
}

impl LimitedBucket {
    pub(super) fn new(inner: &Arc<MemoryObjects>, limit: usize) -> Self {
        let zero = AtomicUsize::default;
        Self { inner: Arc::clone(inner), writes: zero(), limit, in_flight: zero(), most_in_flight: zero() }
    }
}

impl ObjectStore for LimitedBucket {
    async fn put(&self, key: &str, body: Vec<u8>) -> Result<()> {
        self.inner.put(key, body).await
    }
}

impl Bucket for LimitedBucket {
    async fn get(&self, key: &str) -> Result<Option<ObjectChunks>> {
        self.inner.get(key).await
    }

    async fn put_new(&self, key: &str, body: ObjectBody) -> Result<PutOutcome> {
        let in_flight = self.in_flight.fetch_add(1, Relaxed) + 1;
        self.most_in_flight.fetch_max(in_flight, Relaxed);
        tokio::task::yield_now().await;
        self.in_flight.fetch_sub(1, Relaxed);
        if self.writes.fetch_add(1, Relaxed) >= self.limit {
            return Err(Error::new(ErrorKind::Unavailable, "injected"));
        }
        self.inner.put_new(key, body).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ListedObject>> {
        self.inner.list(prefix).await
    }

    async fn delete(&self, keys: &[String]) -> Result<()> {
        self.inner.delete(keys).await
    }
}
