//! A bucket that counts its requests, and responds as late as S3 does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use afterwrite_memory::MemoryObjects;
use afterwrite_model::Error;
use afterwrite_services::{Bucket, ListedObject, ObjectBody, ObjectChunks, ObjectStore, PutOutcome};

/// How late a bucket responds.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestLatencies {
    /// GET and LIST.
    pub read: Duration,
    /// PUT.
    pub write: Duration,
}

/// The number of requests by kind.
#[derive(Debug, Default)]
pub struct RequestCounts {
    gets: AtomicU64,
    puts: AtomicU64,
    lists: AtomicU64,
}

impl RequestCounts {
    /// The requests that read an object.
    pub fn gets(&self) -> u64 {
        self.gets.load(Ordering::Relaxed)
    }

    /// The requests that write an object.
    pub fn puts(&self) -> u64 {
        self.puts.load(Ordering::Relaxed)
    }

    /// The requests that list objects.
    pub fn lists(&self) -> u64 {
        self.lists.load(Ordering::Relaxed)
    }
}

/// A view of a bucket in memory.
#[derive(Clone, Debug)]
pub struct MeteredBucket {
    bucket: Arc<MemoryObjects>,
    latencies: RequestLatencies,
    counts: Arc<RequestCounts>,
}

impl MeteredBucket {
    /// A view with these latencies that counts here.
    #[must_use]
    pub fn new(bucket: Arc<MemoryObjects>, latencies: RequestLatencies, counts: Arc<RequestCounts>) -> Self {
        Self { bucket, latencies, counts }
    }

    async fn read(&self, count: &AtomicU64) {
        count.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(self.latencies.read).await;
    }

    async fn write(&self) {
        self.counts.puts.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(self.latencies.write).await;
    }
}

impl ObjectStore for MeteredBucket {
    async fn put(&self, key: &str, body: Vec<u8>) -> Result<(), Error> {
        self.write().await;
        self.bucket.put(key, body).await
    }
}

impl Bucket for MeteredBucket {
    async fn get(&self, key: &str) -> Result<Option<ObjectChunks>, Error> {
        self.read(&self.counts.gets).await;
        self.bucket.get(key).await
    }

    async fn put_new(&self, key: &str, body: ObjectBody) -> Result<PutOutcome, Error> {
        self.write().await;
        self.bucket.put_new(key, body).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ListedObject>, Error> {
        self.read(&self.counts.lists).await;
        self.bucket.list(prefix).await
    }

    async fn delete(&self, keys: &[String]) -> Result<(), Error> {
        self.bucket.delete(keys).await
    }
}
