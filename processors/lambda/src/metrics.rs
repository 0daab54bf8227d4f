//! Metrics in CloudWatch's embedded metric format: one JSON line on standard output for each batch.

use std::time::{Duration, Instant};

use afterwrite::clock::{Clock as _, SystemClock};
use afterwrite::record::Timestamp;
use serde_json::{Map, Value, json};

const NAMESPACE: &str = "Afterwrite";

/// The metrics of one batch: counts and durations, never a value of an item.
#[derive(Debug, Default)]
pub struct MetricsLine {
    metrics: Vec<(String, &'static str, u64)>,
}

impl MetricsLine {
    /// Adds a count; `rows_written` becomes the metric `RowsWritten`.
    pub fn count(&mut self, name: &str, number: impl TryInto<u64>) {
        self.metrics.push((pascal_case(name), "Count", number.try_into().unwrap_or(u64::MAX)));
    }

    /// Adds a duration.
    pub fn milliseconds(&mut self, name: &str, ms: u64) {
        self.metrics.push((name.to_owned(), "Milliseconds", ms));
    }

    /// Prints the line, for a batch that was started at `started`.
    pub fn print(self, function: &str, model: &str, started: Instant) {
        println!("{}", self.render(function, model, started.elapsed(), SystemClock.now()));
    }

    /// The line as JSON.
    #[must_use]
    pub fn render(mut self, function: &str, model: &str, duration: Duration, now: Timestamp) -> String {
        self.milliseconds("Duration", u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
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

/// `write_units` → `WriteUnits`.
fn pascal_case(name: &str) -> String {
    name.split('_').flat_map(capitalized).collect()
}

fn capitalized(word: &str) -> impl Iterator<Item = char> {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters)
}
