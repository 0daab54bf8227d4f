//! Buckets: writing objects, and reading, listing and deleting them.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use afterwrite_model::Error;
use afterwrite_model::record::Timestamp;
use bytes::Bytes;
use futures::stream::BoxStream;

/// A bucket that objects can be written to. Writing the same object twice equals writing it once.
pub trait ObjectStore: Send + Sync {
    /// Writes an object; it replaces an object with this key. The request is sent once.
    ///
    /// # Errors
    /// `Unavailable` when throttled, unreachable or without a response (the object may have been written); `Configuration` for a
    /// missing bucket or permission; `Rejected` for a request that would be refused again.
    fn put(&self, key: &str, body: Vec<u8>) -> impl Future<Output = Result<(), Error>> + Send;
}

impl<S: ObjectStore> ObjectStore for Arc<S> {
    fn put(&self, key: &str, body: Vec<u8>) -> impl Future<Output = Result<(), Error>> + Send {
        (**self).put(key, body)
    }
}

/// A bucket that can also be read, listed and cleaned up. Requests may be sent several times: all of them are idempotent.
pub trait Bucket: ObjectStore {
    /// Reads an object; `None` if it does not exist.
    ///
    /// # Errors
    /// As [`ObjectStore::put`]; a failed chunk ends the stream.
    fn get(&self, key: &str) -> impl Future<Output = Result<Option<ObjectChunks>, Error>> + Send;

    /// Reads an object if its content still has this entity tag (`If-Match`); `None` if it has another, or does not exist. A bucket that knows no
    /// tags reads whatever the key has.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    fn get_tagged(
        &self,
        key: &str,
        _etag: Option<&str>,
    ) -> impl Future<Output = Result<Option<ObjectChunks>, Error>> + Send {
        self.get(key)
    }

    /// Writes an object if no object has this key (`If-None-Match: *`). Of concurrent requests for one key, one writes. A caller that
    /// missed the response and sends the request again gets [`PutOutcome::AlreadyExists`].
    ///
    /// # Errors
    /// As [`ObjectStore::put`]; `Configuration` for a file that cannot be read.
    fn put_new(&self, key: &str, body: ObjectBody) -> impl Future<Output = Result<PutOutcome, Error>> + Send;

    /// Lists the objects whose keys start with `prefix`, in key order.
    ///
    /// # Errors
    /// As [`ObjectStore::put`].
    fn list(&self, prefix: &str) -> impl Future<Output = Result<Vec<ListedObject>, Error>> + Send;

    /// Deletes objects, any number of them; missing keys are ignored.
    ///
    /// # Errors
    /// As [`ObjectStore::put`]; some of the objects may have been deleted.
    fn delete(&self, keys: &[String]) -> impl Future<Output = Result<(), Error>> + Send;
}

impl<B: Bucket> Bucket for Arc<B> {
    fn get(&self, key: &str) -> impl Future<Output = Result<Option<ObjectChunks>, Error>> + Send {
        (**self).get(key)
    }

    fn get_tagged(
        &self,
        key: &str,
        etag: Option<&str>,
    ) -> impl Future<Output = Result<Option<ObjectChunks>, Error>> + Send {
        (**self).get_tagged(key, etag)
    }

    fn put_new(&self, key: &str, body: ObjectBody) -> impl Future<Output = Result<PutOutcome, Error>> + Send {
        (**self).put_new(key, body)
    }

    fn list(&self, prefix: &str) -> impl Future<Output = Result<Vec<ListedObject>, Error>> + Send {
        (**self).list(prefix)
    }

    fn delete(&self, keys: &[String]) -> impl Future<Output = Result<(), Error>> + Send {
        (**self).delete(keys)
    }
}

/// An object's content as it arrives.
pub type ObjectChunks = BoxStream<'static, Result<Bytes, Error>>;

/// The content of an object to be written.
#[derive(Clone, Debug)]
pub enum ObjectBody {
    /// Bytes in memory.
    Bytes(Bytes),
    /// A local file, read while it is sent.
    File(PathBuf),
}

/// The outcome of [`Bucket::put_new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// The object was written.
    Written,
    /// An object with this key exists; it was not changed.
    AlreadyExists,
}

/// An object in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedObject {
    /// The object's key.
    pub key: String,
    /// Its size in bytes.
    pub size: u64,
    /// When it was written, by the bucket's clock.
    pub modified: Timestamp,
    /// Its entity tag, which changes with its content; `None` if the list has none.
    pub etag: Option<String>,
}
