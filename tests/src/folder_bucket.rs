//! A bucket that is a local folder, for measurements in which reads and writes should cost what files cost.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind};
use afterwrite_services::{Bucket, ListedObject, ObjectBody, ObjectChunks, ObjectStore, PutOutcome};
use bytes::Bytes;
use futures::stream::{StreamExt as _, iter};

const CHUNK_BYTES: usize = 64 * 1024;

/// A folder; a key is a path in it.
#[derive(Clone, Debug)]
pub struct FolderBucket(pub PathBuf);

fn file_error(error: io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "a file of the folder").caused_by(error)
}

impl FolderBucket {
    /// The path of an object; its folder is created.
    fn object_path(&self, key: &str) -> Result<PathBuf, Error> {
        let path = self.0.join(key);
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(file_error)?;
        Ok(path)
    }

    fn list_folder(&self, folder: &Path, listed: &mut Vec<ListedObject>) -> io::Result<()> {
        if !folder.is_dir() {
            return Ok(());
        }
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                self.list_folder(&path, listed)?;
            } else if let Ok(key) = path.strip_prefix(&self.0) {
                let metadata = fs::metadata(&path)?;
                let age = metadata.modified()?.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
                let modified = Timestamp::from_epoch_ms(i64::try_from(age.as_millis()).unwrap_or(0));
                let key = key.to_string_lossy().into_owned();
                listed.push(ListedObject { key, size: metadata.len(), modified, etag: None });
            }
        }
        Ok(())
    }
}

impl ObjectStore for FolderBucket {
    async fn put(&self, key: &str, body: Vec<u8>) -> Result<(), Error> {
        fs::write(self.object_path(key)?, body).map_err(file_error)
    }
}

impl Bucket for FolderBucket {
    async fn get(&self, key: &str) -> Result<Option<ObjectChunks>, Error> {
        let Ok(mut file) = File::open(self.0.join(key)) else { return Ok(None) };
        Ok(Some(iter(std::iter::from_fn(move || read_chunk(&mut file))).boxed()))
    }

    async fn put_new(&self, key: &str, body: ObjectBody) -> Result<PutOutcome, Error> {
        let path = self.object_path(key)?;
        let mut file = match File::create_new(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Ok(PutOutcome::AlreadyExists);
            }
            Err(error) => return Err(file_error(error)),
        };
        let written = match body {
            ObjectBody::Bytes(bytes) => file.write_all(&bytes),
            ObjectBody::File(body) => fs::copy(body, &path).map(drop),
        };
        match written {
            Ok(()) => Ok(PutOutcome::Written),
            Err(error) => {
                fs::remove_file(&path).map_err(file_error)?;
                Err(file_error(error))
            }
        }
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ListedObject>, Error> {
        let mut listed = Vec::new();
        // All keys with this prefix are below the prefix's last folder.
        let folder = prefix.rsplit_once('/').map_or(self.0.clone(), |(folder, _)| self.0.join(folder));
        self.list_folder(&folder, &mut listed).map_err(file_error)?;
        listed.retain(|object| object.key.starts_with(prefix));
        listed.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(listed)
    }

    async fn delete(&self, keys: &[String]) -> Result<(), Error> {
        for key in keys {
            match fs::remove_file(self.0.join(key)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(file_error(error)),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}

fn read_chunk(file: &mut File) -> Option<Result<Bytes, Error>> {
    let mut chunk = vec![0; CHUNK_BYTES];
    match file.read(&mut chunk) {
        Ok(0) => None,
        Ok(length) => {
            chunk.truncate(length);
            Some(Ok(Bytes::from(chunk)))
        }
        Err(error) => Some(Err(file_error(error))),
    }
}
