//! Full table exports: the manifest, and data files that are checked and read line by line.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::sync::Arc;

use afterwrite_ledger::tables::TableSummary;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::record::{Item, Timestamp, read_item_line};
use afterwrite_model::table::{KeySchema, Model, Table};
use afterwrite_model::{Error, ErrorKind, Result, hex};
use afterwrite_services::Bucket;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::MultiGzDecoder;
use futures::StreamExt as _;
use md5::{Digest as _, Md5};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

/// The name of the manifest that describes an export.
pub const SUMMARY: &str = "manifest-summary.json";
/// The name of the manifest that lists the data files.
pub const FILES: &str = "manifest-files.json";

/// Whether a file of an export is a manifest, or the checksum of one: `manifest-summary.json.md5`, `manifest-summary.checksum`.
#[must_use]
pub fn is_manifest(file_name: &str) -> bool {
    [SUMMARY, FILES].iter().any(|manifest| file_name.starts_with(manifest.trim_end_matches("json")))
}

/// The buffer of a data file's text.
const TEXT_BUFFER: usize = 256 * 1024;

/// The manifests of a full export in DynamoDB JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportManifest {
    /// The point in time that the export shows.
    pub exported_at: Timestamp,
    /// The deployed name of the table, if the manifest has it.
    pub table: Option<String>,
    /// The ARN of the table, if the manifest has it.
    arn: Option<String>,
    /// The id that DynamoDB gave the table, if the manifest has it.
    table_id: Option<String>,
    /// The data files.
    pub files: Vec<ExportedFile>,
    /// A hash of both manifests, which have the checksums of all data files: another export has another.
    pub fingerprint: String,
}

/// A data file: a line of `manifest-files.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExportedFile {
    /// The number of its items.
    pub item_count: u64,
    /// The checksum of its bytes, base64.
    pub md5_checksum: String,
    /// Its key in the bucket of the export.
    pub data_file_s3_key: String,
}

/// The lines of `manifest-summary.json` that are used.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExportSummary {
    export_time: String,
    #[serde(default)]
    table_arn: Option<String>,
    #[serde(default)]
    table_id: Option<String>,
    #[serde(default)]
    item_count: Option<u64>,
    #[serde(default)]
    output_format: Option<String>,
    #[serde(default)]
    export_type: Option<String>,
}

impl ExportManifest {
    /// Reads the contents of both manifests.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if they are not of a full export in DynamoDB JSON.
    pub fn parse(summary: &[u8], files: &[u8]) -> Result<Self> {
        let fingerprint = fingerprint(&[summary, files]);
        let summary: ExportSummary =
            serde_json::from_slice(summary).map_err(|error| unreadable(SUMMARY).caused_by(error))?;
        let is_full = summary.export_type.as_deref().is_none_or(|kind| kind == "FULL_EXPORT");
        let is_json = summary.output_format.as_deref().is_none_or(|format| format == "DYNAMODB_JSON");
        if !is_full || !is_json {
            return Err(Error::new(ErrorKind::Configuration, "not a full export in DynamoDB JSON")
                .hint("Export the table with ExportType FULL_EXPORT and ExportFormat DYNAMODB_JSON"));
        }
        let exported_at = Timestamp::parse(&summary.export_time).ok_or_else(|| unreadable(SUMMARY))?;
        let lines = files.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let files: Vec<ExportedFile> = lines
            .map(serde_json::from_slice)
            .collect::<Result<_, _>>()
            .map_err(|error| unreadable(FILES).caused_by(error))?;
        let mut keys = BTreeSet::new();
        if let Some(twice) = files.iter().find(|file| !keys.insert(&file.data_file_s3_key)) {
            return Err(Error::new(ErrorKind::Configuration, "the export lists a data file twice")
                .with("file", twice.data_file_s3_key.as_str())
                .hint("Copy the export again: its list of files was changed"));
        }
        let items: u64 = files.iter().map(|file| file.item_count).sum();
        if let Some(all) = summary.item_count.filter(|all| *all != items) {
            return Err(Error::new(ErrorKind::Configuration, "the manifests of the export have different numbers of items")
                .with(SUMMARY, all.to_string())
                .with(FILES, items.to_string())
                .hint("Copy the export again: a part of its list of files is missing, or one of the two is of another export"));
        }
        let table = summary.table_arn.as_ref().and_then(|arn| Some(arn.rsplit_once('/')?.1.to_owned()));
        Ok(Self {
            exported_at,
            table,
            arn: summary.table_arn,
            table_id: summary.table_id,
            files,
            fingerprint,
        })
    }

    /// Refuses an export of another table with the same name: a table of another account or region, or an earlier table.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] with the difference.
    pub fn check_origin(&self, described: &TableSummary) -> Result<()> {
        let different = |one: &Option<String>, other: &Option<String>| {
            one.clone().zip(other.clone()).filter(|(one, other)| one != other)
        };
        let arns = different(&self.arn, &described.arn).map(|arns| ("ARN", arns));
        let ids = || different(&self.table_id, &described.id).map(|ids| ("id", ids));
        let Some((name, (exported, deployed))) = arns.or_else(ids) else { return Ok(()) };
        Err(Error::new(ErrorKind::Configuration, "the export is of another table with the same name")
            .with("part that differs", name)
            .with("exported table", exported)
            .with("table to count", deployed)
            .hint("Export the table of this account and region as it is now: no stream has the changes between another table and this one"))
    }

    /// The table that was exported: an index into these deployed names.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if the names lack the table, or if the export does not name its table.
    pub fn table_among(&self, table_names: &[Arc<str>]) -> Result<usize> {
        let position = |name: &String| table_names.iter().position(|known| **known == **name);
        match (&self.table, table_names) {
            (Some(name), _) => position(name).ok_or_else(|| self.of_unknown_table()),
            (None, [_]) => Ok(0),
            (None, _) => Err(self.of_unknown_table()),
        }
    }

    fn of_unknown_table(&self) -> Error {
        Error::new(ErrorKind::Configuration, "the export is of a table that the model does not have")
            .with("table", self.table.as_deref().unwrap_or("not named in the manifest"))
            .hint("Set AFTERWRITE_TABLES if the table has another name than in the model")
    }

    /// Reads the manifests below a prefix of a bucket: `…/AWSDynamoDB/<export id>`.
    ///
    /// # Errors
    /// As [`ExportManifest::parse`] and [`Bucket::get`].
    pub async fn read(bucket: &impl Bucket, prefix: &str) -> Result<Self> {
        let prefix = prefix.trim_end_matches('/');
        let summary = read_object(bucket, &format!("{prefix}/{SUMMARY}")).await?;
        let files = read_object(bucket, &format!("{prefix}/{FILES}")).await?;
        Self::parse(&summary, &files)
    }
}

impl ExportedFile {
    /// Checks the file's bytes, and returns its lines.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if the checksum differs.
    pub fn open(&self, packed: Vec<u8>) -> Result<ExportedLines> {
        if STANDARD.encode(Md5::digest(&packed)) != self.md5_checksum {
            return Err(Error::new(
                ErrorKind::Configuration,
                "a file of the export does not have the checksum of the manifest",
            )
            .with("file", self.data_file_s3_key.as_str())
            .hint("Copy the export again"));
        }
        let text = BufReader::with_capacity(TEXT_BUFFER, MultiGzDecoder::new(std::io::Cursor::new(packed)));
        Ok(ExportedLines { file: self.clone(), text, line: Vec::new(), read: 0 })
    }
}

/// The lines of a data file. In memory are the compressed file and one line.
pub struct ExportedLines {
    file: ExportedFile,
    text: BufReader<MultiGzDecoder<std::io::Cursor<Vec<u8>>>>,
    line: Vec<u8>,
    read: u64,
}

impl std::fmt::Debug for ExportedLines {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ExportedLines").field("file", &self.file).finish_non_exhaustive()
    }
}

impl ExportedLines {
    /// The next item of a table of the model, with its key and the attributes that `is_read` accepts; `None` at the end of the file.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if the file cannot be unpacked, a line is not an item of the table, or the file has another number of items
    /// than the manifest states.
    pub fn next_item(
        &mut self,
        (model, table): (&Model, usize),
        is_read: impl Fn(&str) -> bool,
    ) -> Result<Option<Item>> {
        if !self.next_line()? {
            return Ok(None);
        }
        let key = || model.tables.get(table).into_iter().flat_map(Table::key);
        let is_key = |name: &str| key().any(|key| *key.name == *name);
        let item = read_item_line(&self.line, |name| is_key(name) || is_read(name))
            .ok_or_else(|| self.at_line(unreadable(&self.file.data_file_s3_key)))?;
        if SourceKey::of_item(model, table, &item).is_none() {
            return Err(self.at_line(without_key(&self.file.data_file_s3_key, key())));
        }
        Ok(Some(item))
    }

    /// The error of the line that was read last.
    fn at_line(&self, error: Error) -> Error {
        error.with("line", self.read.to_string())
    }

    /// Passes over lines.
    ///
    /// # Errors
    /// As [`ExportedLines::next_item`].
    pub fn skip(&mut self, lines: u64) -> Result<()> {
        for _ in 0..lines {
            if !self.next_line()? {
                break;
            }
        }
        Ok(())
    }

    /// The number of lines that were read.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.read
    }

    fn next_line(&mut self) -> Result<bool> {
        loop {
            self.line.clear();
            let bytes = self
                .text
                .read_until(b'\n', &mut self.line)
                .map_err(|error| unreadable(&self.file.data_file_s3_key).caused_by(error))?;
            if bytes == 0 {
                return self.check_end().map(|()| false);
            }
            if self.line.last() == Some(&b'\n') {
                self.line.pop();
            }
            if !self.line.is_empty() {
                self.read += 1;
                return Ok(true);
            }
        }
    }

    fn check_end(&self) -> Result<()> {
        if self.read == self.file.item_count {
            return Ok(());
        }
        Err(unreadable(&self.file.data_file_s3_key)
            .with("items in the manifest", self.file.item_count.to_string())
            .with("items in the file", self.read.to_string()))
    }
}

/// Reads an object that must exist.
///
/// # Errors
/// As [`Bucket::get`]; [`ErrorKind::Configuration`] if it does not exist.
pub async fn read_object(bucket: &impl Bucket, key: &str) -> Result<Vec<u8>> {
    let Some(mut chunks) = bucket.get(key).await? else {
        return Err(Error::new(ErrorKind::Configuration, "the bucket has no such object").with("key", key));
    };
    let mut bytes = Vec::new();
    while let Some(chunk) = chunks.next().await {
        bytes.extend_from_slice(&chunk?);
    }
    Ok(bytes)
}

fn fingerprint(texts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(text.len().to_le_bytes());
        hash.update(text);
    }
    hex(&hash.finalize(), 32)
}

/// The error of an item without the key of the table: it is of another table.
fn without_key<'k>(file: &str, key: impl Iterator<Item = &'k KeySchema>) -> Error {
    let key: Vec<String> = key.map(|key| format!("{} ({})", key.name, key.key_type.name())).collect();
    Error::new(ErrorKind::Configuration, "an item of the export does not have the key of the table")
        .with("file", file)
        .with("key of the table", key.join(", "))
        .hint("Export the table that the model names, or correct its `key` in the model")
}

fn unreadable(file: &str) -> Error {
    Error::new(ErrorKind::Configuration, "a file of the export cannot be read").with("file", file)
}
