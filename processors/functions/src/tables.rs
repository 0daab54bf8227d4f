//! The source tables that a function reads.

use std::result::Result as StdResult;
use std::sync::Arc;

use afterwrite_model::entity::SourceKey;
use afterwrite_model::record::{BadRecord, ChangeRecord, RecordBatch, StreamView};
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};

use crate::region::StreamRegion;

/// A model's source tables, their deployed names and their region.
#[derive(Debug)]
pub struct SourceTables {
    model: Arc<Model>,
    names: Vec<Arc<str>>,
    region: StreamRegion,
}

impl SourceTables {
    /// `names` are the deployed names of [`Model::tables`], in the same order.
    #[must_use]
    pub fn new(model: Arc<Model>, names: Vec<Arc<str>>) -> Self {
        Self { model, names, region: StreamRegion::default() }
    }

    /// Sets the region of the tables. Without it, the first record decides.
    #[must_use]
    pub fn in_region(mut self, region: StreamRegion) -> Self {
        self.region = region;
        self
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The item of each record, or why nothing can be derived from the record: its key cannot be read, is not the key of its table, or the
    /// record is of another region.
    ///
    /// # Errors
    /// [`ErrorKind::Stream`] if a record is of a table that is not in the model, if a stream carries only keys, or if all records are of
    /// another region: neither a wrong rename nor a wrong view type nor a wrong redrive may consume a stream unnoticed.
    pub fn source_keys<'b>(&self, batch: &'b RecordBatch<'b>) -> Result<Vec<Result<SourceKey<'b>>>> {
        let index_of = |table: &str| self.model.table_deployed_as(&self.names, table);
        source_keys(&self.model, &self.region, batch, index_of)
    }
}

/// [`SourceTables::source_keys`], with a lookup of a deployed name in place of the names.
pub(crate) fn source_keys<'b>(
    model: &Model,
    region: &StreamRegion,
    batch: &'b RecordBatch<'b>,
    index_of: impl Fn(&str) -> Option<usize>,
) -> Result<Vec<Result<SourceKey<'b>>>> {
    region.check(batch)?;
    let is_keys_only = |record: &&ChangeRecord<'_>| record.view == Some(StreamView::KeysOnly);
    if let Some(record) = batch.records.iter().flatten().find(is_keys_only) {
        return Err(keys_only_stream(record));
    }
    let records = batch.records.iter().map(|record| {
        if let Err(error) = region.check_record(record) {
            return Ok(Err(error));
        }
        let table = match record {
            Ok(record) => Some(&*record.table),
            Err(bad) => bad.table.as_deref(),
        };
        let Some(table) = table else { return Ok(Err(defect(record))) };
        let index = index_of(table).ok_or_else(|| unknown_table(model, table))?;
        let keys = match record {
            Ok(record) => Some(&record.keys),
            Err(bad) => bad.keys.as_ref(),
        };
        let source = keys.and_then(|keys| SourceKey::of_keys(model, index, keys));
        Ok(source.ok_or_else(|| defect(record)))
    });
    records.collect()
}

/// Why nothing can be derived from a record without an item: it is malformed, or its key is not the key of its table.
fn defect(record: &StdResult<ChangeRecord<'_>, Box<BadRecord<'_>>>) -> Error {
    match record {
        Ok(_) => {
            let message = "the names or types of the record's key attributes differ from those that the model declares for its table";
            Error::new(ErrorKind::Record, message).hint("Correct `key` and `types` of the table in the model")
        }
        Err(bad) => bad.error.restated(),
    }
}

fn keys_only_stream(record: &ChangeRecord<'_>) -> Error {
    Error::new(ErrorKind::Stream, "the stream's records hold keys and no images, so nothing can be derived")
        .with("view type", StreamView::KeysOnly.name())
        .with("table", record.table.as_ref())
        .hint("Set the table's stream to NEW_AND_OLD_IMAGES")
}

fn unknown_table(model: &Model, table: &str) -> Error {
    let known: Vec<&str> = model.tables.iter().map(|table| table.name.as_ref()).collect();
    Error::new(
        ErrorKind::Stream,
        format!("the record is of table `{table}`, and no table of the model is deployed under this name"),
    )
    .with("tables of the model", known.join(", "))
    .hint(model.deployed_name_hint(table))
}
