//! A change of a table, as a caller decides it, and the lines of its commit.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use arrow_schema::SchemaRef;
use uuid::Uuid;

use super::PARTITION;
use super::action::{
    ActionLine, CommitInfo, FileFormat, MetadataAction, ProtocolAction, READER_VERSION, TransactionAction,
    WRITER_VERSION,
};
use super::schema::merge_schema;
use super::snapshot::{DataFile, TableSnapshot, retention_setting};

const ENGINE: &str = concat!("afterwrite/", env!("CARGO_PKG_VERSION"));

/// The content of one commit.
#[derive(Clone, Debug)]
pub struct TableChange {
    /// The purpose of the commit, for people: `EXPORT`, `PACK`, `DERIVE`.
    pub operation: &'static str,
    /// The columns of the files, without the partition column. Columns that the table lacks are added to it.
    pub schema: SchemaRef,
    /// Files that join the table.
    pub add: Vec<DataFile>,
    /// Paths of files that leave the table.
    pub remove: BTreeSet<String>,
    /// Versions of applications that the commit records.
    pub transactions: BTreeMap<String, i64>,
    /// Whether the rows of the table change. If not, the same rows are in other files.
    pub data_change: bool,
    /// How long files that leave the table stay in the bucket; `None` leaves the table's setting as it is.
    pub retention: Option<Duration>,
}

impl TableChange {
    /// A change that does nothing yet.
    #[must_use]
    pub fn new(operation: &'static str, schema: SchemaRef) -> Self {
        Self {
            operation,
            schema,
            add: Vec::new(),
            remove: BTreeSet::new(),
            transactions: BTreeMap::new(),
            data_change: true,
            retention: None,
        }
    }

    /// The lines of the commit that follows `before`.
    ///
    /// # Errors
    /// `Configuration` if a column of the table has another type.
    pub(super) fn lines(self, before: &TableSnapshot, now: Timestamp) -> Result<Vec<ActionLine>> {
        let info = CommitInfo {
            timestamp: now.epoch_ms(),
            operation: self.operation.to_owned(),
            engine_info: ENGINE.to_owned(),
            txn_id: Uuid::new_v4().to_string(),
        };
        let mut lines = vec![ActionLine { commit_info: Some(info), ..ActionLine::default() }];
        if before.version().is_none() {
            let protocol =
                ProtocolAction { min_reader_version: READER_VERSION, min_writer_version: WRITER_VERSION };
            lines.push(ActionLine { protocol: Some(protocol), ..ActionLine::default() });
        }
        if let Some(metadata) = self.metadata(before, now)? {
            lines.push(ActionLine { meta_data: Some(metadata), ..ActionLine::default() });
        }
        lines.extend(self.transactions.into_iter().map(|(app_id, version)| ActionLine {
            txn: Some(TransactionAction { app_id, version, last_updated: Some(now.epoch_ms()) }),
            ..ActionLine::default()
        }));
        let removed = self.remove.iter().filter_map(|path| before.file(path));
        lines.extend(removed.map(|file| ActionLine {
            remove: Some(file.remove_action(now, self.data_change)),
            ..ActionLine::default()
        }));
        lines.extend(self.add.iter().map(|file| ActionLine {
            add: Some(file.add_action(self.data_change)),
            ..ActionLine::default()
        }));
        Ok(lines)
    }

    /// The new metadata; `None` if the table's stays as it is.
    fn metadata(&self, before: &TableSnapshot, now: Timestamp) -> Result<Option<MetadataAction>> {
        let Some(known) = before.metadata() else {
            let retention = self.retention.unwrap_or(super::RETENTION);
            return Ok(Some(MetadataAction {
                id: Uuid::new_v4().to_string(),
                name: None,
                format: FileFormat::default(),
                schema_string: merge_schema(None, &self.schema)?,
                partition_columns: vec![PARTITION.to_owned()],
                configuration: BTreeMap::from([retention_setting(retention)]),
                created_time: Some(now.epoch_ms()),
            }));
        };
        let mut metadata = known.clone();
        metadata.schema_string = merge_schema(Some(&known.schema_string), &self.schema)?;
        metadata.configuration.extend(self.retention.map(retention_setting));
        Ok((metadata != *known).then_some(metadata))
    }
}

/// The text of a commit.
pub(super) fn commit_text(lines: &[ActionLine]) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    for line in lines {
        serde_json::to_writer(&mut text, line).map_err(|error| {
            Error::new(ErrorKind::State, "cannot write a commit of a table").caused_by(error)
        })?;
        text.push(b'\n');
    }
    Ok(text)
}

/// The outcome of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitAttempt {
    /// The change is this version of the table.
    Committed(u64),
    /// Another writer has written the version. The change was decided without knowing it, so nothing was changed.
    Conflict,
}
