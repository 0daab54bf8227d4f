//! The source tables that a function serves.

use std::sync::Arc;

use afterwrite::entity::SourceKey;
use afterwrite::record::{ChangeRecord, RecordBatch, StreamView, Timestamp, decode};
use afterwrite::table::{Entity, Model};
use afterwrite::{Error, ErrorKind, Result};
use afterwrite_lambda::EventSource;

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
    /// [`ErrorKind::Stream`] if a record is of a table that the model does not know, or of a stream that carries keys alone: neither
    /// a wrong rename nor a wrong view may consume a stream silently.
    pub fn sources<'r>(&self, batch: &'r RecordBatch<'r>) -> Result<Vec<Option<SourceKey<'r>>>> {
        sources(&self.model, batch, |table| self.names.iter().position(|known| **known == *table))
    }
}

/// For each record its item, as [`SourceTables::sources`] says; `index_of` tells which of the model's tables lives under a name.
pub(crate) fn sources<'r>(
    model: &Model,
    batch: &'r RecordBatch<'r>,
    index_of: impl Fn(&str) -> Option<usize>,
) -> Result<Vec<Option<SourceKey<'r>>>> {
    let source = |(table, keys): (Option<&str>, Option<&'r _>)| {
        let Some(table) = table else { return Ok(None) };
        let index = index_of(table).ok_or_else(|| unknown_table(model, table))?;
        Ok(keys.and_then(|keys| SourceKey::of_keys(model, index, keys)))
    };
    let keys_only = |record: &&ChangeRecord<'_>| record.view == Some(StreamView::KeysOnly);
    if let Some(record) = batch.records.iter().flatten().find(keys_only) {
        return Err(no_images(record));
    }
    let parts = batch.records.iter().map(|record| match record {
        Ok(record) => (Some(&*record.table), Some(&record.keys)),
        Err(bad) => (bad.table.as_deref(), bad.keys.as_ref()),
    });
    parts.map(source).collect()
}

/// Decodes the event of `function`. The payload of another service fails as a whole: its records would all be malformed, and no error
/// would name the wrong connection.
pub(crate) fn decode_event<'e>(event: &'e [u8], model: &Model, function: &str) -> Result<RecordBatch<'e>> {
    let decoded = decode(event, &model.attributes);
    let is_readable = decoded
        .as_ref()
        .is_ok_and(|batch| batch.records.is_empty() || batch.records.iter().any(std::result::Result::is_ok));
    if is_readable {
        return decoded;
    }
    match EventSource::detect(event) {
        None | Some(EventSource::DynamoDb) => decoded,
        Some(source) => Err(source.unexpected(
            function,
            "DynamoDB stream events",
            "Connect it to the table's stream by an event source mapping",
        )),
    }
}

/// How long ago the newest change of a batch was made, in milliseconds.
pub(crate) fn age_ms(batch: &RecordBatch<'_>, now: Timestamp) -> Option<u64> {
    let newest = batch.records.iter().filter_map(|record| record.as_ref().ok()?.created_at).max()?;
    Some(u64::try_from(now.since(newest).as_millis()).unwrap_or(u64::MAX))
}

/// A record without an image that `whose` needs. A stream that does not carry it must not be consumed silently
/// ([`ErrorKind::Stream`]); one that does may still have a bad record ([`ErrorKind::Record`]).
pub(crate) fn missing_image(record: &ChangeRecord<'_>, entity: &Entity, whose: &str) -> Error {
    let kind = match record.view {
        Some(StreamView::NewAndOldImages) => ErrorKind::Record,
        Some(StreamView::NewImage | StreamView::OldImage | StreamView::KeysOnly) | None => ErrorKind::Stream,
    };
    Error::new(kind, format!("the stream's records lack an image that {whose} needs"))
        .with("view type", record.view.map_or("unknown", StreamView::name))
        .with("entity", entity.name.as_ref())
        .hint("Set the table's stream to NEW_AND_OLD_IMAGES")
}

/// A record of a stream of which nothing can be derived.
fn no_images(record: &ChangeRecord<'_>) -> Error {
    Error::new(
        ErrorKind::Stream,
        "the stream's records hold keys and no images, of which nothing can be derived",
    )
    .with("view type", StreamView::KeysOnly.name())
    .with("table", record.table.as_ref())
    .hint("Set the table's stream to NEW_AND_OLD_IMAGES")
}

/// A stream of a table that the model does not know.
fn unknown_table(model: &Model, table: &str) -> Error {
    let known: Vec<&str> = model.tables.iter().map(|table| table.name.as_ref()).collect();
    Error::new(ErrorKind::Stream, format!("the stream is of table `{table}`, which the model does not know"))
        .with("model's tables", known.join(", "))
        .hint(format!("If one of them lives under this name, say so in AFTERWRITE_TABLES: `name={table}`"))
}

/// A record whose key is not its table's.
pub(crate) fn foreign_key() -> Error {
    Error::new(
        ErrorKind::Record,
        "the record's key attributes, or their types, are not those that the model says its table has",
    )
    .hint("Correct `key` and `types` of the table in the model")
}
