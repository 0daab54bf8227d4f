//! Temporary files: the work folder, and spilling record batches (Arrow IPC, uncompressed; few rows stay in memory).
//!
//! Files of the work folder have names, because they are uploaded by their paths. A process that is killed cannot remove them, so a
//! work folder has a file that its process has locked, and the next process removes folders whose file is not locked any more.

use std::fs::File;
use std::io::{BufReader, BufWriter, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};

use afterwrite_model::{Error, ErrorKind, Result};
use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::Schema;
use tempfile::{SpooledTempFile, TempDir, spooled_tempfile};

const BUFFER_BYTES: usize = 256 * 1024;

/// The error of a temporary file that cannot be written or read.
pub(super) fn temporary_file_error(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorKind::Configuration, "cannot write or read a temporary file")
        .hint("Give the compactor more ephemeral storage, or have it compact less at once")
        .caused_by(cause)
}

const FOLDER: &str = "afterwrite-compactor-";
const LOCK: &str = "lock";

/// A folder of temporary files. It is removed with the last of its files.
#[derive(Clone, Debug)]
pub(super) struct WorkFolder(Arc<OwnedFolder>);

#[derive(Debug)]
struct OwnedFolder {
    folder: TempDir,
    /// Locked while the process lives.
    _lock: File,
    files: AtomicU64,
}

impl WorkFolder {
    /// A new folder in the system's folder of temporary files. The first one of a process removes the folders of processes that were killed.
    pub(super) fn create() -> Result<Self> {
        static FIRST: Once = Once::new();
        let parent = std::env::temp_dir();
        FIRST.call_once(|| remove_abandoned_folders(&parent));
        Self::create_in(&parent)
    }

    /// A new folder in another folder.
    pub(super) fn create_in(parent: &Path) -> Result<Self> {
        loop {
            let folder =
                tempfile::Builder::new().prefix(FOLDER).tempdir_in(parent).map_err(temporary_file_error)?;
            let path = folder.path().join(LOCK);
            let lock = File::create(&path).map_err(temporary_file_error)?;
            lock.lock().map_err(temporary_file_error)?;
            // Another process may have found the file before it was locked, and removed the folder.
            if path.exists() {
                return Ok(Self(Arc::new(OwnedFolder { folder, _lock: lock, files: AtomicU64::new(0) })));
            }
        }
    }

    /// A name for a new file.
    pub(super) fn new_file(&self) -> WorkFile {
        let number = self.0.files.fetch_add(1, Ordering::Relaxed);
        WorkFile { path: self.0.folder.path().join(number.to_string()), _folder: self.clone() }
    }
}

/// Removes work folders whose process has ended. A folder that cannot be removed is left, which has no effect on this process.
pub(super) fn remove_abandoned_folders(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(FOLDER) {
            continue;
        }
        // A folder without a lock file is being made, or being removed.
        let Ok(lock) = File::open(entry.path().join(LOCK)) else { continue };
        if lock.try_lock().is_err() {
            continue;
        }
        if let Err(error) = std::fs::remove_dir_all(entry.path()) {
            tracing::debug!(%error, "a temporary folder was not removed");
        }
        // The lock is held until the folder is gone: a process that has just made the folder waits for the lock, and then makes another folder.
        drop(lock);
    }
}

/// A file of a work folder. It is removed when it is dropped.
#[derive(Debug)]
pub(super) struct WorkFile {
    path: PathBuf,
    _folder: WorkFolder,
}

impl WorkFile {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates it, for writing.
    pub(super) fn create(&self) -> Result<File> {
        File::create(&self.path).map_err(temporary_file_error)
    }

    /// Opens it, for reading.
    pub(super) fn open(&self) -> Result<File> {
        File::open(&self.path).map_err(temporary_file_error)
    }
}

impl Drop for WorkFile {
    fn drop(&mut self) {
        // It may never have been created.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Writes batches to a temporary file without a name, which is positioned at its beginning. The system removes the file when its process
/// ends.
pub(super) fn spill_batches(
    schema: &Schema,
    mut next_batch: impl FnMut() -> Result<Option<RecordBatch>>,
) -> Result<SpooledTempFile> {
    let file = BufWriter::with_capacity(BUFFER_BYTES, spooled_tempfile(BUFFER_BYTES));
    let mut writer = StreamWriter::try_new(file, schema).map_err(temporary_file_error)?;
    while let Some(batch) = next_batch()? {
        writer.write(&batch).map_err(temporary_file_error)?;
    }
    let file = writer.into_inner().map_err(temporary_file_error)?;
    let mut file = file.into_inner().map_err(|error| temporary_file_error(error.into_error()))?;
    file.rewind().map_err(temporary_file_error)?;
    Ok(file)
}

/// Reads the batches of a temporary file.
pub(super) struct SpilledBatches(StreamReader<BufReader<SpooledTempFile>>);

impl SpilledBatches {
    pub(super) fn open(file: SpooledTempFile) -> Result<Self> {
        let file = BufReader::with_capacity(BUFFER_BYTES, file);
        StreamReader::try_new(file, None).map(Self).map_err(temporary_file_error)
    }

    /// The next batch with rows.
    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let has_rows =
            |batch: &Result<RecordBatch, _>| batch.as_ref().map_or(true, |batch| batch.num_rows() > 0);
        self.0.find(has_rows).transpose().map_err(temporary_file_error)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn processes_that_begin_at_once_remove_no_folder_that_is_used() {
        let parent = tempfile::tempdir().unwrap();
        let begin = || {
            for _ in 0..300 {
                remove_abandoned_folders(parent.path());
                let file = WorkFolder::create_in(parent.path()).unwrap().new_file();
                file.create().unwrap().write_all(b"rows").unwrap();
                assert_eq!(std::fs::read(file.path()).unwrap(), b"rows");
            }
        };
        std::thread::scope(|threads| (0..8).for_each(|_| drop(threads.spawn(begin))));
    }
}
