//! A bucket that is a folder of this machine, where reading and writing should cost what files cost.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use afterwrite::record::Timestamp;
use afterwrite::sink::{Bucket, ListedObject, ObjectBody, ObjectChunks, ObjectStore, PutOutcome};
use afterwrite::{Error, ErrorKind};
use bytes::Bytes;
use futures::stream::{StreamExt as _, iter};

const CHUNK_BYTES: usize = 64 * 1024;

/// The folder; a key is a path within it.
#[derive(Clone, Debug)]
pub struct FolderBucket(pub PathBuf);

fn failed(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "a file of the folder").caused_by(error)
}

impl FolderBucket {
    /// Where an object lies; its folder is made.
    fn place(&self, key: &str) -> Result<PathBuf, Error> {
        let path = self.0.join(key);
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
        Ok(path)
    }

    fn walk(&self, folder: &Path, listed: &mut Vec<ListedObject>) -> std::io::Result<()> {
        if !folder.is_dir() {
            return Ok(());
        }
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                self.walk(&path, listed)?;
            } else if let Ok(key) = path.strip_prefix(&self.0) {
                let metadata = fs::metadata(&path)?;
                let age = metadata.modified()?.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
                let modified = Timestamp::from_epoch_ms(i64::try_from(age.as_millis()).unwrap_or(0));
                let key = key.to_string_lossy().into_owned();
                listed.push(ListedObject { key, size: metadata.len(), modified });
            }
        }
        Ok(())
    }
}

impl ObjectStore for FolderBucket {
    async fn put(&self, key: &str, body: Vec<u8>) -> Result<(), Error> {
        fs::write(self.place(key)?, body).map_err(failed)
    }
}

impl Bucket for FolderBucket {
    async fn get(&self, key: &str) -> Result<Option<ObjectChunks>, Error> {
        let Ok(mut file) = fs::File::open(self.0.join(key)) else { return Ok(None) };
        let chunks = std::iter::from_fn(move || {
            let mut chunk = vec![0; CHUNK_BYTES];
            match file.read(&mut chunk) {
                Ok(0) => None,
                Ok(length) => {
                    chunk.truncate(length);
                    Some(Ok(Bytes::from(chunk)))
                }
                Err(error) => Some(Err(failed(error))),
            }
        });
        Ok(Some(iter(chunks).boxed()))
    }

    async fn put_new(&self, key: &str, body: ObjectBody) -> Result<PutOutcome, Error> {
        if self.0.join(key).exists() {
            return Ok(PutOutcome::AlreadyExists);
        }
        let place = self.place(key)?;
        match body {
            ObjectBody::Bytes(bytes) => fs::write(place, bytes),
            ObjectBody::File(path) => fs::copy(path, place).map(drop),
        }
        .map_err(failed)?;
        Ok(PutOutcome::Written)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ListedObject>, Error> {
        let mut listed = Vec::new();
        // All that begins so lies in the folder that is named last, and nowhere else.
        let folder = prefix.rsplit_once('/').map_or(self.0.clone(), |(folder, _)| self.0.join(folder));
        self.walk(&folder, &mut listed).map_err(failed)?;
        listed.retain(|object| object.key.starts_with(prefix));
        listed.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(listed)
    }

    async fn delete(&self, keys: &[String]) -> Result<(), Error> {
        for key in keys {
            match fs::remove_file(self.0.join(key)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}
