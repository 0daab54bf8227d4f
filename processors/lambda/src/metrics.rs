//! Metrics in CloudWatch's embedded metric format: one JSON line in the log for each batch.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use afterwrite_model::Result;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::heartbeat::HeartbeatStage;
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::Model;
use afterwrite_services::config::EnvironmentSettings;
use serde_json::{Map, Value, json};

use crate::logging::log_metrics;

/// The namespace if `POWERTOOLS_METRICS_NAMESPACE` is unset.
const NAMESPACE: &str = "Afterwrite";
/// The age of the newest heartbeat, and the dimension that names the stage that it has passed.
const FRESHNESS: &str = "FreshnessSeconds";
const STAGE: &str = "stage";
/// The dimension with the value of `POWERTOOLS_SERVICE_NAME`.
const SERVICE: &str = "service";
const FUNCTION: &str = "Function";
const MODEL: &str = "Model";

/// The metrics of each function that report lost data. With `AFTERWRITE_METRICS=essential`, all other metrics are numbers in the log only.
pub const ESSENTIAL_METRICS: [&str; 4] = ["DriftedTargets", "ExpiriesTooOld", "Parked", "RejectedLines"];
/// The metric that reports lost data of a model with sources that expire. It is essential for such a model alone.
pub const ESSENTIAL_METRIC_OF_EXPIRING_SOURCES: &str = "DroppedContributions";
/// The stages whose freshness reports that a stream is not read.
pub const ESSENTIAL_STAGES: [HeartbeatStage; 2] = [HeartbeatStage::Counted, HeartbeatStage::Archived];

/// An observer of metrics: the function's name, and the name, the unit and the value of each metric.
type MetricsObserver = Box<dyn Fn(&'static str, &[(String, &'static str, u64)]) + Send + Sync>;

static OBSERVER: OnceLock<MetricsObserver> = OnceLock::new();

/// Passes the metrics of all functions of this process to an observer, also those that the settings hide. A process has one observer: the
/// first.
pub fn observe_metrics(
    observer: impl Fn(&'static str, &[(String, &'static str, u64)]) + Send + Sync + 'static,
) {
    // A later observer is ignored.
    let _ = OBSERVER.set(Box::new(observer));
}

/// Where a function's metrics appear in CloudWatch: namespace and dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsLabels {
    namespace: String,
    service: Option<String>,
    function: &'static str,
    model: String,
    /// Whether only the essential metrics and the freshness of [`ESSENTIAL_STAGES`] are metrics.
    is_essential: bool,
    /// Whether [`ESSENTIAL_METRIC_OF_EXPIRING_SOURCES`] is essential.
    has_expiring_sources: bool,
    is_hidden: bool,
}

impl MetricsLabels {
    /// The labels of `function`, which runs this model. Metrics have the dimension `service` if `POWERTOOLS_SERVICE_NAME` is set, so
    /// that deployments of one model in one account are distinguished.
    ///
    /// # Errors
    /// `Configuration` if `AFTERWRITE_METRICS` is not valid.
    pub fn new(settings: &EnvironmentSettings, function: &'static str, model: &Model) -> Result<Self> {
        Ok(Self {
            is_essential: settings.emits_essential_metrics()?,
            has_expiring_sources: model.has_expiring_sources(),
            namespace: settings.metrics_namespace.clone().unwrap_or_else(|| NAMESPACE.to_owned()),
            service: settings.metrics_service.clone(),
            function,
            model: model.name.to_string(),
            is_hidden: settings.hides_metrics,
        })
    }

    /// The function's name.
    #[must_use]
    pub fn function(&self) -> &'static str {
        self.function
    }

    fn is_metric(&self, name: &str) -> bool {
        !self.is_essential
            || ESSENTIAL_METRICS.contains(&name)
            || (self.has_expiring_sources && name == ESSENTIAL_METRIC_OF_EXPIRING_SOURCES)
    }

    fn is_stage(&self, stage: HeartbeatStage) -> bool {
        !self.is_essential || ESSENTIAL_STAGES.contains(&stage)
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

    /// Prints the line, for a batch that was started at `started`, unless the settings hide metrics. The observer gets it in any case.
    pub fn print(self, labels: &MetricsLabels, started: Instant) {
        if let Some(observer) = OBSERVER.get() {
            observer(labels.function, &self.metrics);
        }
        if labels.is_hidden {
            return;
        }
        log_metrics(&self.render(labels, started.elapsed(), SystemClock.now()));
    }

    /// The line as JSON.
    #[must_use]
    pub fn render(mut self, labels: &MetricsLabels, duration: Duration, now: Timestamp) -> String {
        self.milliseconds("Duration", u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
        let emitted = self.metrics.iter().filter(|(name, _, _)| labels.is_metric(name));
        let definitions: Vec<Value> =
            emitted.map(|(name, unit, _)| json!({ "Name": name, "Unit": unit })).collect();
        let dimensions = labels.dimensions();
        let names: Vec<&str> = dimensions.iter().map(|(name, _)| *name).collect();
        let mut line = Map::new();
        let mut directives = Vec::new();
        if !definitions.is_empty() {
            directives.push(directive(&labels.namespace, &names, &definitions));
        }
        if let Some((stage, age)) = self.freshness.filter(|(stage, _)| labels.is_stage(*stage)) {
            let names: Vec<&str> =
                names.iter().copied().filter(|name| *name != FUNCTION).chain([STAGE]).collect();
            let freshness = [json!({ "Name": FRESHNESS, "Unit": "Seconds" })];
            directives.push(directive(&labels.namespace, &names, &freshness));
            line.insert(STAGE.to_owned(), json!(stage.name()));
            line.insert(FRESHNESS.to_owned(), json!(age.as_secs_f64()));
        }
        if !directives.is_empty() {
            line.insert(
                "_aws".to_owned(),
                json!({ "Timestamp": now.epoch_ms(), "CloudWatchMetrics": directives }),
            );
        }
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
        let labels = MetricsLabels::new(settings, "relay", &Model::load("shop").unwrap()).unwrap();
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
    fn essential_metrics_alone_are_metrics_and_the_others_are_in_the_log() {
        let essential =
            EnvironmentSettings { metrics: Some("essential".to_owned()), ..EnvironmentSettings::default() };
        let line = rendered(&essential);
        assert_eq!((line.get("_aws"), &line["RecordsRelayed"]), (None, &json!(3)));
        let mut parked = MetricsLine::default();
        parked.count("parked", 1_u64);
        parked.freshness(HeartbeatStage::Archived, Some(Duration::from_secs(2)));
        let line = line_of(&essential, parked);
        let directives = line["_aws"]["CloudWatchMetrics"].as_array().unwrap();
        assert_eq!(directives[0]["Metrics"], json!([{ "Name": "Parked", "Unit": "Count" }]));
        assert_eq!(directives[1]["Metrics"][0]["Name"], "FreshnessSeconds");
        let mut queryable = MetricsLine::default();
        queryable.freshness(HeartbeatStage::Queryable, Some(Duration::from_secs(2)));
        assert_eq!(line_of(&essential, queryable).get("_aws"), None);
        let wrong = EnvironmentSettings { metrics: Some("few".to_owned()), ..EnvironmentSettings::default() };
        assert!(MetricsLabels::new(&wrong, "relay", &Model::load("shop").unwrap()).is_err());
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
