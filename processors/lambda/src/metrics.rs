//! Metrics in CloudWatch's embedded metric format: one JSON line on standard output for each batch.

use std::time::{Duration, Instant};

use afterwrite::clock::{Clock as _, SystemClock};
use afterwrite::heartbeat::HeartbeatStage;
use afterwrite::record::Timestamp;
use serde_json::{Map, Value, json};

const NAMESPACE: &str = "Afterwrite";
/// The age of the newest heartbeat, and the dimension that names the stage that it has passed.
const FRESHNESS: &str = "FreshnessSeconds";
const STAGE: &str = "stage";

/// The metrics of one batch: counts and durations, never a value of an item.
#[derive(Debug, Default)]
pub struct MetricsLine {
    metrics: Vec<(String, &'static str, u64)>,
    freshness: Option<(HeartbeatStage, Duration)>,
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

    /// Adds the metric `FreshnessSeconds` of a stage: the age of the newest heartbeat that has passed it.
    pub fn freshness(&mut self, stage: HeartbeatStage, age: Option<Duration>) {
        self.freshness = age.map(|age| (stage, age));
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
        let mut directives = vec![directive(&["Function", "Model"], &definitions)];
        if let Some((stage, age)) = self.freshness {
            directives.push(directive(&["Model", STAGE], &[json!({ "Name": FRESHNESS, "Unit": "Seconds" })]));
            line.insert(STAGE.to_owned(), json!(stage.name()));
            line.insert(FRESHNESS.to_owned(), json!(age.as_secs_f64()));
        }
        line.insert(
            "_aws".to_owned(),
            json!({ "Timestamp": now.epoch_ms(), "CloudWatchMetrics": directives }),
        );
        line.insert("Function".to_owned(), json!(function));
        line.insert("Model".to_owned(), json!(model));
        line.extend(self.metrics.into_iter().map(|(name, _, value)| (name, json!(value))));
        Value::Object(line).to_string()
    }
}

fn directive(dimensions: &[&str], metrics: &[Value]) -> Value {
    json!({ "Namespace": NAMESPACE, "Dimensions": [dimensions], "Metrics": metrics })
}

/// `write_units` → `WriteUnits`.
fn pascal_case(name: &str) -> String {
    name.split('_').flat_map(capitalized).collect()
}

fn capitalized(word: &str) -> impl Iterator<Item = char> {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(line: MetricsLine) -> Value {
        let now = Timestamp::from_epoch_ms(1_770_372_000_000);
        serde_json::from_str(&line.render("relay", "exams", Duration::from_millis(12), now)).unwrap()
    }

    #[test]
    fn a_heartbeat_adds_a_metric_with_the_stage_as_dimension() {
        let mut line = MetricsLine::default();
        line.count("records_relayed", 3_u64);
        line.freshness(HeartbeatStage::Archived, Some(Duration::from_millis(2_500)));
        let line = rendered(line);
        let directive = json!({
            "Namespace": "Afterwrite",
            "Dimensions": [["Model", "stage"]],
            "Metrics": [{ "Name": "FreshnessSeconds", "Unit": "Seconds" }],
        });
        assert_eq!(line["_aws"]["CloudWatchMetrics"][1], directive);
        assert_eq!((&line["stage"], &line["FreshnessSeconds"]), (&json!("archived"), &json!(2.5)));
        assert_eq!((&line["RecordsRelayed"], &line["Model"]), (&json!(3), &json!("exams")));
    }

    #[test]
    fn a_batch_without_a_heartbeat_has_one_set_of_dimensions() {
        let mut line = MetricsLine::default();
        line.freshness(HeartbeatStage::Counted, None);
        let line = rendered(line);
        assert_eq!(line["_aws"]["CloudWatchMetrics"].as_array().map(Vec::len), Some(1));
        assert_eq!(line.get("stage"), None);
    }
}
