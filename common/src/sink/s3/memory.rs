//! A bucket in memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::ObjectStore;
use crate::Error;

/// Keeps what it is given.
#[derive(Debug, Default)]
pub struct MemoryObjects(Mutex<BTreeMap<String, Vec<u8>>>);

impl MemoryObjects {
    /// The objects, by key.
    #[must_use]
    pub fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ObjectStore for MemoryObjects {
    async fn put(&self, key: &str, body: Vec<u8>) -> Result<(), Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned(), body);
        Ok(())
    }
}
