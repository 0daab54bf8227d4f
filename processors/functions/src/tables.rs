//! The source tables that a function reads.

use std::sync::Arc;

use afterwrite::entity::SourceKey;
use afterwrite::record::{ChangeRecord, RecordBatch, StreamView};
use afterwrite::table::Model;
use afterwrite::{Error, ErrorKind, Result};

/// A model's source tables and their deployed names.
#[derive(Clone, Debug)]
pub struct SourceTables {
    model: Arc<Model>,
    names: Vec<Arc<str>>,
}

impl SourceTables {
    /// `names` are the deployed names of [`Model::tables`], in the same order.
    #[must_use]
    pub fn new(model: Arc<Model>, names: Vec<Arc<str>>) -> Self {
        Self { model, names }
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The item of each record; `None` if its key cannot be read, or is not the key of its table.
    ///
    /// # Errors
    /// [`ErrorKind::Stream`] if a record is of a table that is not in the model, or of a stream that carries only keys: neither a wrong
    /// rename nor a wrong view type may consume a stream unnoticed.
    pub fn source_keys<'b>(&self, batch: &'b RecordBatch<'b>) -> Result<Vec<Option<SourceKey<'b>>>> {
        source_keys(&self.model, batch, |table| self.names.iter().position(|known| **known == *table))
    }
}

/// [`SourceTables::source_keys`], with a lookup of a deployed name in place of the names.
pub(crate) fn source_keys<'b>(
    model: &Model,
    batch: &'b RecordBatch<'b>,
    index_of: impl Fn(&str) -> Option<usize>,
) -> Result<Vec<Option<SourceKey<'b>>>> {
    let is_keys_only = |record: &&ChangeRecord<'_>| record.view == Some(StreamView::KeysOnly);
    if let Some(record) = batch.records.iter().flatten().find(is_keys_only) {
        return Err(keys_only_stream(record));
    }
    let records = batch.records.iter().map(|record| {
        let (table, keys) = match record {
            Ok(record) => (Some(&*record.table), Some(&record.keys)),
            Err(bad) => (bad.table.as_deref(), bad.keys.as_ref()),
        };
        let Some(table) = table else { return Ok(None) };
        let index = index_of(table).ok_or_else(|| unknown_table(model, table))?;
        Ok(keys.and_then(|keys| SourceKey::of_keys(model, index, keys)))
    });
    records.collect()
}

fn keys_only_stream(record: &ChangeRecord<'_>) -> Error {
    Error::new(ErrorKind::Stream, "the stream's records hold keys and no images, so nothing can be derived")
        .with("view type", StreamView::KeysOnly.name())
        .with("table", record.table.as_ref())
        .hint("Set the table's stream to NEW_AND_OLD_IMAGES")
}

fn unknown_table(model: &Model, table: &str) -> Error {
    let known: Vec<&str> = model.tables.iter().map(|table| table.name.as_ref()).collect();
    Error::new(ErrorKind::Stream, format!("the stream is of table `{table}`, which is not in the model"))
        .with("tables of the model", known.join(", "))
        .hint(format!("If one of them is deployed under this name, set AFTERWRITE_TABLES to `name={table}`"))
}
