//! A bucket that stops responding, as a function sees it that dies between two requests or during one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use afterwrite_memory::MemoryObjects;
use afterwrite_model::{Error, ErrorKind};
use afterwrite_services::{Bucket, ListedObject, ObjectBody, ObjectChunks, ObjectStore, PutOutcome};

/// A view of a bucket for one run of a function. Other tasks run before each request. From one request on nothing responds; that first
/// request may still take effect.
#[derive(Debug)]
pub struct UnreliableBucket {
    bucket: Arc<MemoryObjects>,
    requests: AtomicU64,
    dies_at: u64,
    last_takes_effect: bool,
}

impl UnreliableBucket {
    /// A view that responds to the first `dies_at` requests.
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

impl ObjectStore for UnreliableBucket {
    async fn put(&self, key: &str, body: Vec<u8>) -> Result<(), Error> {
        self.request(self.bucket.put(key, body)).await
    }
}

impl Bucket for UnreliableBucket {
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
