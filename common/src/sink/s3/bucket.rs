//! A bucket that is read and tidied too: what the datasets live in.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::BoxStream;

use super::ObjectStore;
use crate::Error;
use crate::record::Timestamp;

/// An object's content as it arrives.
pub type ObjectChunks = BoxStream<'static, Result<Bytes, Error>>;

/// What an object is made of.
#[derive(Clone, Debug)]
pub enum ObjectBody {
    /// Bytes in memory.
    Bytes(Bytes),
    /// A file of this machine, which is read while it is sent.
    File(PathBuf),
}

/// What became of an object that was only to be written if there was none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// It is written.
    Written,
    /// There is one under this key; it is as it was.
    AlreadyThere,
}

/// An object in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedObject {
    /// Its key.
    pub key: String,
    /// Its size in bytes.
    pub size: u64,
    /// When it was written, by the bucket's clock.
    pub modified: Timestamp,
}

/// A bucket that can be read, listed and tidied. Requests may be sent several times: each means the same again.
pub trait Bucket: ObjectStore {
    /// Reads an object; `None` if there is none.
    ///
    /// # Errors
    /// As [`ObjectStore::put`]; a chunk that fails ends the stream.
    fn get(&self, key: &str) -> impl Future<Output = Result<Option<ObjectChunks>, Error>> + Send;

    /// Writes an object, unless there is one under this key (`If-None-Match: *`). Whoever never heard the answer and asks again hears
    /// [`PutOutcome::AlreadyThere`].
    ///
    /// # Errors
    /// As [`ObjectStore::put`]; `Configuration` for a file that cannot be read.
    fn put_new(&self, key: &str, body: ObjectBody) -> impl Future<Output = Result<PutOutcome, Error>> + Send;

    /// The objects whose keys begin so, in the order of their keys.
    ///
    /// # Errors
    /// As [`ObjectStore::put`].
    fn list(&self, prefix: &str) -> impl Future<Output = Result<Vec<ListedObject>, Error>> + Send;

    /// Removes objects; one that is not there is none to remove.
    ///
    /// # Errors
    /// As [`ObjectStore::put`]; some may be removed.
    fn delete(&self, keys: &[String]) -> impl Future<Output = Result<(), Error>> + Send;
}

impl<B: Bucket> Bucket for Arc<B> {
    fn get(&self, key: &str) -> impl Future<Output = Result<Option<ObjectChunks>, Error>> + Send {
        (**self).get(key)
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
