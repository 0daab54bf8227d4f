//! The source tables that a function serves.

use std::sync::Arc;

use afterwrite::entity::SourceKey;
use afterwrite::record::Batch;
use afterwrite::table::Model;
use afterwrite::{Error, ErrorKind, Result};

/// A model's source tables, and where each of them lives.
#[derive(Clone, Debug)]
pub struct SourceTables {
    model: Arc<Model>,
    names: Vec<Arc<str>>,
}

impl SourceTables {
    /// `names` says where each of [`Model::tables`] lives.
    #[must_use]
    pub fn new(model: Arc<Model>, names: Vec<Arc<str>>) -> Self {
        Self { model, names }
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// For each record its item; `None` if its key cannot be read, or is not that of its table.
    ///
    /// # Errors
    /// [`ErrorKind::Stream`] if a record is of a table that the model does not know: a wrong rename must not consume a stream
    /// silently.
    pub fn sources<'r>(&self, batch: &'r Batch<'r>) -> Result<Vec<Option<SourceKey<'r>>>> {
        let source = |(table, keys): (Option<&str>, Option<&'r _>)| {
            let Some(table) = table else { return Ok(None) };
            let index = self.names.iter().position(|known| **known == *table);
            let index = index.ok_or_else(|| unknown_table(&self.model, table))?;
            Ok(keys.and_then(|keys| SourceKey::of_keys(&self.model, index, keys)))
        };
        let parts = batch.records.iter().map(|record| match record {
            Ok(record) => (Some(&*record.table), Some(&record.keys)),
            Err(bad) => (bad.table.as_deref(), bad.keys.as_ref()),
        });
        parts.map(source).collect()
    }
}

/// A stream of a table that the model does not know.
pub(crate) fn unknown_table(model: &Model, table: &str) -> Error {
    let known: Vec<&str> = model.tables.iter().map(|table| table.name.as_ref()).collect();
    Error::new(ErrorKind::Stream, format!("the stream is of table `{table}`, which the model does not know"))
        .with("model's tables", known.join(", "))
        .remedy(format!("If one of them lives under this name, say so in AFTERWRITE_TABLES: `name={table}`"))
}

/// A record whose key is not its table's.
pub(crate) fn foreign_key() -> Error {
    Error::new(
        ErrorKind::Record,
        "the record's key attributes, or their types, are not those that the model says its table has",
    )
    .remedy("Correct `key` and `types` of the table in the model")
}
