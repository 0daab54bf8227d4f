//! Metrics in CloudWatch's embedded metric format: one JSON line on standard output for each batch.

use std::time::Duration;

use afterwrite::record::Timestamp;
use serde_json::{Map, Value, json};

use crate::{Handled, Relayed};

const NAMESPACE: &str = "Afterwrite";

/// The metrics of one batch: counts and durations, never anything of an item.
#[derive(Debug, Default)]
pub struct Line {
    metrics: Vec<(String, &'static str, u64)>,
}

impl Line {
    /// Adds a number: `rows_written` is the metric `RowsWritten`.
    pub fn count(&mut self, name: &str, number: impl TryInto<u64>) {
        self.metrics.push((pascal_case(name), "Count", number.try_into().unwrap_or(u64::MAX)));
    }

    /// Adds a time.
    pub fn milliseconds(&mut self, name: &str, ms: u64) {
        self.metrics.push((name.to_owned(), "Milliseconds", ms));
    }

    /// The line as it is logged.
    #[must_use]
    pub fn of(mut self, function: &str, model: &str, took: Duration, now: Timestamp) -> String {
        self.milliseconds("Duration", u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        let definitions: Vec<Value> =
            self.metrics.iter().map(|(name, unit, _)| json!({ "Name": name, "Unit": unit })).collect();
        let mut line = Map::new();
        line.insert(
            "_aws".to_owned(),
            json!({
                "Timestamp": now.epoch_ms(),
                "CloudWatchMetrics": [{
                    "Namespace": NAMESPACE,
                    "Dimensions": [["Function", "Model"]],
                    "Metrics": definitions,
                }],
            }),
        );
        line.insert("Function".to_owned(), json!(function));
        line.insert("Model".to_owned(), json!(model));
        line.extend(self.metrics.into_iter().map(|(name, _, value)| (name, json!(value))));
        Value::Object(line).to_string()
    }
}

/// What was counted of a batch.
#[must_use]
pub fn aggregated(handled: &Handled) -> Line {
    let mut line = Line::default();
    line.count("records", handled.records);
    line.count("unmatched", handled.unmatched);
    line.count("failed", handled.failures.len());
    for (name, number) in handled.totals.named() {
        line.count(name, number);
    }
    if let Some(age_ms) = handled.age_ms {
        line.milliseconds("RecordAge", age_ms);
    }
    line
}

/// What was passed on of a batch: of each part what it hosts.
#[must_use]
pub fn relayed(relayed: &Relayed) -> Line {
    let mut line = Line::default();
    line.count("records_relayed", relayed.records);
    line.count("relay_failed", relayed.failures.len());
    if let Some(invalidated) = &relayed.invalidated {
        line.count("keys_invalidated", invalidated.keys);
        line.count("paths_invalidated", invalidated.paths);
        line.count("cache_commands", invalidated.commands);
        line.count("invalidation_requests", invalidated.requests);
        if let Some(gone_ms) = invalidated.keys_gone_ms {
            line.milliseconds("KeysGone", gone_ms);
        }
    }
    if let Some(archived) = &relayed.archived {
        line.count("lines_archived", archived.lines);
        line.count("firehose_records", archived.firehose_records);
        line.count("archive_bytes", archived.bytes);
        line.count("billed_units", archived.billed_units);
        line.count("archive_retries", archived.retries);
        line.count("direct_objects", archived.direct_objects);
    }
    if let Some(age_ms) = relayed.age_ms {
        line.milliseconds("RelayedRecordAge", age_ms);
    }
    line
}

/// `write_units` → `WriteUnits`.
fn pascal_case(name: &str) -> String {
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    name.split('_').map(capital).collect()
}
