//! A bucket in memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::stream::{StreamExt as _, once};

use super::{Bucket, ListedObject, ObjectBody, ObjectChunks, ObjectStore, PutOutcome};
use crate::record::Timestamp;
use crate::{Error, ErrorKind};

/// Keeps what it is given.
#[derive(Debug, Default)]
pub struct MemoryObjects(Mutex<HeldObject>);

#[derive(Debug, Default)]
struct HeldObject {
    objects: BTreeMap<String, (Bytes, Timestamp)>,
    now: Option<Timestamp>,
}

impl MemoryObjects {
    /// The objects, by key.
    #[must_use]
    pub fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        let held = self.held();
        held.objects.iter().map(|(key, (body, _))| (key.clone(), body.to_vec())).collect()
    }

    /// Sets the bucket's clock: what is written from now on was written then. It begins at 1970.
    pub fn set_clock(&self, now: Timestamp) {
        self.held().now = Some(now);
    }

    fn held(&self) -> MutexGuard<'_, HeldObject> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeldObject {
    fn put(&mut self, key: &str, body: Bytes) {
        let now = self.now.unwrap_or(Timestamp::from_epoch_ms(0));
        self.objects.insert(key.to_owned(), (body, now));
    }
}

impl ObjectStore for MemoryObjects {
    async fn put(&self, key: &str, body: Vec<u8>) -> Result<(), Error> {
        self.held().put(key, body.into());
        Ok(())
    }
}

impl Bucket for MemoryObjects {
    async fn get(&self, key: &str) -> Result<Option<ObjectChunks>, Error> {
        let body = self.held().objects.get(key).map(|(body, _)| body.clone());
        Ok(body.map(|body| once(async { Ok(body) }).boxed()))
    }

    async fn put_new(&self, key: &str, body: ObjectBody) -> Result<PutOutcome, Error> {
        let body = match body {
            ObjectBody::Bytes(bytes) => bytes,
            ObjectBody::File(path) => std::fs::read(path).map(Bytes::from).map_err(|error| {
                Error::new(ErrorKind::Configuration, "a temporary file cannot be read").caused_by(error)
            })?,
        };
        let mut held = self.held();
        if held.objects.contains_key(key) {
            return Ok(PutOutcome::AlreadyThere);
        }
        held.put(key, body);
        Ok(PutOutcome::Written)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ListedObject>, Error> {
        let held = self.held();
        let listed = held.objects.iter().filter(|(key, _)| key.starts_with(prefix));
        Ok(listed
            .map(|(key, (body, modified))| ListedObject {
                key: key.clone(),
                size: body.len().try_into().unwrap_or(u64::MAX),
                modified: *modified,
            })
            .collect())
    }

    async fn delete(&self, keys: &[String]) -> Result<(), Error> {
        let mut held = self.held();
        for key in keys {
            held.objects.remove(key);
        }
        Ok(())
    }
}
