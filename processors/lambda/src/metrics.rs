//! Metrics in CloudWatch's embedded metric format: one JSON line on standard output for each batch.

use std::time::{Duration, Instant};

use afterwrite::clock::{Clock as _, SystemClock};
use afterwrite::config::EnvironmentSettings;
use afterwrite::heartbeat::HeartbeatStage;
use afterwrite::record::Timestamp;
use afterwrite::table::Model;
use serde_json::{Map, Value, json};

/// The namespace if `POWERTOOLS_METRICS_NAMESPACE` is unset.
const NAMESPACE: &str = "Afterwrite";
/// The age of the newest heartbeat, and the dimension that names the stage that it has passed.
const FRESHNESS: &str = "FreshnessSeconds";
const STAGE: &str = "stage";
/// The dimension with the value of `POWERTOOLS_SERVICE_NAME`.
const SERVICE: &str = "service";
const FUNCTION: &str = "Function";
const MODEL: &str = "Model";

/// Where a function's metrics appear in CloudWatch: namespace and dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsLabels {
    namespace: String,
    service: Option<String>,
    function: &'static str,
    model: String,
}

impl MetricsLabels {
    /// The labels of `function`, which runs this model. Metrics have the dimension `service` if `POWERTOOLS_SERVICE_NAME` is set, so
    /// that deployments of one model in one account are distinguished.
    #[must_use]
    pub fn new(settings: &EnvironmentSettings, function: &'static str, model: &Model) -> Self {
        Self {
            namespace: settings.metrics_namespace.clone().unwrap_or_else(|| NAMESPACE.to_owned()),
            service: settings.metrics_service.clone(),
            function,
            model: model.name.to_string(),
        }
    }

    /// The dimensions and their values.
    fn dimensions(&self) -> Vec<(&'static str, &str)> {
        let service = self.service.as_deref().map(|service| (SERVICE, service));
        service.into_iter().chain([(FUNCTION, self.function), (MODEL, &*self.model)]).collect()
    }
}

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
    pub fn print(self, labels: &MetricsLabels, started: Instant) {
        println!("{}", self.render(labels, started.elapsed(), SystemClock.now()));
    }

    /// The line as JSON.
    #[must_use]
    pub fn render(mut self, labels: &MetricsLabels, duration: Duration, now: Timestamp) -> String {
        self.milliseconds("Duration", u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
        let definitions: Vec<Value> =
            self.metrics.iter().map(|(name, unit, _)| json!({ "Name": name, "Unit": unit })).collect();
        let dimensions = labels.dimensions();
        let names: Vec<&str> = dimensions.iter().map(|(name, _)| *name).collect();
        let mut line = Map::new();
        let mut directives = vec![directive(&labels.namespace, &names, &definitions)];
        if let Some((stage, age)) = self.freshness {
            let names: Vec<&str> =
                names.iter().copied().filter(|name| *name != FUNCTION).chain([STAGE]).collect();
            let freshness = [json!({ "Name": FRESHNESS, "Unit": "Seconds" })];
            directives.push(directive(&labels.namespace, &names, &freshness));
            line.insert(STAGE.to_owned(), json!(stage.name()));
            line.insert(FRESHNESS.to_owned(), json!(age.as_secs_f64()));
        }
        line.insert(
            "_aws".to_owned(),
            json!({ "Timestamp": now.epoch_ms(), "CloudWatchMetrics": directives }),
        );
        line.extend(dimensions.into_iter().map(|(name, value)| (name.to_owned(), json!(value))));
        line.extend(self.metrics.into_iter().map(|(name, _, value)| (name, json!(value))));
        Value::Object(line).to_string()
    }
}

fn directive(namespace: &str, dimensions: &[&str], metrics: &[Value]) -> Value {
    json!({ "Namespace": namespace, "Dimensions": [dimensions], "Metrics": metrics })
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

    fn line_of(settings: &EnvironmentSettings, mut line: MetricsLine) -> Value {
        let labels = MetricsLabels::new(settings, "relay", &Model::load("shop").unwrap());
        line.count("records_relayed", 3_u64);
        let now = Timestamp::from_epoch_ms(1_770_372_000_000);
        serde_json::from_str(&line.render(&labels, Duration::from_millis(12), now)).unwrap()
    }

    fn rendered(settings: &EnvironmentSettings) -> Value {
        line_of(settings, MetricsLine::default())
    }

    #[test]
    fn a_heartbeat_adds_a_metric_with_the_stage_as_dimension() {
        let mut line = MetricsLine::default();
        line.freshness(HeartbeatStage::Archived, Some(Duration::from_millis(2_500)));
        let line = line_of(&EnvironmentSettings::default(), line);
        let directive = json!({
            "Namespace": "Afterwrite",
            "Dimensions": [["Model", "stage"]],
            "Metrics": [{ "Name": "FreshnessSeconds", "Unit": "Seconds" }],
        });
        assert_eq!(line["_aws"]["CloudWatchMetrics"][1], directive);
        assert_eq!((&line["stage"], &line["FreshnessSeconds"]), (&json!("archived"), &json!(2.5)));
        assert_eq!((&line["RecordsRelayed"], &line["Model"]), (&json!(3), &json!("shop")));
    }

    #[test]
    fn a_batch_without_a_heartbeat_has_one_set_of_dimensions() {
        let mut line = MetricsLine::default();
        line.freshness(HeartbeatStage::Counted, None);
        let line = line_of(&EnvironmentSettings::default(), line);
        assert_eq!(line["_aws"]["CloudWatchMetrics"].as_array().map(Vec::len), Some(1));
        assert_eq!(line.get("stage"), None);
    }

    #[test]
    fn a_metric_has_the_function_and_the_model_as_dimensions() {
        let line = rendered(&EnvironmentSettings::default());
        let metrics = json!([{ "Name": "RecordsRelayed", "Unit": "Count" }, { "Name": "Duration", "Unit": "Milliseconds" }]);
        let directive =
            json!([{ "Namespace": "Afterwrite", "Dimensions": [["Function", "Model"]], "Metrics": metrics }]);
        assert_eq!(line["_aws"]["CloudWatchMetrics"], directive);
        assert_eq!((&line["Function"], &line["Model"]), (&json!("relay"), &json!("shop")));
        assert_eq!((&line["RecordsRelayed"], &line["Duration"]), (&json!(3), &json!(12)));
        assert_eq!(line.get("service"), None);
    }

    #[test]
    fn the_environment_sets_the_namespace_and_the_dimension_of_the_service() {
        let line = rendered(&EnvironmentSettings {
            metrics_namespace: Some("Exams".to_owned()),
            metrics_service: Some("exams-production".to_owned()),
            ..EnvironmentSettings::default()
        });
        let directive = &line["_aws"]["CloudWatchMetrics"][0];
        assert_eq!(directive["Namespace"], "Exams");
        assert_eq!(directive["Dimensions"], json!([["service", "Function", "Model"]]));
        assert_eq!((&line["service"], &line["Function"]), (&json!("exams-production"), &json!("relay")));
    }
}
