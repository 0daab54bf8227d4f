//! The files and objects of an input, and their contents.

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use afterwrite_bulk::export::{FILES, SUMMARY, is_manifest};
use afterwrite_model::record::{Item, Timestamp};
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::{Bucket, ListedObject};
use flate2::bufread::MultiGzDecoder;
use futures::TryStreamExt as _;
use serde::Deserialize;

use super::items::read_items;
use super::range::TimeRange;
use super::reader::RecordReader;

/// A data file, as the manifest of a table export lists it.
#[derive(Deserialize)]
struct ListedFile {
    #[serde(rename = "dataFileS3Key")]
    key: String,
}

/// The summary of a table export.
#[derive(Deserialize)]
struct ExportSummary {
    #[serde(rename = "tableArn")]
    table: String,
}

/// The name of standard input.
pub(super) const STANDARD_INPUT: &str = "standard input";
/// The first bytes of gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A file or an object with change records.
#[derive(Debug)]
pub enum InputObject<B> {
    /// Standard input.
    StandardInput,
    /// A file.
    File(PathBuf),
    /// An object of a bucket.
    Object {
        /// The bucket.
        bucket: Arc<B>,
        /// Its name.
        name: Arc<str>,
        /// The object's key.
        key: String,
        /// When it was written.
        modified: Timestamp,
        /// Its size in bytes.
        bytes: u64,
        /// Its entity tag, if the list had one.
        etag: Option<String>,
    },
}

/// An opened file or object.
pub type OpenedInput = RecordReader<Box<dyn BufRead + Send>>;

impl<B> InputObject<B> {
    /// An object of a list.
    pub(super) fn of_listed(bucket: &Arc<B>, name: &Arc<str>, listed: ListedObject) -> Self {
        Self::Object {
            bucket: Arc::clone(bucket),
            name: Arc::clone(name),
            key: listed.key,
            modified: listed.modified,
            bytes: listed.size,
            etag: listed.etag,
        }
    }
}

impl<B: Bucket> InputObject<B> {
    /// The files of a path, in the order of their names: the file itself, or all files of a folder and the folders within it.
    ///
    /// # Errors
    /// `Configuration` if the path cannot be read.
    pub fn of_path(path: &Path) -> Result<Vec<Self>> {
        let mut files = Vec::new();
        collect_files(path, &mut files)?;
        files.sort();
        Ok(files.into_iter().map(Self::File).collect())
    }

    /// The objects of a bucket whose keys start with a prefix, in the order of their keys, without archive objects that cannot have
    /// records of the range.
    ///
    /// # Errors
    /// As [`Bucket::list`].
    pub async fn of_prefix(
        bucket: &Arc<B>,
        name: &Arc<str>,
        prefix: &str,
        range: &TimeRange,
    ) -> Result<Vec<Self>> {
        let listed = bucket.list(prefix).await?;
        let listed = listed.into_iter().filter(|object| object.size > 0 && range.may_hold(&object.key));
        Ok(listed.map(|object| Self::of_listed(bucket, name, object)).collect())
    }

    /// Its path or URL.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::StandardInput => STANDARD_INPUT.to_owned(),
            Self::File(path) => path.display().to_string(),
            Self::Object { name, key, .. } => format!("s3://{name}/{key}"),
        }
    }

    /// Its name without the folders.
    #[must_use]
    pub fn file_name(&self) -> String {
        self.name().rsplit(['/', '\\']).next().unwrap_or_default().to_owned()
    }

    /// Its size in bytes; 0 for standard input.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::StandardInput => 0,
            Self::File(path) => path.metadata().map_or(0, |metadata| metadata.len()),
            Self::Object { bytes, .. } => *bytes,
        }
    }

    /// Whether it can be read only once: standard input, and a pipe.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        match self {
            Self::StandardInput => true,
            Self::File(path) => !path.is_file(),
            Self::Object { .. } => false,
        }
    }

    /// Opens it. A file is read as it is needed; an object is held in memory, compressed as it is.
    ///
    /// # Errors
    /// `Configuration` if a file cannot be read or an object does not exist; as [`Bucket::get`].
    pub async fn open(&self) -> Result<OpenedInput> {
        Ok(RecordReader::new(self.content().await?, self.name()))
    }

    /// The same; `None` if it is an object that does not exist any more.
    ///
    /// # Errors
    /// As [`InputObject::open`].
    pub async fn open_if_present(&self) -> Result<Option<OpenedInput>> {
        Ok(self.present_content().await?.map(|content| RecordReader::new(content, self.name())))
    }

    /// Its content, unpacked.
    async fn content(&self) -> Result<Box<dyn BufRead + Send>> {
        self.present_content().await?.ok_or_else(|| {
            Error::new(ErrorKind::Configuration, "the object does not exist").with("object", self.name())
        })
    }

    async fn present_content(&self) -> Result<Option<Box<dyn BufRead + Send>>> {
        let content: Box<dyn BufRead + Send> = match self {
            Self::StandardInput => Box::new(BufReader::new(std::io::stdin())),
            Self::File(path) => Box::new(BufReader::new(open_file(path)?)),
            Self::Object { bucket, key, .. } => {
                let Some(chunks) = bucket.get(key).await? else { return Ok(None) };
                Box::new(Cursor::new(chunks.try_collect::<Vec<_>>().await?.concat()))
            }
        };
        unpacked(content, &self.name()).map(Some)
    }

    /// The table that the manifest of a table export names; `None` if this is not a summary of one.
    ///
    /// # Errors
    /// As [`InputObject::open`].
    pub async fn exported_table(&self) -> Result<Option<String>> {
        if !self.name().ends_with(SUMMARY) {
            return Ok(None);
        }
        let summary: Option<ExportSummary> = serde_json::from_reader(self.content().await?).ok();
        let name =
            summary.and_then(|summary| summary.table.split_once(":table/").map(|(_, name)| name.to_owned()));
        Ok(name.map(|name| name.split('/').next().unwrap_or_default().to_owned()))
    }

    /// The names of the data files that the manifest of a table export lists; empty if this is not such a manifest.
    ///
    /// # Errors
    /// As [`InputObject::open`].
    pub async fn exported_files(&self) -> Result<Vec<String>> {
        if !self.name().ends_with(FILES) {
            return Ok(Vec::new());
        }
        let listed = serde_json::Deserializer::from_reader(self.content().await?).into_iter::<ListedFile>();
        let file_name = |key: String| key.rsplit('/').next().unwrap_or_default().to_owned();
        Ok(listed.map_while(|file| file.ok().map(|file| file_name(file.key))).collect())
    }

    /// Whether it describes a table export, and has no items.
    #[must_use]
    pub fn is_manifest(&self) -> bool {
        is_manifest(&self.file_name())
    }

    /// Its items, at most this many: JSON lines of a table export or of plain items, the output of a scan, or a list.
    ///
    /// # Errors
    /// As [`InputObject::open`]; `Configuration` for text that is not JSON, and for JSON that is not an item.
    pub async fn items(&self, most: usize) -> Result<Vec<Item>> {
        read_items(self.content().await?, most).map_err(|error| error.with("input", self.name()))
    }
}

fn collect_files(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if !path.is_dir() {
        // A missing file is an error now, not in the middle of the work.
        return match path.metadata() {
            Ok(_) => {
                files.push(path.to_owned());
                Ok(())
            }
            Err(error) => Err(unreadable(path, error)),
        };
    }
    for entry in path.read_dir().map_err(|error| unreadable(path, error))? {
        collect_files(&entry.map_err(|error| unreadable(path, error))?.path(), files)?;
    }
    Ok(())
}

/// The content of an input without its compression, if it has one.
pub(super) fn unpacked(mut content: Box<dyn BufRead + Send>, name: &str) -> Result<Box<dyn BufRead + Send>> {
    let start = content.fill_buf().map_err(|error| {
        Error::new(ErrorKind::Configuration, "the input cannot be read").with("input", name).caused_by(error)
    })?;
    let is_gzip = start.starts_with(&GZIP);
    Ok(if is_gzip { Box::new(BufReader::new(MultiGzDecoder::new(content))) } else { content })
}

/// Opens a file to read it.
pub(super) fn open_file(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| unreadable(path, error))
}

pub(super) fn unreadable(path: &Path, cause: std::io::Error) -> Error {
    Error::new(ErrorKind::Configuration, "the input cannot be read")
        .with("path", path.display().to_string())
        .hint("Name a file, a folder, s3://BUCKET/PREFIX, or - for standard input")
        .caused_by(cause)
}
