//! The state of a table at one version: the sum of its commits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use percent_encoding::percent_decode_str;

use super::action::{
    ActionLine, AddAction, MetadataAction, PartitionValues, ProtocolAction, READER_VERSION, RemoveAction,
    TransactionAction, WRITER_VERSION,
};
use super::statistics::FileStatistics;
use super::{PARTITION, RETENTION};

/// The table setting of the time for which files stay after they have left the table.
const RETENTION_SETTING: &str = "delta.deletedFileRetentionDuration";

/// A file of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataFile {
    /// Its path as the log has it: relative to the table, percent-encoded.
    pub path: String,
    /// The partition, `yyyy-mm-dd`.
    pub day: String,
    /// Its size in bytes.
    pub size: u64,
    /// When it was written.
    pub modified: Timestamp,
    /// Its statistics, if its writer stored any.
    pub statistics: Option<FileStatistics>,
}

impl DataFile {
    /// The number of rows; 0 if it is unknown.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.statistics.as_ref().and_then(FileStatistics::rows).unwrap_or(0)
    }

    /// The key of the object that it is, in a table with this prefix.
    #[must_use]
    pub fn object_key(&self, root: &str) -> String {
        format!("{root}{}", relative_key(&self.path))
    }

    fn partition_values(&self) -> PartitionValues {
        BTreeMap::from([(PARTITION.to_owned(), Some(self.day.clone()))])
    }

    /// The action by which it joins the table.
    pub(super) fn add_action(&self, data_change: bool) -> AddAction {
        AddAction {
            path: self.path.clone(),
            partition_values: self.partition_values(),
            size: self.size,
            modification_time: self.modified.epoch_ms(),
            data_change,
            stats: self.statistics.as_ref().map(|statistics| statistics.as_json().to_owned()),
        }
    }

    /// The action by which it leaves the table.
    pub(super) fn remove_action(&self, now: Timestamp, data_change: bool) -> RemoveAction {
        RemoveAction {
            path: self.path.clone(),
            deletion_timestamp: Some(now.epoch_ms()),
            data_change,
            extended_file_metadata: Some(true),
            partition_values: Some(self.partition_values()),
            size: Some(self.size),
        }
    }

    fn from_action(add: AddAction) -> Self {
        let day = add.partition_values.get(PARTITION).cloned().flatten();
        Self {
            path: add.path,
            day: day.unwrap_or_default(),
            size: add.size,
            modified: Timestamp::from_epoch_ms(add.modification_time),
            statistics: add.stats.map(FileStatistics::stored),
        }
    }
}

/// The key of a file relative to its table.
pub(super) fn relative_key(path: &str) -> String {
    percent_decode_str(path).decode_utf8_lossy().into_owned()
}

/// A table at one version.
#[derive(Clone, Debug, Default)]
pub struct TableSnapshot {
    version: Option<u64>,
    protocol: Option<ProtocolAction>,
    metadata: Option<MetadataAction>,
    files: BTreeMap<String, Arc<DataFile>>,
    /// Files that have left the table, and are not forgotten yet.
    tombstones: BTreeMap<String, RemoveAction>,
    transactions: BTreeMap<String, i64>,
}

impl TableSnapshot {
    /// Its version; `None` if the table does not exist.
    #[must_use]
    pub fn version(&self) -> Option<u64> {
        self.version
    }

    /// The version of the next commit.
    #[must_use]
    pub fn next_version(&self) -> u64 {
        self.version.map_or(0, |version| version + 1)
    }

    /// Its files.
    pub fn files(&self) -> impl Iterator<Item = &Arc<DataFile>> {
        self.files.values()
    }

    /// The file of this path.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&Arc<DataFile>> {
        self.files.get(path)
    }

    /// The paths under this prefix that are in the table, or have been and left it within the retention.
    pub fn known_paths(&self, prefix: &str) -> impl Iterator<Item = &str> {
        let begin = prefix.to_owned();
        let files = self.files.range(begin.clone()..).map(|(path, _)| &**path);
        let tombstones = self.tombstones.range(begin.clone()..).map(|(path, _)| &**path);
        let other = begin.clone();
        files
            .take_while(move |path| path.starts_with(&begin))
            .chain(tombstones.take_while(move |path| path.starts_with(&other)))
    }

    /// The version that an application has recorded.
    #[must_use]
    pub fn transaction(&self, app_id: &str) -> Option<i64> {
        self.transactions.get(app_id).copied()
    }

    /// The versions that applications have recorded, by application.
    pub fn transactions(&self) -> impl Iterator<Item = (&str, i64)> {
        self.transactions.iter().map(|(app_id, version)| (&**app_id, *version))
    }

    /// How long files stay in the bucket after they have left the table.
    #[must_use]
    pub fn retention(&self) -> Duration {
        let setting = self.metadata.as_ref().and_then(|it| it.configuration.get(RETENTION_SETTING));
        setting.and_then(|text| interval(text)).unwrap_or(RETENTION)
    }

    /// The paths of files that have left the table, and when they did.
    pub(super) fn tombstones(&self) -> impl Iterator<Item = (&str, Timestamp)> {
        self.tombstones.values().map(|removed| (&*removed.path, removed_at(removed)))
    }

    pub(super) fn metadata(&self) -> Option<&MetadataAction> {
        self.metadata.as_ref()
    }

    /// Applies the lines of a commit or of a checkpoint.
    ///
    /// # Errors
    /// `State` if the table needs a reader or writer of a higher version.
    pub(super) fn apply(&mut self, version: u64, lines: Vec<ActionLine>) -> Result<()> {
        for line in lines {
            let ActionLine { commit_info: _, protocol, meta_data, txn, remove, add } = line;
            if let Some(protocol) = protocol {
                check_protocol(&protocol)?;
                self.protocol = Some(protocol);
            }
            self.metadata = meta_data.or(self.metadata.take());
            self.transactions.extend(txn.map(|txn| (txn.app_id, txn.version)));
            if let Some(remove) = remove {
                self.files.remove(&remove.path);
                self.tombstones.insert(remove.path.clone(), remove);
            }
            if let Some(add) = add {
                self.tombstones.remove(&add.path);
                self.files.insert(add.path.clone(), Arc::new(DataFile::from_action(add)));
            }
        }
        self.version = Some(version);
        Ok(())
    }

    /// The rows of a checkpoint of this version. Tombstones are forgotten after the retention.
    pub(super) fn checkpoint_lines(&self, now: Timestamp) -> Vec<ActionLine> {
        let forgotten = now.minus(self.retention());
        let mut lines = vec![
            ActionLine { protocol: self.protocol.clone(), ..ActionLine::default() },
            ActionLine { meta_data: self.metadata.clone(), ..ActionLine::default() },
        ];
        lines.extend(self.transactions.iter().map(|(app_id, version)| ActionLine {
            txn: Some(TransactionAction { app_id: app_id.clone(), version: *version, last_updated: None }),
            ..ActionLine::default()
        }));
        lines.extend(
            self.files
                .values()
                .map(|file| ActionLine { add: Some(file.add_action(false)), ..ActionLine::default() }),
        );
        let remembered = self.tombstones.values().filter(|removed| removed_at(removed) > forgotten);
        lines.extend(remembered.map(|removed| ActionLine {
            remove: Some(RemoveAction { data_change: false, ..removed.clone() }),
            ..ActionLine::default()
        }));
        lines
    }
}

fn removed_at(removed: &RemoveAction) -> Timestamp {
    Timestamp::from_epoch_ms(removed.deletion_timestamp.unwrap_or(0))
}

fn check_protocol(protocol: &ProtocolAction) -> Result<()> {
    let ProtocolAction { min_reader_version: reader, min_writer_version: writer } = *protocol;
    if reader <= READER_VERSION && writer <= WRITER_VERSION {
        return Ok(());
    }
    Err(Error::new(ErrorKind::State, "another program has raised the protocol of a table")
        .with("reader version", reader.to_string())
        .with("writer version", writer.to_string())
        .hint("Afterwrite supports reader version 1 and writer version 2: enable no table features on its tables"))
}

/// The setting of a retention.
pub(super) fn retention_setting(retention: Duration) -> (String, String) {
    (RETENTION_SETTING.to_owned(), format!("interval {} seconds", retention.as_secs()))
}

/// A duration as Delta's settings write it, such as `interval 7 days`. Spark takes any case, several parts and quotes:
/// `INTERVAL '1' WEEK 12 hours`.
pub(super) fn interval(text: &str) -> Option<Duration> {
    let text = text.to_ascii_lowercase().replace('\'', "");
    let text = text.trim();
    let mut words = text.strip_prefix("interval ").unwrap_or(text).split_whitespace().peekable();
    words.peek()?;
    let mut all = 0_u64;
    while let Some(number) = words.next() {
        let number: u64 = number.parse().ok()?;
        let seconds = match words.next()?.trim_end_matches('s') {
            "second" => 1,
            "minute" => 60,
            "hour" => 60 * 60,
            "day" => 24 * 60 * 60,
            "week" => 7 * 24 * 60 * 60,
            _ => return None,
        };
        all = all.checked_add(number.checked_mul(seconds)?)?;
    }
    Some(Duration::from_secs(all))
}
