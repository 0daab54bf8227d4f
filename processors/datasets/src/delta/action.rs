//! Actions: the lines of a commit, and the rows of a checkpoint.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The protocol versions that this crate writes, and the highest that it reads.
pub(super) const READER_VERSION: i32 = 1;
pub(super) const WRITER_VERSION: i32 = 2;

/// One line: exactly one of the fields is present. Actions of other kinds are ignored: at these protocol versions none of them
/// changes which files a table has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ActionLine {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) commit_info: Option<CommitInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) protocol: Option<ProtocolAction>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) meta_data: Option<MetadataAction>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) txn: Option<TransactionAction>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remove: Option<RemoveAction>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) add: Option<AddAction>,
}

/// Who committed, when and why. Other writers may store any JSON here: a field of another type counts as absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "Value")]
pub(super) struct CommitInfo {
    /// Epoch milliseconds.
    pub(super) timestamp: i64,
    pub(super) operation: String,
    pub(super) engine_info: String,
    /// An id that no other commit has.
    pub(super) txn_id: String,
}

impl From<Value> for CommitInfo {
    fn from(stored: Value) -> Self {
        let text = |name| stored.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            timestamp: stored.get("timestamp").and_then(Value::as_i64).unwrap_or_default(),
            operation: text("operation"),
            engine_info: text("engineInfo"),
            txn_id: text("txnId"),
        }
    }
}

/// The versions that a reader and a writer must support.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProtocolAction {
    pub(super) min_reader_version: i32,
    pub(super) min_writer_version: i32,
}

/// The schema and the settings of the table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MetadataAction {
    pub(super) id: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) name: Option<String>,
    pub(super) format: FileFormat,
    pub(super) schema_string: String,
    pub(super) partition_columns: Vec<String>,
    #[serde(default)]
    pub(super) configuration: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) created_time: Option<i64>,
}

/// The format of the table's files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct FileFormat {
    pub(super) provider: String,
    #[serde(default)]
    pub(super) options: BTreeMap<String, String>,
}

impl Default for FileFormat {
    fn default() -> Self {
        Self { provider: "parquet".to_owned(), options: BTreeMap::new() }
    }
}

/// The progress of an application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TransactionAction {
    pub(super) app_id: String,
    pub(super) version: i64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) last_updated: Option<i64>,
}

/// The values of a file's partition columns.
pub(super) type PartitionValues = BTreeMap<String, Option<String>>;

/// A file joins the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AddAction {
    /// Relative to the table, percent-encoded.
    pub(super) path: String,
    #[serde(default)]
    pub(super) partition_values: PartitionValues,
    pub(super) size: u64,
    /// Epoch milliseconds.
    pub(super) modification_time: i64,
    pub(super) data_change: bool,
    /// JSON.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) stats: Option<String>,
}

/// A file leaves the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RemoveAction {
    /// Relative to the table, percent-encoded.
    pub(super) path: String,
    /// Epoch milliseconds.
    #[serde(default)]
    pub(super) deletion_timestamp: Option<i64>,
    pub(super) data_change: bool,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) extended_file_metadata: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) partition_values: Option<PartitionValues>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) size: Option<u64>,
}
