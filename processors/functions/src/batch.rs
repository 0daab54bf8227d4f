//! The steps that both handlers share for a batch: decode it, find the item of each record in the source tables of the function, and report the
//! records that failed. A record of another region, or of a table that the model does not have, is refused here.

use std::result::Result as StdResult;
use std::sync::{Arc, OnceLock};

use afterwrite_lambda::{BatchResponse, EventSource};
use afterwrite_model::entity::{ItemCandidates, SourceKey};
use afterwrite_model::heartbeat::heartbeat_time;
use afterwrite_model::record::{
    BadRecord, ChangeRecord, RecordBatch, RecordFailure, StreamView, Timestamp, decode,
};
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};

/// Decodes the event of `function`. The payload of another service fails as a whole: its records would all be malformed, and no error
/// would name the wrong connection.
pub(crate) fn decode_event<'e>(event: &'e [u8], model: &Model, function: &str) -> Result<RecordBatch<'e>> {
    let decoded = decode(event, &model.attributes);
    let is_readable = decoded
        .as_ref()
        .is_ok_and(|batch| batch.records.is_empty() || batch.records.iter().any(StdResult::is_ok));
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
        let model = &self.model;
        self.region.check(batch)?;
        let is_keys_only = |record: &&ChangeRecord<'_>| record.view == Some(StreamView::KeysOnly);
        if let Some(record) = batch.records.iter().flatten().find(is_keys_only) {
            return Err(keys_only_stream(record));
        }
        let records = batch.records.iter().map(|record| {
            if let Err(error) = self.region.check_record(record) {
                return Ok(Err(error));
            }
            let table = match record {
                Ok(record) => Some(&*record.table),
                Err(bad) => bad.table.as_deref(),
            };
            let Some(table) = table else { return Ok(Err(defect(record))) };
            let index =
                model.table_deployed_as(&self.names, table).ok_or_else(|| unknown_table(model, table))?;
            let keys = match record {
                Ok(record) => Some(&record.keys),
                Err(bad) => bad.keys.as_ref(),
            };
            let source = keys.and_then(|keys| SourceKey::of_keys(model, index, keys));
            Ok(source.ok_or_else(|| defect(record)))
        });
        records.collect()
    }
}

/// The region of the streams that a process reads: the function's own region, or else the region of the first record.
///
/// The ledger compares the positions of an item's records by the labels of their streams, and a label does not name the region. So the
/// records of one region must not be counted after records of another, for example by a redrive to the wrong function.
#[derive(Debug, Default)]
pub struct StreamRegion(OnceLock<Box<str>>);

impl StreamRegion {
    /// A known region; without it, the first record decides.
    #[must_use]
    pub fn new(region: Option<&str>) -> Self {
        Self(region.map(|region| OnceLock::from(Box::from(region))).unwrap_or_default())
    }

    /// Fails if all records of a batch are of another region: then the function is connected to the wrong stream.
    fn check(&self, batch: &RecordBatch<'_>) -> Result<()> {
        let mut regions = batch.records.iter().map(region_of);
        match batch.records.first().map(region_of) {
            Some(first) if !regions.any(|region| self.reads(region)) => {
                Err(self.other_region(ErrorKind::Stream, first))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Fails if the record is of another region.
    fn check_record(&self, record: &StdResult<ChangeRecord<'_>, Box<BadRecord<'_>>>) -> Result<()> {
        let region = region_of(record);
        if self.reads(region) { Ok(()) } else { Err(self.other_region(ErrorKind::Record, region)) }
    }

    /// Whether records of this region are read. A record that names no region is read, too.
    fn reads(&self, region: &str) -> bool {
        region.is_empty() || **self.0.get_or_init(|| Box::from(region)) == *region
    }

    fn other_region(&self, kind: ErrorKind, region: &str) -> Error {
        let own = self.0.get().map_or("", |own| own);
        Error::new(kind, format!("the record is of region `{region}`, but this function reads the streams of `{own}`"))
            .hint("Send the record to the function of its own region: each region has a function and a state table of its own")
    }
}

fn region_of<'r>(record: &'r StdResult<ChangeRecord<'_>, Box<BadRecord<'_>>>) -> &'r str {
    match record {
        Ok(record) => &record.region,
        Err(bad) => bad.region.as_deref().unwrap_or_default(),
    }
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

/// A record of a batch, and the item that it changes.
pub(crate) struct IdentifiedRecord<'b> {
    /// Its index in the batch.
    pub(crate) index: usize,
    /// The record, decoded or malformed.
    pub(crate) record: StdResult<&'b ChangeRecord<'b>, &'b BadRecord<'b>>,
    /// The item, or why nothing can be derived from the record.
    pub(crate) source: StdResult<&'b SourceKey<'b>, &'b Error>,
    /// The entities that the item's key allows; `None` if no entity has such a key.
    pub(crate) candidates: Option<ItemCandidates<'b, 'b>>,
}

impl IdentifiedRecord<'_> {
    /// Whether the item is of an entity before or after the change. A malformed record does not show it: then its key decides.
    pub(crate) fn is_matched(&self) -> bool {
        self.candidates.as_ref().is_some_and(|candidates| match self.record {
            Ok(record) => candidates.match_change(record),
            Err(_) => true,
        })
    }

    /// Whether it is a change of a table's heartbeat.
    pub(crate) fn is_heartbeat(&self) -> bool {
        self.source.is_ok_and(SourceKey::is_heartbeat)
    }
}

/// A record that failed.
#[derive(Debug)]
pub struct FailedRecord {
    /// Its sequence number, if it has one.
    pub sequence_number: Option<String>,
    /// Why it failed.
    pub error: Error,
}

/// An observer of records that a function did not take: the function's name and the records.
type FailureObserver = Box<dyn Fn(&'static str, &[FailedRecord]) + Send + Sync>;

static OBSERVER: OnceLock<FailureObserver> = OnceLock::new();

/// Passes the records that the functions of this process did not take to an observer. A process has one observer: the first.
pub fn observe_failures(observer: impl Fn(&'static str, &[FailedRecord]) + Send + Sync + 'static) {
    // A later observer is ignored.
    let _ = OBSERVER.set(Box::new(observer));
}

/// Passes records to the observer, if there is one.
pub(crate) fn report_failures(function: &'static str, failures: &[FailedRecord]) {
    if let Some(observer) = OBSERVER.get().filter(|_| !failures.is_empty()) {
        observer(function, failures);
    }
}

/// Pairs each record with its item; `sources` aligns with the batch.
pub(crate) fn identify_records<'b>(
    model: &'b Model,
    batch: &'b RecordBatch<'b>,
    sources: &'b [Result<SourceKey<'b>>],
) -> Vec<IdentifiedRecord<'b>> {
    let records = batch.records.iter().zip(sources).enumerate();
    records
        .map(|(index, (record, source))| IdentifiedRecord {
            index,
            record: record.as_ref().map_err(AsRef::as_ref),
            source: source.as_ref(),
            candidates: source
                .as_ref()
                .ok()
                .map(|source| source.candidates(model))
                .filter(|candidates| !candidates.is_empty()),
        })
        .collect()
}

/// The error of a record. A stream error fails the whole batch instead: a wrong setting must not consume a stream unnoticed.
pub(crate) fn record_error(error: Error) -> Result<Error> {
    if error.kind() == ErrorKind::Stream { Err(error) } else { Ok(error) }
}

/// The response for a batch in which these records failed.
pub(crate) fn batch_response(batch: &RecordBatch<'_>, failures: &[RecordFailure]) -> BatchResponse {
    BatchResponse::lowest(failures.iter().map(|failure| checkpoint(batch, failure.index)))
}

/// The sequence number from which Lambda redelivers the record at `index`: its own, or, if it has none, that of the closest record before
/// it that has one, or else an empty text, for the whole batch.
fn checkpoint(batch: &RecordBatch<'_>, index: usize) -> String {
    let sequence_number = |index: usize| match batch.records.get(index)? {
        Ok(record) => Some(record.position.sequence_number().to_owned()),
        Err(bad) => bad.position.as_ref().map(|position| position.sequence_number().to_owned()),
    };
    (0..=index).rev().find_map(sequence_number).unwrap_or_default()
}

/// The failures of a batch, with sequence numbers in place of indexes.
pub(crate) fn failed_records(batch: &RecordBatch<'_>, failures: Vec<RecordFailure>) -> Vec<FailedRecord> {
    let sequence_number = |index: usize| match batch.records.get(index)? {
        Ok(record) => Some(record.position.sequence_number().to_owned()),
        Err(bad) => bad.sequence_number.as_deref().map(str::to_owned),
    };
    failures
        .into_iter()
        .map(|RecordFailure { index, error }| FailedRecord { sequence_number: sequence_number(index), error })
        .collect()
}

/// The age of the newest change of a batch, in milliseconds.
pub(crate) fn age_ms(batch: &RecordBatch<'_>, now: Timestamp) -> Option<u64> {
    let newest = batch.records.iter().filter_map(|record| record.as_ref().ok()?.created_at).max()?;
    Some(u64::try_from(now.since(newest).as_millis()).unwrap_or(u64::MAX))
}

/// When the newest heartbeat of a batch was written; `None` if it has none.
pub(crate) fn newest_heartbeat(
    batch: &RecordBatch<'_>,
    records: &[IdentifiedRecord<'_>],
) -> Option<Timestamp> {
    let heartbeats = records.iter().filter(|record| record.is_heartbeat());
    heartbeats.filter_map(|record| heartbeat_time(batch.json.get(record.index)?)).max()
}

#[cfg(test)]
mod tests {
    use afterwrite_model::record::AttributeInterner;

    use super::*;

    /// A batch with a record of each of these regions.
    fn event(regions: &[&str]) -> String {
        let record = |region: &&str| {
            format!(
                r#"{{"eventName":"REMOVE","eventSourceARN":"arn:aws:dynamodb:{region}:1:table/T/stream/2026-02-06T10:00:00.000","dynamodb":{{"Keys":{{"PK":{{"S":"p"}}}},"SequenceNumber":"1"}}}}"#
            )
        };
        format!(r#"{{"Records":[{}]}}"#, regions.iter().map(record).collect::<Vec<_>>().join(","))
    }

    /// The kinds of the errors: of the whole batch, or of each record.
    fn errors(region: &StreamRegion, regions: &[&str]) -> Vec<Option<ErrorKind>> {
        let (event, names) = (event(regions), AttributeInterner::default());
        let batch = decode(event.as_bytes(), &names).unwrap();
        match region.check(&batch) {
            Err(error) => vec![Some(error.kind())],
            Ok(()) => {
                let checked = batch.records.iter().map(|record| region.check_record(record));
                checked.map(|checked| checked.err().map(|error| error.kind())).collect()
            }
        }
    }

    #[test]
    fn the_first_record_decides_where_no_region_is_known() {
        let region = StreamRegion::new(None);
        assert_eq!(errors(&region, &[]), []);
        assert_eq!(errors(&region, &["", "eu-west-1", "eu-west-1"]), [None; 3]);
        assert_eq!(errors(&region, &["us-east-1"]), [Some(ErrorKind::Stream)]);
        assert_eq!(errors(&region, &["eu-west-1", "", "us-east-1"]), [None, None, Some(ErrorKind::Record)]);
    }

    #[test]
    fn a_known_region_refuses_the_first_record_of_another() {
        let region = StreamRegion::new(Some("eu-west-1"));
        assert_eq!(errors(&region, &["us-east-1", "us-east-1"]), [Some(ErrorKind::Stream)]);
        assert_eq!(errors(&region, &["us-east-1", "eu-west-1"]), [Some(ErrorKind::Record), None]);
    }
}
