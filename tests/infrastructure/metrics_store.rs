//! The metrics of a run: those that functions printed, and those that AWS would add, from what was observed.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

/// A metric's identity in CloudWatch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MetricName {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) dimensions: BTreeMap<String, String>,
}

/// The values of a run, by metric.
#[derive(Clone, Debug, Default)]
pub(crate) struct MetricStore {
    values: BTreeMap<MetricName, Vec<f64>>,
}

impl MetricName {
    pub(crate) fn new(namespace: &str, name: &str, dimensions: &[(&str, &str)]) -> Self {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            dimensions: dimensions.iter().map(pair).collect(),
        }
    }
}

impl MetricStore {
    pub(crate) fn add(&mut self, metric: MetricName, value: f64) {
        self.values.entry(metric).or_default().push(value);
    }

    pub(crate) fn extend(&mut self, other: Self) {
        for (metric, values) in other.values {
            self.values.entry(metric).or_default().extend(values);
        }
    }

    /// The values of a metric; empty if it was not emitted.
    pub(crate) fn values(&self, metric: &MetricName) -> &[f64] {
        self.values.get(metric).map_or(&[], Vec::as_slice)
    }

    /// All metrics that were emitted.
    pub(crate) fn names(&self) -> impl Iterator<Item = &MetricName> {
        self.values.keys()
    }

    /// Adds the metrics that a function printed into its log, in the embedded metric format.
    pub(crate) fn read_log(&mut self, log: &Path) {
        // A function that was never invoked has no log.
        let text = std::fs::read_to_string(log).unwrap_or_default();
        for line in text.lines().filter(|line| line.contains("\"_aws\"")) {
            let line: Value = serde_json::from_str(line).expect("a line of metrics");
            for directive in line["_aws"]["CloudWatchMetrics"].as_array().expect("directives") {
                self.add_directive(&line, directive);
            }
        }
    }

    fn add_directive(&mut self, line: &Value, directive: &Value) {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        for names in directive["Dimensions"].as_array().expect("sets of dimensions") {
            let names = names.as_array().expect("names").iter().map(text);
            let dimensions: BTreeMap<String, String> =
                names.map(|name| (name.clone(), text(&line[&name]))).collect();
            for metric in directive["Metrics"].as_array().expect("metrics") {
                let (namespace, name) = (text(&directive["Namespace"]), text(&metric["Name"]));
                let value = line[&name].as_f64().expect("a number");
                self.add(MetricName { namespace, name, dimensions: dimensions.clone() }, value);
            }
        }
    }
}
