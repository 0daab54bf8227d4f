//! A bucket in memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind};
use afterwrite_services::{Bucket, ListedObject, ObjectBody, ObjectChunks, ObjectStore, PutOutcome};
use bytes::Bytes;
use futures::stream::{StreamExt as _, once};

/// A bucket whose clock is set by the test.
#[derive(Debug, Default)]
pub struct MemoryObjects(Mutex<StoredObjects>);

#[derive(Debug, Default)]
struct StoredObjects {
    objects: BTreeMap<String, (Bytes, Timestamp)>,
    now: Option<Timestamp>,
}

impl MemoryObjects {
    /// The objects by key.
    #[must_use]
    pub fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        let stored = self.lock();
        stored.objects.iter().map(|(key, (body, _))| (key.clone(), body.to_vec())).collect()
    }

    /// Sets the bucket's clock: the modification time of every object written from now on. It starts at 1970.
    pub fn set_clock(&self, now: Timestamp) {
        self.lock().now = Some(now);
    }

    fn lock(&self) -> MutexGuard<'_, StoredObjects> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StoredObjects {
    fn put(&mut self, key: &str, body: Bytes) {
        let now = self.now.unwrap_or(Timestamp::from_epoch_ms(0));
        self.objects.insert(key.to_owned(), (body, now));
    }
}

impl ObjectStore for MemoryObjects {
    async fn put(&self, key: &str, body: Vec<u8>) -> Result<(), Error> {
        self.lock().put(key, body.into());
        Ok(())
    }
}

impl Bucket for MemoryObjects {
    async fn get(&self, key: &str) -> Result<Option<ObjectChunks>, Error> {
        let body = self.lock().objects.get(key).map(|(body, _)| body.clone());
        Ok(body.map(|body| once(async { Ok(body) }).boxed()))
    }

    async fn put_new(&self, key: &str, body: ObjectBody) -> Result<PutOutcome, Error> {
        let body = match body {
            ObjectBody::Bytes(bytes) => bytes,
            ObjectBody::File(path) => std::fs::read(path).map(Bytes::from).map_err(|error| {
                Error::new(ErrorKind::Configuration, "a temporary file cannot be read").caused_by(error)
            })?,
        };
        let mut stored = self.lock();
        if stored.objects.contains_key(key) {
            return Ok(PutOutcome::AlreadyExists);
        }
        stored.put(key, body);
        Ok(PutOutcome::Written)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ListedObject>, Error> {
        let stored = self.lock();
        let matching = stored.objects.iter().filter(|(key, _)| key.starts_with(prefix));
        Ok(matching
            .map(|(key, (body, modified))| ListedObject {
                key: key.clone(),
                size: body.len().try_into().unwrap_or(u64::MAX),
                modified: *modified,
                etag: None,
            })
            .collect())
    }

    async fn delete(&self, keys: &[String]) -> Result<(), Error> {
        let mut stored = self.lock();
        for key in keys {
            stored.objects.remove(key);
        }
        Ok(())
    }
}
