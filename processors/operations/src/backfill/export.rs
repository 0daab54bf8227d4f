//! Table exports: the data files that a manifest lists, checked and read item by item.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use afterwrite::commit::StateItems;
use afterwrite::record::{Item, Timestamp};
use afterwrite::sink::s3::S3Bucket;
use afterwrite::table::Model;
use afterwrite::{Error, ErrorKind, Result};
use afterwrite_bulk::export::{ExportManifest, ExportedFile, ExportedLines, FILES, SUMMARY, read_object};
use serde::{Deserialize, Serialize};

/// A table export as a job names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportSource {
    /// The table, as the model names it.
    pub table: String,
    /// The folder `AWSDynamoDB/<export id>`: local, or `s3://bucket/…`.
    pub location: String,
    /// The point in time that the export shows, in epoch milliseconds.
    pub exported_at_ms: i64,
    /// Since when the functions have read the table's stream without a gap, in epoch milliseconds.
    pub mapping_since_ms: i64,
}

impl ExportSource {
    /// The point in time that the export shows.
    #[must_use]
    pub fn exported_at(&self) -> Timestamp {
        Timestamp::from_epoch_ms(self.exported_at_ms)
    }

    /// Refuses an export whose items could be counted wrongly.
    pub(super) fn check(&self, model: &Model, now: Timestamp) -> Result<()> {
        let problem = if !model.tables.iter().any(|table| *table.name == *self.table) {
            "the export is of a table that the model does not have"
        } else if self.mapping_since_ms > self.exported_at_ms {
            "the stream was not read before the export, so that changes between the two would be lost"
        } else if !StateItems::accepts_export(self.exported_at(), now) {
            "the export is older than tombstones are kept (35 days), so that deleted items would be counted"
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Configuration, problem)
            .with("table", self.table.as_str())
            .with("export", self.location.as_str())
            .hint("Use a newer export, or leave out --export: the table is scanned then"))
    }
}

/// Where the files of an export are.
#[derive(Clone, Debug)]
pub enum ExportFolder {
    /// A local folder with `manifest-files.json` and `data/`.
    Local(PathBuf),
    /// The objects of a bucket below this prefix.
    Bucket(S3Bucket, String),
}

/// A table export that is read.
#[derive(Debug)]
pub struct TableExport {
    folder: ExportFolder,
    files: Vec<ExportedFile>,
    /// The files in progress. One for each worker is held in memory.
    open: Mutex<HashMap<usize, ExportedLines>>,
}

impl TableExport {
    /// Reads the manifest of an export.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if there is no readable manifest of a full export in DynamoDB JSON.
    pub async fn open(folder: ExportFolder) -> Result<(Self, Timestamp)> {
        let (summary, files) = (folder.read(SUMMARY).await?, folder.read(FILES).await?);
        let manifest = ExportManifest::parse(&summary, &files)?;
        Ok((Self { folder, files: manifest.files, open: Mutex::default() }, manifest.exported_at))
    }

    /// The number of data files.
    #[must_use]
    pub fn count(&self) -> usize {
        self.files.len()
    }

    /// The items of a file from a line on, at most `limit`; fewer only at its end.
    pub(super) async fn items(&self, index: usize, begin: u64, limit: usize) -> Result<Vec<Item>> {
        let known = self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&index);
        let mut open = match known.filter(|open| open.position() == begin) {
            Some(open) => open,
            None => {
                let mut open = self.open_file(index).await?;
                open.skip(begin)?;
                open
            }
        };
        let mut items = Vec::with_capacity(limit);
        while items.len() < limit {
            let Some(item) = open.next_item(|_| true)? else { break };
            items.push(item);
        }
        if items.len() == limit {
            self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(index, open);
        }
        Ok(items)
    }

    async fn open_file(&self, index: usize) -> Result<ExportedLines> {
        let file = self.files.get(index).ok_or_else(|| {
            Error::new(ErrorKind::Configuration, "the export has fewer files than when the job was created")
                .with("file", index.to_string())
                .hint("Create the job again")
        })?;
        file.open(self.folder.read_data(&file.data_file_s3_key).await?)
    }
}

impl ExportFolder {
    /// A local folder, or `s3://bucket/prefix` with a client of that bucket.
    #[must_use]
    pub fn bucket_and_prefix(location: &str) -> Option<(&str, &str)> {
        let rest = location.strip_prefix("s3://")?;
        Some(rest.split_once('/').unwrap_or((rest, "")))
    }

    async fn read(&self, name: &str) -> Result<Vec<u8>> {
        match self {
            Self::Local(folder) => read_file(folder.join(name)),
            Self::Bucket(bucket, prefix) => {
                read_object(bucket, &format!("{}/{name}", prefix.trim_end_matches('/'))).await
            }
        }
    }

    /// A data file by its key in the bucket of the export; a local folder has it in `data/`.
    async fn read_data(&self, key: &str) -> Result<Vec<u8>> {
        match self {
            Self::Local(folder) => {
                let name = key.rsplit('/').next().unwrap_or(key);
                read_file(folder.join("data").join(name))
            }
            Self::Bucket(bucket, _) => read_object(bucket, key).await,
        }
    }
}

fn read_file(path: PathBuf) -> Result<Vec<u8>> {
    std::fs::read(&path).map_err(|error| {
        Error::new(ErrorKind::Configuration, "a file of the export cannot be read")
            .with("file", path.display().to_string())
            .caused_by(error)
    })
}
