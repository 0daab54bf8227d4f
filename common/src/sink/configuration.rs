//! The errors that a wrong set-up causes, in the same words whichever store finds them.

use crate::effect::ItemKey;
use crate::{Error, ErrorKind};

pub(super) const TABLE_VARIABLES: &str = "Set AFTERWRITE_STATE_TABLE (rollups and ledger) or AFTERWRITE_TABLES (an application's tables) to the name of \
     a table in this account and region, or create the table";

/// A table that does not exist.
pub(super) fn missing_table(table: &str) -> Error {
    Error::new(ErrorKind::Configuration, "the table does not exist")
        .with("table", table)
        .hint(TABLE_VARIABLES)
}

/// An index that its table does not have.
pub(super) fn missing_index(table: &str, index: &str) -> Error {
    Error::new(ErrorKind::Configuration, "the table has no such global secondary index")
        .with("table", table)
        .with("index", index)
        .hint("Create the index, or name the right one in the table model's lookup")
}

/// A table whose keys are not those that `key` has.
pub(super) fn wrong_keys(key: &ItemKey) -> Error {
    let attributes = [Some(&key.partition), key.sort.as_ref()].into_iter().flatten();
    let expected: Vec<String> =
        attributes.map(|attribute| format!("{} ({})", attribute.name, attribute.value.type_name())).collect();
    Error::new(ErrorKind::Configuration, "the table's keys are not those expected")
        .with("table", &*key.table)
        .with("expected keys", expected.join(", "))
        .hint(
            "Create the table with exactly these keys, or set AFTERWRITE_STATE_TABLE or AFTERWRITE_TABLES to one that has them",
        )
}
