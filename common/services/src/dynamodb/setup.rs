//! Errors about tables that are missing or have another structure. Public, so that a stand-in for DynamoDB reports the same errors.

use afterwrite_model::effect::{ItemKey, KeyAttribute};
use afterwrite_model::{Error, ErrorKind};

/// The settings that name tables.
pub(super) const TABLE_SETTINGS: &str =
    "AFTERWRITE_STATE_TABLE (rollups and ledger) or AFTERWRITE_TABLES (an application's tables)";

/// The error for a table that does not exist.
#[must_use]
pub fn missing_table(table: &str) -> Error {
    Error::new(ErrorKind::Configuration, "the table does not exist").with("table", table).hint(format!(
        "Set {TABLE_SETTINGS} to the name of a table in this account and region, or create the table"
    ))
}

/// The error for an index that its table does not have.
#[must_use]
pub fn missing_index(table: &str, index: &str) -> Error {
    Error::new(ErrorKind::Configuration, "the table has no such global secondary index")
        .with("table", table)
        .with("index", index)
        .hint("Create the index, or correct its name in the table model's lookup")
}

/// The error for a table whose key schema differs from `key`.
#[must_use]
pub fn key_schema_mismatch(key: &ItemKey) -> Error {
    let described = |key: &KeyAttribute| format!("{} ({})", key.name, key.value.type_name());
    let expected: Vec<String> = key.attributes().map(described).collect();
    Error::new(ErrorKind::Configuration, "the table's key schema differs from the expected one")
        .with("table", &*key.table)
        .with("expected keys", expected.join(", "))
        .hint(
            "Create the table with exactly these keys, or set AFTERWRITE_STATE_TABLE or AFTERWRITE_TABLES to one that has them",
        )
}
