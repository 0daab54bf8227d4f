//! The objects of a table's log: their keys, and their lines.

use afterwrite_model::{Error, ErrorKind, Result};

use super::action::ActionLine;

const LOG: &str = "_delta_log/";
const COMMIT: &str = ".json";
const CHECKPOINT: &str = ".checkpoint.parquet";

/// The prefix of the objects of a table's log.
pub(super) fn log_prefix(root: &str) -> String {
    format!("{root}{LOG}")
}

/// The key of the commit of a version.
pub(super) fn commit_key(root: &str, version: u64) -> String {
    format!("{root}{LOG}{version:020}{COMMIT}")
}

/// The key of the checkpoint of a version.
pub(super) fn checkpoint_key(root: &str, version: u64) -> String {
    format!("{root}{LOG}{version:020}{CHECKPOINT}")
}

/// The key of a part of a checkpoint that another writer has divided, numbered from 1.
pub(super) fn checkpoint_part_key(root: &str, version: u64, (part, parts): (u64, u64)) -> String {
    format!("{root}{LOG}{version:020}.checkpoint.{part:010}.{parts:010}.parquet")
}

/// The key of the object that names the newest checkpoint.
pub(super) fn last_checkpoint_key(root: &str) -> String {
    format!("{root}{LOG}_last_checkpoint")
}

/// An object of the log, by its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogFile {
    Commit(u64),
    Checkpoint(u64),
    /// A part of the checkpoint of a version, which has this number of parts.
    CheckpointPart(u64, u64),
    /// A checkpoint of a later form (v2), which has an id in its name. It is not read.
    LaterCheckpoint(u64),
}

impl LogFile {
    /// `None` for objects that are neither.
    pub(super) fn of(root: &str, key: &str) -> Option<Self> {
        let name = key.strip_prefix(root)?.strip_prefix(LOG)?;
        if let Some(version) = name.strip_suffix(COMMIT) {
            let later = || version.split_once(".checkpoint.")?.0.parse().ok().map(Self::LaterCheckpoint);
            return version.parse().ok().map(Self::Commit).or_else(later);
        }
        if let Some(version) = name.strip_suffix(CHECKPOINT) {
            return version.parse().ok().map(Self::Checkpoint);
        }
        let (version, part) = name.strip_suffix(".parquet")?.split_once(".checkpoint.")?;
        let version = version.parse().ok()?;
        match part.split_once('.') {
            Some((_, parts)) => parts.parse().ok().map(|parts| Self::CheckpointPart(version, parts)),
            None => Some(Self::LaterCheckpoint(version)),
        }
    }
}

/// The lines of a commit.
pub(super) fn parse_commit(key: &str, text: &[u8]) -> Result<Vec<ActionLine>> {
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    lines.map(|line| serde_json::from_slice(line).map_err(|error| unreadable(key, error))).collect()
}

/// The error of an object of the log that does not follow the protocol.
pub(super) fn unreadable(key: &str, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorKind::State, "cannot read the log of a table").with("object", key).caused_by(cause)
}
