//! The records of rollups that a replay or redrive does not count, although their rollups are sources.
//!
//! Changes of a rollup follow from those of the base tables. Into a fresh state table, no record of a rollup may be counted: the rollups there are
//! others. Into a live one, no record of an earlier table: it describes rollups that a restore has brought back, or that another table has.
//! `backfill` counts these levels from the rollups themselves.

use std::borrow::Cow;
use std::sync::Arc;

use afterwrite_model::entity::SourceKey;
use afterwrite_model::record::{RecordDecoder, Timestamp};
use afterwrite_model::table::{Entity, Model};
use afterwrite_model::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::target::{RecordTarget, TargetOutcome};
use crate::jobs::count;

/// Which records of rollups are not counted. A record of a rollup from which nothing is counted is not one of them: such rollups are archived for
/// their datasets, caches and events.
#[derive(Clone, Debug)]
pub struct UncountedRollups {
    model: Arc<Model>,
    /// The parts of the streams' ARNs that name the state table and its earlier names, each up to the label.
    tables: Vec<String>,
    present: Option<PresentTable>,
}

/// The state table whose records are counted.
#[derive(Clone, Debug)]
struct PresentTable {
    stream: String,
    /// The time of its creation; a stream that was enabled before is of another table of this name. `None` if the service does not tell it.
    created_at: Option<Timestamp>,
}

/// A handler that gets only the records that are counted.
#[derive(Debug)]
pub struct CountedRecords<A> {
    aggregator: A,
    uncounted: UncountedRollups,
}

impl UncountedRollups {
    /// All records of the state table of this name, and of its earlier names.
    #[must_use]
    pub fn all_of(model: Arc<Model>, state_table: &str) -> Self {
        let source = model.state_source().and_then(|table| model.tables.get(table));
        let former = source.iter().flat_map(|table| &table.former_names).map(|name| &**name);
        let tables = former.chain([state_table]).map(stream_of).collect();
        Self { tables, present: None, model }
    }

    /// The same, except those of the present table, which was created at this time.
    #[must_use]
    pub fn except(self, table: &str, created_at: Option<Timestamp>) -> Self {
        Self { present: Some(PresentTable { stream: stream_of(table), created_at }), ..self }
    }

    /// Whether this record, as its stream or archive has it, is counted.
    fn counts(&self, record: &str) -> bool {
        let Some(stream) = source_stream(record) else { return true };
        let is_present = |present: &PresentTable| {
            let (_, label) = stream.split_once(&present.stream)?;
            let enabled_at = Timestamp::parse(&format!("{label}Z"));
            Some(enabled_at.zip(present.created_at).is_none_or(|(enabled_at, created_at)| {
                // A table that is created with its stream has both times at once.
                enabled_at.plus(CREATION_TOLERANCE) >= created_at
            }))
        };
        let is_present = self.present.as_ref().and_then(is_present);
        let is_present =
            is_present.unwrap_or_else(|| !self.tables.iter().any(|table| stream.contains(table)));
        is_present || !self.is_used(record)
    }

    /// Whether something is counted from the rollup of a record. A record that cannot be read may be of such a rollup.
    fn is_used(&self, record: &str) -> bool {
        let Some(table) = self.model.state_source() else { return false };
        let mut decoder = RecordDecoder::new(&self.model.attributes);
        let Ok(record) = decoder.record(record.as_bytes()) else { return true };
        SourceKey::of_keys(&self.model, table, &record.keys)
            .is_none_or(|source| source.candidates(&self.model).any(Entity::is_used))
    }
}

/// The records of a state table that is no source of the model: an earlier model has archived them, and this one has no table for them.
#[derive(Clone, Debug)]
pub(super) struct SourcelessRecords {
    stream: String,
}

impl SourcelessRecords {
    /// The records of the state table of this name.
    pub(super) fn of(state_table: &str) -> Self {
        Self { stream: stream_of(state_table) }
    }

    /// Whether this record, as its archive has it, is one of them.
    pub(super) fn has(&self, record: &str) -> bool {
        source_stream(record).is_some_and(|stream| stream.contains(&self.stream))
    }
}

/// The ARN of the stream of a record; `None` if the text is not a record.
fn source_stream(record: &str) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct RecordSource<'r> {
        #[serde(borrow, rename = "eventSourceARN")]
        stream: Cow<'r, str>,
    }
    serde_json::from_str(record).ok().map(|RecordSource { stream }| stream)
}

/// How much earlier the label of a stream may be than the table that was created with it.
const CREATION_TOLERANCE: std::time::Duration = std::time::Duration::from_secs(5);

/// The part of a stream's ARN that names its table. A name of a table has no slash.
fn stream_of(table: &str) -> String {
    format!(":table/{table}/stream/")
}

impl<A> CountedRecords<A> {
    /// A handler that leaves records out.
    pub fn new(aggregator: A, uncounted: UncountedRollups) -> Self {
        Self { aggregator, uncounted }
    }

    /// The event without the records that are not counted, and how many these are; `None` if every record is counted.
    fn counted(&self, event: &[u8]) -> Result<Option<(Vec<u8>, usize)>> {
        #[derive(Deserialize)]
        struct Event<'e> {
            #[serde(borrow, rename = "Records")]
            records: Vec<&'e RawValue>,
        }
        if self.uncounted.model.state_source().is_none() {
            return Ok(None);
        }
        let event: Event<'_> = serde_json::from_slice(event)
            .map_err(|error| Error::new(ErrorKind::Event, "a batch is not an event").caused_by(error))?;
        let is_counted = |record: &&&RawValue| self.uncounted.counts(record.get());
        let counted: Vec<&str> = event.records.iter().filter(is_counted).map(|record| record.get()).collect();
        let left_out = event.records.len() - counted.len();
        let event = format!("{{\"Records\":[{}]}}", counted.join(","));
        Ok((left_out > 0).then(|| (event.into_bytes(), left_out)))
    }
}

impl<A: RecordTarget> RecordTarget for CountedRecords<A> {
    async fn deliver(&self, event: &[u8], deadline: Timestamp) -> Result<TargetOutcome> {
        match self.counted(event)? {
            None => self.aggregator.deliver(event, deadline).await,
            Some((event, left_out)) => {
                let outcome = self.aggregator.deliver(&event, deadline).await?;
                Ok(TargetOutcome { not_counted: count(left_out), ..outcome })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOP: &str = r##"
name = "shop"
generation = 1
tables.orders.key = ["PK", "SK"]
entities.order = { key = { PK = "SHOP#{shop}", SK = "ORDER#{order}" } }
rollups.shops.key = { PK = "ALL", SK = "SHOPS" }
rollups.orders.key = { PK = "SHOP#{shop}", SK = "ORDERS" }
rollups.left.key = { PK = "SHOP#{shop}", SK = "LEFT" }
aggregates = [
    { name = "orders", of = "order", into = ["orders", "left"], measures.orders = "count" },
    { name = "shops", of = "orders", into = "shops", measures.shops = "count" },
]
events = [{ name = "full", of = "left", when.orders = [{ numeric = [">=", 9] }] }]
"##;

    fn record_of(table: &str, label: &str, sort: &str) -> String {
        let stream = format!("arn:aws:dynamodb:eu-west-1:1:table/{table}/stream/{label}");
        let change = format!(
            r#"{{"Keys":{{"PK":{{"S":"SHOP#1"}},"SK":{{"S":"{sort}"}}}},"NewImage":{{}},"SequenceNumber":"1"}}"#
        );
        format!(r#"{{"eventID":"1","eventName":"MODIFY","dynamodb":{change},"eventSourceARN":"{stream}"}}"#)
    }

    fn record(table: &str, label: &str) -> String {
        record_of(table, label, "ORDERS")
    }

    fn uncounted() -> UncountedRollups {
        let mut model = Model::parse(SHOP, "shop.toml").unwrap_or_else(|errors| panic!("{errors}"));
        let table = model.state_source().unwrap();
        model.tables[table].former_names = vec![Arc::from("old-state")];
        UncountedRollups::all_of(Arc::new(model), "state")
    }

    #[test]
    fn only_records_of_rollups_of_the_present_table_are_counted() {
        let fresh = uncounted();
        let created_at = Timestamp::parse("2026-02-06T00:00:00Z");
        let live = fresh.clone().except("state", created_at);
        for (table, label, in_live, in_fresh) in [
            // A stream that was enabled with the table, and one that was enabled later.
            ("state", "2026-02-05T23:59:59.500", true, false),
            ("state", "2026-02-08T00:00:00.000", true, false),
            // The table before it was restored under its name.
            ("state", "2026-02-05T00:00:00.000", false, false),
            ("old-state", "2026-02-07T00:00:00.000", false, false),
            ("orders", "2026-02-05T00:00:00.000", true, true),
            ("estate", "2026-02-05T00:00:00.000", true, true),
        ] {
            let record = record(table, label);
            assert_eq!((live.counts(&record), fresh.counts(&record)), (in_live, in_fresh), "{record}");
        }
        assert!(fresh.except("state", None).counts(&record("state", "2026-02-05T00:00:00.000")));
        assert!(live.counts("no record"));
    }

    #[test]
    fn records_of_rollups_that_nothing_counts_are_left_to_the_handler() {
        let label = "2026-02-05T00:00:00.000";
        assert!(!uncounted().counts(&record_of("state", label, "ORDERS")));
        assert!(uncounted().counts(&record_of("state", label, "LEFT")));
        let damaged = record_of("state", label, "LEFT").replace("SequenceNumber", "Number");
        assert!(!uncounted().counts(&damaged), "it may be of any rollup");
    }

    #[test]
    fn an_event_loses_the_records_that_are_not_counted() {
        let (kept, left_out) = (record("orders", "a"), record("old-state", "b"));
        let event = |records: &[&String]| {
            let records: Vec<&str> = records.iter().map(|record| record.as_str()).collect();
            format!("{{\"Records\":[{}]}}", records.join(",")).into_bytes()
        };
        let counted = CountedRecords::new((), uncounted());
        let found = counted.counted(&event(&[&kept, &left_out, &kept])).unwrap();
        assert_eq!(found, Some((event(&[&kept, &kept]), 1)));
        assert_eq!(counted.counted(&event(&[&kept])).unwrap(), None);
        let without_levels = SHOP.split("rollups.left").next().unwrap().to_owned()
            + "aggregates = [{ name = \"orders\", of = \"order\", into = [\"orders\", \"shops\"], measures.orders = \"count\" }]\n";
        let model = Model::parse(&without_levels, "shop.toml").unwrap_or_else(|errors| panic!("{errors}"));
        let all = CountedRecords::new((), UncountedRollups::all_of(Arc::new(model), "state"));
        assert_eq!(all.counted(&event(&[&left_out])).unwrap(), None);
    }
}
