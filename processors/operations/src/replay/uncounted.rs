//! The records of rollups that a replay or redrive does not count, although their rollups are sources.
//!
//! Changes of a rollup follow from those of the base tables. Into a fresh state table, no record of a rollup may be counted: the rollups there are
//! others. Into a live one, no record of an earlier table: it describes rollups that a restore has brought back, or that another table has.
//! `backfill` counts these levels from the rollups themselves.

use std::borrow::Cow;
use std::sync::Arc;

use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::target::{RecordTarget, TargetOutcome};
use crate::jobs::count;

/// Which records of rollups are not counted. The default counts all.
#[derive(Clone, Debug, Default)]
pub struct UncountedRollups {
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
    /// All records of the state table under any of these names.
    #[must_use]
    pub fn all_of(names: impl IntoIterator<Item = Arc<str>>) -> Self {
        Self { tables: names.into_iter().map(|name| stream_of(&name)).collect(), present: None }
    }

    /// The same, except those of the present table, which was created at this time.
    #[must_use]
    pub fn except(self, table: &str, created_at: Option<Timestamp>) -> Self {
        Self { present: Some(PresentTable { stream: stream_of(table), created_at }), ..self }
    }

    /// Whether this record, as its stream or archive has it, is counted.
    fn counts(&self, record: &str) -> bool {
        #[derive(Deserialize)]
        struct RecordSource<'r> {
            #[serde(borrow, rename = "eventSourceARN")]
            stream: Cow<'r, str>,
        }
        let Ok(RecordSource { stream }) = serde_json::from_str(record) else { return true };
        let is_present = |present: &PresentTable| {
            let (_, label) = stream.split_once(&present.stream)?;
            let enabled_at = Timestamp::parse(&format!("{label}Z"));
            Some(enabled_at.zip(present.created_at).is_none_or(|(enabled_at, created_at)| {
                // A table that is created with its stream has both times at once.
                enabled_at.plus(CREATION_TOLERANCE) >= created_at
            }))
        };
        let is_present = self.present.as_ref().and_then(is_present);
        is_present.unwrap_or_else(|| !self.tables.iter().any(|table| stream.contains(table)))
    }
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
        if self.uncounted.tables.is_empty() {
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

    fn record(table: &str, label: &str) -> String {
        format!("{{\"eventSourceARN\":\"arn:aws:dynamodb:eu-west-1:1:table/{table}/stream/{label}\"}}")
    }

    #[test]
    fn only_records_of_rollups_of_the_present_table_are_counted() {
        let fresh = UncountedRollups::all_of(["state", "old-state"].map(Arc::from));
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
    fn an_event_loses_the_records_that_are_not_counted() {
        let (kept, left_out) = (record("orders", "a"), record("old", "b"));
        let event = |records: &[&String]| {
            let records: Vec<&str> = records.iter().map(|record| record.as_str()).collect();
            format!("{{\"Records\":[{}]}}", records.join(",")).into_bytes()
        };
        let counted = CountedRecords::new((), UncountedRollups::all_of([Arc::from("old")]));
        let found = counted.counted(&event(&[&kept, &left_out, &kept])).unwrap();
        assert_eq!(found, Some((event(&[&kept, &kept]), 1)));
        assert_eq!(counted.counted(&event(&[&kept])).unwrap(), None);
        let all = CountedRecords::new((), UncountedRollups::default());
        assert_eq!(all.counted(&event(&[&left_out])).unwrap(), None);
    }
}
