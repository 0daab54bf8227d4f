//! Metrics in CloudWatch's embedded metric format: one JSON line on standard output for each batch.

use std::time::Duration;

use afterwrite::record::Timestamp;
use serde_json::{Map, Value, json};

use crate::Handled;

const NAMESPACE: &str = "Afterwrite";

/// The line for one batch of this function. It holds counts and durations, never anything of an item.
#[must_use]
pub fn line(function: &str, model: &str, handled: &Handled, took: Duration, now: Timestamp) -> String {
    let counts = [("records", handled.records), ("unmatched", handled.unmatched)];
    let failed = ("failed", u64::try_from(handled.failures.len()).unwrap_or(u64::MAX));
    let counts = counts.into_iter().chain([failed]).chain(handled.totals.named());
    let mut metrics: Vec<(String, &str, Value)> =
        counts.map(|(name, number)| (pascal_case(name), "Count", json!(number))).collect();
    let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    metrics.push(("Duration".to_owned(), "Milliseconds", json!(took_ms)));
    if let Some(age_ms) = handled.age_ms {
        metrics.push(("RecordAge".to_owned(), "Milliseconds", json!(age_ms)));
    }
    let definitions: Vec<Value> =
        metrics.iter().map(|(name, unit, _)| json!({ "Name": name, "Unit": unit })).collect();
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
    line.extend(metrics.into_iter().map(|(name, _, value)| (name, value)));
    Value::Object(line).to_string()
}

/// `write_units` → `WriteUnits`.
fn pascal_case(name: &str) -> String {
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    name.split('_').map(capital).collect()
}
