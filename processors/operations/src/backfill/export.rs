//! Table exports: the data files that a manifest lists, checked and read item by item.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use afterwrite::commit::StateItems;
use afterwrite::record::{Item, Timestamp};
use afterwrite::sink::Bucket as _;
use afterwrite::sink::s3::S3Bucket;
use afterwrite::table::Model;
use afterwrite::{Error, ErrorKind, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::MultiGzDecoder;
use futures::StreamExt as _;
use md5::{Digest as _, Md5};
use serde::{Deserialize, Serialize};

use crate::cursor::item_of_json;

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
    open: Mutex<HashMap<usize, OpenFile>>,
}

/// A line of `manifest-files.json`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExportedFile {
    item_count: u64,
    md5_checksum: String,
    data_file_s3_key: String,
}

/// The lines of `manifest-summary.json` that are used.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExportSummary {
    export_time: String,
    #[serde(default)]
    output_format: Option<String>,
    #[serde(default)]
    export_type: Option<String>,
}

#[derive(Debug)]
struct OpenFile {
    text: Arc<[u8]>,
    /// The next line to read, and its position in the text.
    line: usize,
    at: usize,
}

impl TableExport {
    /// Reads the manifest of an export.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if there is no readable manifest of a full export in DynamoDB JSON.
    pub async fn open(folder: ExportFolder) -> Result<(Self, Timestamp)> {
        let summary = folder.read("manifest-summary.json").await?;
        let summary: ExportSummary = serde_json::from_slice(&summary)
            .map_err(|error| unreadable("manifest-summary.json").caused_by(error))?;
        let is_full = summary.export_type.as_deref().is_none_or(|kind| kind == "FULL_EXPORT");
        let is_json = summary.output_format.as_deref().is_none_or(|format| format == "DYNAMODB_JSON");
        if !is_full || !is_json {
            return Err(Error::new(ErrorKind::Configuration, "not a full export in DynamoDB JSON")
                .hint("Export the table with ExportType FULL_EXPORT and ExportFormat DYNAMODB_JSON"));
        }
        let exported_at =
            Timestamp::parse(&summary.export_time).ok_or_else(|| unreadable("manifest-summary.json"))?;
        let manifest = folder.read("manifest-files.json").await?;
        let lines = manifest.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let files = lines.map(serde_json::from_slice).collect::<Result<Vec<ExportedFile>, _>>();
        let files = files.map_err(|error| unreadable("manifest-files.json").caused_by(error))?;
        Ok((Self { folder, files, open: Mutex::default() }, exported_at))
    }

    /// The number of data files.
    #[must_use]
    pub fn count(&self) -> usize {
        self.files.len()
    }

    /// The items of a file from a line on, at most `limit`; fewer only at its end.
    pub(super) async fn items(&self, index: usize, begin: usize, limit: usize) -> Result<Vec<Item>> {
        let file = self.files.get(index).ok_or_else(|| unreadable("manifest-files.json"))?;
        let known = self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&index);
        let mut open = match known.filter(|open| open.line == begin) {
            Some(open) => open,
            None => {
                let mut open = OpenFile { text: self.load(file).await?, line: 0, at: 0 };
                while open.line < begin && open.next_line().is_some() {}
                open
            }
        };
        let mut items = Vec::with_capacity(limit);
        while items.len() < limit {
            let Some(line) = open.next_line() else { break };
            items.push(item_of_line(line).ok_or_else(|| unreadable(&file.data_file_s3_key))?);
        }
        if items.len() == limit {
            self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(index, open);
        }
        Ok(items)
    }

    /// The text of a data file, once its checksum and the number of its items are right.
    async fn load(&self, file: &ExportedFile) -> Result<Arc<[u8]>> {
        let packed = self.folder.read_data(&file.data_file_s3_key).await?;
        if STANDARD.encode(Md5::digest(&packed)) != file.md5_checksum {
            return Err(Error::new(
                ErrorKind::Configuration,
                "a file of the export does not have the checksum of the manifest",
            )
            .with("file", file.data_file_s3_key.as_str())
            .hint("Copy the export again"));
        }
        let mut text = Vec::new();
        MultiGzDecoder::new(packed.as_slice())
            .read_to_end(&mut text)
            .map_err(|error| unreadable(&file.data_file_s3_key).caused_by(error))?;
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
        if u64::try_from(lines).ok() != Some(file.item_count) {
            return Err(
                unreadable(&file.data_file_s3_key).with("items in the manifest", file.item_count.to_string())
            );
        }
        Ok(text.into())
    }
}

impl OpenFile {
    fn next_line(&mut self) -> Option<&[u8]> {
        loop {
            let rest = self.text.get(self.at..).filter(|rest| !rest.is_empty())?;
            let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            let begin = self.at;
            self.at += end + 1;
            if end > 0 {
                self.line += 1;
                return self.text.get(begin..begin + end);
            }
        }
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

async fn read_object(bucket: &S3Bucket, key: &str) -> Result<Vec<u8>> {
    let Some(mut chunks) = bucket.get(key).await? else {
        return Err(
            Error::new(ErrorKind::Configuration, "the bucket has no such file of an export").with("key", key)
        );
    };
    let mut bytes = Vec::new();
    while let Some(chunk) = chunks.next().await {
        bytes.extend_from_slice(&chunk?);
    }
    Ok(bytes)
}

fn item_of_line(line: &[u8]) -> Option<Item> {
    let json: serde_json::Value = serde_json::from_slice(line).ok()?;
    item_of_json(json.get("Item")?)
}

fn unreadable(file: &str) -> Error {
    Error::new(ErrorKind::Configuration, "a file of the export cannot be read").with("file", file)
}
