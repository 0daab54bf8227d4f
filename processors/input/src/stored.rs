//! Inputs as a job stores them: each file and object with its place, its size and what its content is known by. A resumed job reads exactly
//! these, and refuses another content.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use afterwrite_model::{Error, ErrorKind, Result, hex};
use afterwrite_services::{Bucket, ListedObject};
use futures::TryStreamExt as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::object::{InputObject, OpenedInput, open_file, unpacked, unreadable};
use super::reader::RecordReader;

/// The bytes that are read at once of a file whose checksum is computed.
const CHUNK: usize = 256 * 1024;
/// The first bytes of a checksum are enough.
const CHECKSUM_BYTES: usize = 32;

/// A file or an object of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredInput {
    /// Its absolute path, or `s3://bucket/key`.
    pub place: String,
    /// Its size in bytes; 0 for a stream.
    pub bytes: u64,
    /// The identity of its content.
    pub content: InputContent,
}

/// The identity of an input's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputContent {
    /// The SHA-256 checksum of a file.
    Sha256(String),
    /// The entity tag of an object.
    Etag(String),
    /// When an object was written, in epoch milliseconds, in a bucket whose lists have no entity tags.
    ModifiedMs(i64),
    /// Nothing: standard input and pipes can be read once.
    Stream,
}

impl StoredInput {
    /// Refuses an input that can be read only once.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] for standard input and for a pipe.
    pub fn check_resumable(&self) -> Result<()> {
        if self.content != InputContent::Stream {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Configuration,
            "the job read standard input or a pipe, which cannot be read again",
        )
        .with("input", self.place.as_str())
        .hint(
            "Write the records to a file and replay that file: records that are counted already are skipped",
        ))
    }

    /// The bucket and the key of an object.
    fn bucket_and_key(&self) -> Option<(&str, &str)> {
        self.place.strip_prefix("s3://")?.split_once('/')
    }

    fn changed(&self, present: &str) -> Error {
        Error::new(ErrorKind::Configuration, "an input of the job has changed since the job was planned")
            .with("input", self.place.as_str())
            .with("planned", format!("{} bytes, {}", self.bytes, self.content.described()))
            .with("now", present)
            .hint("Restore the input, or plan another replay: records that are counted already are skipped")
    }

    /// The file, if it is as it was stored.
    fn file<B: Bucket>(&self) -> Result<InputObject<B>> {
        let path = PathBuf::from(&self.place);
        if !path.is_file() {
            return Err(self.changed("missing"));
        }
        self.unchanged(InputObject::File(path))
    }

    /// The input, if it is as it was stored.
    fn unchanged<B: Bucket>(&self, input: InputObject<B>) -> Result<InputObject<B>> {
        let Self { bytes, content, .. } = input.stored()?;
        if bytes != self.bytes || content != self.content {
            return Err(self.changed(&format!("{bytes} bytes, {}", content.described())));
        }
        Ok(input)
    }

    /// The object, if it is as it was stored.
    fn object<B: Bucket>(
        &self,
        bucket: &Arc<B>,
        name: &str,
        listed: Option<&ListedObject>,
    ) -> Result<InputObject<B>> {
        let Some(listed) = listed else { return Err(self.changed("missing")) };
        self.unchanged(InputObject::of_listed(bucket, &Arc::from(name), listed.clone()))
    }
}

/// A file that is read with the content that it was stored with: its end is an error if it had another.
pub(super) struct StoredFile {
    file: File,
    hash: Sha256,
    /// The checksum; `None` for a stream.
    planned: Option<String>,
}

impl StoredFile {
    pub(super) fn new(file: File, stored: &StoredInput) -> Self {
        let planned = match &stored.content {
            InputContent::Sha256(checksum) => Some(checksum.clone()),
            InputContent::Etag(_) | InputContent::ModifiedMs(_) | InputContent::Stream => None,
        };
        Self { file, hash: Sha256::new(), planned }
    }
}

impl Read for StoredFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read(buffer)?;
        self.hash.update(buffer.get(..length).unwrap_or_default());
        let is_end = length == 0 && !buffer.is_empty();
        if is_end && self.planned.as_ref().is_some_and(|planned| checksum_text(&self.hash) != *planned) {
            let problem =
                "the file has changed since the job was planned: restore it, or plan another replay";
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        Ok(length)
    }
}

impl InputContent {
    fn described(&self) -> String {
        match self {
            Self::Sha256(checksum) => format!("SHA-256 {checksum}"),
            Self::Etag(etag) => format!("ETag {etag}"),
            Self::ModifiedMs(at) => {
                format!("written at {}", afterwrite_model::record::Timestamp::from_epoch_ms(*at))
            }
            Self::Stream => "a stream".to_owned(),
        }
    }
}

impl<B: Bucket> InputObject<B> {
    /// The input as a job stores it. A file is read to compute its checksum.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if a file cannot be read.
    pub fn stored(&self) -> Result<StoredInput> {
        let content = match self {
            Self::File(path) if !self.is_stream() => InputContent::Sha256(checksum(path)?),
            Self::StandardInput | Self::File(_) => InputContent::Stream,
            Self::Object { etag: Some(etag), .. } => InputContent::Etag(etag.clone()),
            Self::Object { modified, .. } => InputContent::ModifiedMs(modified.epoch_ms()),
        };
        let bytes = if content == InputContent::Stream { 0 } else { self.bytes() };
        Ok(StoredInput { place: self.name(), bytes, content })
    }

    /// Opens it with the content that it was stored with. Of a file, this is known at its end.
    ///
    /// # Errors
    /// `Configuration` if it has another content, also from the reader; as [`InputObject::open`].
    pub async fn open_stored(&self, stored: &StoredInput) -> Result<OpenedInput> {
        let content: Box<dyn BufRead + Send> = match self {
            Self::StandardInput => return self.open().await,
            Self::File(path) => Box::new(BufReader::new(StoredFile::new(open_file(path)?, stored))),
            Self::Object { bucket, key, etag, .. } => {
                let chunks = bucket.get_tagged(key, etag.as_deref()).await?;
                let chunks = chunks.ok_or_else(|| stored.changed("another content, or none"))?;
                let content = chunks.try_collect::<Vec<_>>().await?.concat();
                if u64::try_from(content.len()).ok() != Some(stored.bytes) {
                    return Err(stored.changed(&format!("{} bytes", content.len())));
                }
                Box::new(Cursor::new(content))
            }
        };
        Ok(RecordReader::new(unpacked(content, &self.name())?, self.name()))
    }

    /// The input by its absolute path: a job may be resumed in another folder.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if the path cannot be made absolute.
    pub fn absolute(self) -> Result<Self> {
        match self {
            Self::File(path) => {
                std::path::absolute(&path).map(Self::File).map_err(|error| unreadable(&path, error))
            }
            Self::StandardInput | Self::Object { .. } => Ok(self),
        }
    }

    /// The inputs of a resumed job, in order, each as it was stored. `buckets` has a bucket for each name in [`bucket_names`].
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if an input is missing, has changed, or can be read only once; as [`Bucket::list`].
    pub async fn of_stored(stored: &[StoredInput], buckets: &BTreeMap<String, Arc<B>>) -> Result<Vec<Self>> {
        stored.iter().try_for_each(StoredInput::check_resumable)?;
        let mut listed: BTreeMap<(&str, String), ListedObject> = BTreeMap::new();
        for (name, bucket) in buckets {
            let keys = stored.iter().filter_map(StoredInput::bucket_and_key);
            let keys = keys.filter(|(bucket, _)| bucket == name).map(|(_, key)| key);
            for object in bucket.list(common_prefix(keys)).await? {
                listed.insert((name.as_str(), object.key.clone()), object);
            }
        }
        let input = |stored: &StoredInput| match stored.bucket_and_key() {
            None => stored.file(),
            Some((name, key)) => {
                let bucket = buckets.get(name).ok_or_else(|| stored.changed("missing"))?;
                stored.object(bucket, name, listed.get(&(name, key.to_owned())))
            }
        };
        stored.iter().map(input).collect()
    }
}

/// The names of the buckets of inputs.
#[must_use]
pub fn bucket_names(stored: &[StoredInput]) -> Vec<&str> {
    let mut names: Vec<&str> =
        stored.iter().filter_map(StoredInput::bucket_and_key).map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The text that all of these begin with.
fn common_prefix<'k>(keys: impl Iterator<Item = &'k str>) -> &'k str {
    let common = |one: &'k str, other: &'k str| {
        let equal = one.char_indices().zip(other.chars()).find(|((_, one), other)| one != other);
        let length = equal.map_or(one.len().min(other.len()), |((at, _), _)| at);
        one.get(..length).unwrap_or_default()
    };
    keys.reduce(common).unwrap_or_default()
}

fn checksum_text(hash: &Sha256) -> String {
    hex(&hash.clone().finalize(), CHECKSUM_BYTES)
}

fn checksum(path: &Path) -> Result<String> {
    let failed = |error| unreadable(path, error);
    let mut file = File::open(path).map_err(failed)?;
    let (mut hash, mut chunk) = (Sha256::new(), vec![0; CHUNK]);
    loop {
        match file.read(&mut chunk).map_err(failed)? {
            0 => return Ok(checksum_text(&hash)),
            length => hash.update(chunk.get(..length).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use afterwrite_memory::MemoryObjects;

    use super::*;

    type Input = InputObject<MemoryObjects>;

    fn refusal(stored: &[StoredInput]) -> String {
        let read = futures::executor::block_on(Input::of_stored(stored, &BTreeMap::new()));
        read.unwrap_err().report()
    }

    #[test]
    fn a_file_is_read_again_only_with_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.jsonl");
        std::fs::write(&path, "one\ntwo\n").unwrap();
        let stored = vec![Input::File(path.clone()).stored().unwrap()];
        let read = futures::executor::block_on(Input::of_stored(&stored, &BTreeMap::new())).unwrap();
        assert!(matches!(&read[..], [Input::File(read)] if *read == path));
        for (content, words) in [("one\n", "4 bytes"), ("one\nTWO\n", "has changed")] {
            std::fs::write(&path, content).unwrap();
            assert!(refusal(&stored).contains(words), "{}", refusal(&stored));
        }
        std::fs::remove_file(&path).unwrap();
        assert!(refusal(&stored).contains("now: missing"));
    }

    #[test]
    fn a_file_that_changes_before_it_is_read_is_an_error_at_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.jsonl");
        let record = "{\"eventID\":\"1\",\"dynamodb\":{}}\n";
        std::fs::write(&path, record.repeat(3)).unwrap();
        let input = Input::File(path.clone());
        let stored = input.stored().unwrap();
        let read_all = || {
            let opened = futures::executor::block_on(input.open_stored(&stored));
            let mut reader = opened.map_err(|error| error.report())?;
            let mut read = 0;
            while reader.next_record().map_err(|error| error.report())?.is_some() {
                read += 1;
            }
            Ok::<_, String>(read)
        };
        assert_eq!(read_all(), Ok(3));
        for content in [record.repeat(2), record.repeat(4), record.repeat(3).replace('1', "2"), String::new()]
        {
            std::fs::write(&path, content).unwrap();
            let refused = read_all().unwrap_err();
            assert!(refused.contains("has changed since the job was planned"), "{refused}");
        }
    }

    #[test]
    fn standard_input_is_not_read_again() {
        let stored = vec![Input::StandardInput.stored().unwrap()];
        assert!(refusal(&stored).contains("cannot be read again"));
        let device = Input::File(PathBuf::from("/dev/null")).stored().unwrap();
        assert_eq!(device.content, InputContent::Stream);
    }

    #[test]
    fn the_common_prefix_ends_at_a_character() {
        assert_eq!(common_prefix(["a/bé1", "a/bé2", "a/bè"].into_iter()), "a/b");
        assert_eq!(common_prefix(["a/b"].into_iter()), "a/b");
        assert_eq!(common_prefix(["a", "ab"].into_iter()), "a");
        assert_eq!(common_prefix([].into_iter()), "");
    }
}
