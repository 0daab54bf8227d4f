//! The folder of `afterwrite dev --data`, which has the tables and the rollups of one model, and is used by one process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind as IoErrorKind, Write as _};
use std::path::{Path, PathBuf};

use afterwrite_model::{Error, ErrorKind, Result};

const DATABASE_FILE: &str = "dynamodb.db";
const BUCKET_FOLDER: &str = "s3";
/// The name of the model whose rollups are in the state table.
const MODEL_FILE: &str = "model";
/// The name of the file that the process locks which uses the folder. It has the process's id.
const LOCK_FILE: &str = "lock";

/// A folder that outlives the command.
pub(super) struct DataFolder {
    folder: PathBuf,
    /// No other process opens the folder until this file is closed.
    _lock: File,
}

impl DataFolder {
    /// Creates the folder, or opens the folder that an earlier run of this model created.
    ///
    /// # Errors
    /// `Configuration` if the folder cannot be written, another process uses it, or it has the rollups of another model.
    pub(super) fn open(folder: &Path, model: &str) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::new(ErrorKind::Configuration, "the folder of --data cannot be used")
                .with("folder", folder.display().to_string())
                .hint("Name a folder that can be written")
                .caused_by(error)
        };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let lock = locked(folder, failed)?;
        let file = folder.join(MODEL_FILE);
        match std::fs::read_to_string(&file) {
            Ok(known) if known.trim() == model => {}
            Ok(known) => {
                return Err(Error::new(
                    ErrorKind::Configuration,
                    "the folder of --data has the rollups of another model, and two models would add to the same ones",
                )
                .with("folder", folder.display().to_string())
                .with("its model", known.trim().to_owned())
                .with("model", model)
                .hint("Name another folder, or delete this one"));
            }
            Err(error) if error.kind() == IoErrorKind::NotFound => {
                std::fs::write(&file, format!("{model}\n")).map_err(failed)?;
            }
            Err(error) => return Err(failed(error)),
        }
        Ok(Self { folder: folder.to_owned(), _lock: lock })
    }

    /// The file of the embedded DynamoDB.
    pub(super) fn database(&self) -> PathBuf {
        self.folder.join(DATABASE_FILE)
    }

    /// The folder of the embedded S3.
    pub(super) fn bucket(&self) -> PathBuf {
        self.folder.join(BUCKET_FOLDER)
    }
}

/// Locks a folder for this process.
fn locked(folder: &Path, failed: impl Fn(std::io::Error) -> Error) -> Result<File> {
    let path = folder.join(LOCK_FILE);
    let opened = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path);
    let mut lock = opened.map_err(&failed)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let known = std::fs::read_to_string(&path).unwrap_or_default();
            let process =
                known.trim().parse::<u32>().map_or_else(|_| "unknown".to_owned(), |id| id.to_string());
            return Err(Error::new(
                ErrorKind::Configuration,
                "another process uses the folder of --data, and two would count the same changes",
            )
            .with("folder", folder.display().to_string())
            .with("process", process)
            .hint("Use that process, or stop it; or name another folder"));
        }
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    let written = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
    written.map(|()| lock).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_the_data_of_one_model() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("data");
        DataFolder::open(&folder, "shop").unwrap();
        DataFolder::open(&folder, "shop").unwrap();
        let error = DataFolder::open(&folder, "social").err().expect("another model is refused").to_string();
        assert!(error.contains("its model") && error.contains("shop"), "{error}");
    }

    #[test]
    fn a_folder_is_used_by_one_process() {
        let directory = tempfile::tempdir().unwrap();
        let used = DataFolder::open(directory.path(), "shop").unwrap();
        let error = DataFolder::open(directory.path(), "shop").err().expect("a second one is refused");
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
        assert!(error.to_string().contains(&format!("process: {}", std::process::id())), "{error}");
        drop(used);
        DataFolder::open(directory.path(), "shop").unwrap();
    }
}
