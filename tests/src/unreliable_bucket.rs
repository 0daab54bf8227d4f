//! A bucket that stops answering: what a function sees that dies between two of its requests, or within one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use afterwrite::sink::{Bucket, ListedObject, ObjectBody, ObjectChunks, ObjectStore, PutOutcome};
use afterwrite::{Error, ErrorKind};
use afterwrite_memory::MemoryObjects;

/// A view of a bucket for one run of one function. Every request lets others go first; from some request on none is answered, and the
/// first of those takes effect all the same, or not.
#[derive(Debug)]
pub struct Unreliable {
    bucket: Arc<MemoryObjects>,
    requests: AtomicU64,
    dies_at: u64,
    last_takes_effect: bool,
}

impl Unreliable {
    /// A view that is answered `dies_at` times.
    #[must_use]
    pub fn new(bucket: Arc<MemoryObjects>, dies_at: u64, last_takes_effect: bool) -> Self {
        Self { bucket, requests: AtomicU64::new(0), dies_at, last_takes_effect }
    }

    async fn request<T>(&self, request: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        if number < self.dies_at {
            return request.await;
        }
        if number == self.dies_at && self.last_takes_effect {
            request.await?;
        }
        Err(Error::new(ErrorKind::Unavailable, "injected"))
    }
}

impl ObjectStore for Unreliable {
    async fn put(&self, key: &str, body: Vec<u8>) -> Result<(), Error> {
        self.request(self.bucket.put(key, body)).await
    }
}

impl Bucket for Unreliable {
    async fn get(&self, key: &str) -> Result<Option<ObjectChunks>, Error> {
        self.request(self.bucket.get(key)).await
    }

    async fn put_new(&self, key: &str, body: ObjectBody) -> Result<PutOutcome, Error> {
        self.request(self.bucket.put_new(key, body)).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ListedObject>, Error> {
        self.request(self.bucket.list(prefix)).await
    }

    async fn delete(&self, keys: &[String]) -> Result<(), Error> {
        self.request(self.bucket.delete(keys)).await
    }
}
