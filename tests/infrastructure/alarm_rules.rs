//! The alarms of an applied state, evaluated on the metrics of a run as CloudWatch does.
//!
//! A run stands for one period, and its condition lasts: the alarm sees the same period as often as it looks back.

use std::collections::BTreeMap;

use serde_json::Value;

use super::applied::{AppliedState, text};
use super::metrics_store::{MetricName, MetricStore};

/// An alarm.
pub(crate) struct AlarmRule {
    /// Its name without the deployment's.
    pub(crate) name: String,
    /// The paragraph of the runbook that its description names.
    pub(crate) kind: String,
    measured: MeasuredValue,
    threshold: f64,
    evaluation_periods: usize,
    datapoints_to_alarm: usize,
    missing_is_breaching: bool,
}

/// The value of a period.
enum MeasuredValue {
    Metric(MetricStatistic),
    /// A part of a whole, in percent.
    Share {
        part: MetricStatistic,
        whole: MetricStatistic,
    },
}

struct MetricStatistic {
    metric: MetricName,
    statistic: Statistic,
}

#[derive(Clone, Copy)]
enum Statistic {
    Sum,
    Maximum,
}

impl AlarmRule {
    /// All alarms of a state.
    pub(crate) fn all(state: &AppliedState) -> Vec<Self> {
        let rules: Vec<Self> = state
            .all("aws_cloudwatch_metric_alarm")
            .map(|alarm| Self::of(&alarm.key, &alarm.values))
            .collect();
        assert!(rules.len() > 20, "{} alarms", rules.len());
        rules
    }

    fn of(name: &str, values: &Value) -> Self {
        assert_eq!(values["comparison_operator"], "GreaterThanThreshold", "{name}");
        let kind = text(&values["alarm_description"]).rsplit('#').next().expect("a paragraph").to_owned();
        let number = |key: &str| values[key].as_f64().expect("a number");
        let count = |key: &str| usize::try_from(values[key].as_u64().expect("a number")).expect("a size");
        Self {
            name: name.to_owned(),
            kind,
            measured: MeasuredValue::of(values),
            threshold: number("threshold"),
            evaluation_periods: count("evaluation_periods"),
            datapoints_to_alarm: count("datapoints_to_alarm"),
            missing_is_breaching: values["treat_missing_data"] == "breaching",
        }
    }

    /// The metrics that it looks at.
    pub(crate) fn metrics(&self) -> Vec<&MetricName> {
        match &self.measured {
            MeasuredValue::Metric(metric) => vec![&metric.metric],
            MeasuredValue::Share { part, whole } => vec![&part.metric, &whole.metric],
        }
    }

    /// Whether it fires if its newest periods were like these runs, the newest last. Earlier periods were like the first.
    pub(crate) fn fires(&self, periods: &[&MetricStore]) -> bool {
        let first = periods.first().expect("a period");
        let earlier = std::iter::repeat_n(*first, self.evaluation_periods.saturating_sub(periods.len()));
        let window = earlier.chain(periods.iter().copied()).rev().take(self.evaluation_periods);
        window.filter(|run| self.breaches(run)).count() >= self.datapoints_to_alarm
    }

    /// Whether it needs more than one period.
    pub(crate) fn waits(&self) -> bool {
        self.datapoints_to_alarm > 1
    }

    fn breaches(&self, run: &MetricStore) -> bool {
        self.measured.value(run).map_or(self.missing_is_breaching, |value| value > self.threshold)
    }

    /// Whether a run has a value.
    pub(crate) fn is_measured(&self, run: &MetricStore) -> bool {
        self.measured.value(run).is_some()
    }

    /// The value above which it fires.
    pub(crate) fn threshold(&self) -> f64 {
        self.threshold
    }

    /// The value of a run, for messages.
    pub(crate) fn value(&self, run: &MetricStore) -> String {
        format!("{:?} against {}", self.measured.value(run), self.threshold)
    }
}

impl MeasuredValue {
    fn of(values: &Value) -> Self {
        let Some(queries) = values["metric_query"].as_array().filter(|queries| !queries.is_empty()) else {
            return Self::Metric(MetricStatistic::of(values, "statistic"));
        };
        let query = |id: &str| queries.iter().find(|query| query["id"] == id).expect("a query");
        assert_eq!(text(&query("share")["expression"]), "IF(whole > 0, 100 * part / whole, 100 * part)");
        let metric = |id: &str| MetricStatistic::of(&query(id)["metric"][0], "stat");
        Self::Share { part: metric("part"), whole: metric("whole") }
    }

    /// `None` if there is no data.
    fn value(&self, run: &MetricStore) -> Option<f64> {
        match self {
            Self::Metric(metric) => metric.value(run),
            Self::Share { part, whole } => {
                let (part, whole) = (part.value(run)?, whole.value(run)?);
                Some(if whole > 0.0 { 100.0 * part / whole } else { 100.0 * part })
            }
        }
    }
}

impl MetricStatistic {
    fn of(values: &Value, statistic: &str) -> Self {
        let dimensions = values["dimensions"].as_object().expect("dimensions").iter();
        let dimensions: BTreeMap<String, String> =
            dimensions.map(|(name, value)| (name.clone(), text(value).to_owned())).collect();
        Self {
            metric: MetricName {
                namespace: text(&values["namespace"]).to_owned(),
                name: text(&values["metric_name"]).to_owned(),
                dimensions,
            },
            statistic: match text(&values[statistic]) {
                "Sum" => Statistic::Sum,
                "Maximum" => Statistic::Maximum,
                other => panic!("{other} is not a statistic that is evaluated here"),
            },
        }
    }

    fn value(&self, run: &MetricStore) -> Option<f64> {
        let values = run.values(&self.metric);
        let of_values = || match self.statistic {
            Statistic::Sum => values.iter().sum(),
            Statistic::Maximum => values.iter().copied().fold(f64::MIN, f64::max),
        };
        (!values.is_empty()).then(of_values)
    }
}

/// The metrics that the dashboard shows, with their dimensions.
pub(crate) fn shown_metrics(state: &AppliedState) -> Vec<MetricName> {
    let dashboard = state.one("aws_cloudwatch_dashboard", "deployment").expect("a dashboard");
    let body: Value = serde_json::from_str(text(&dashboard["dashboard_body"])).expect("a dashboard in JSON");
    let widgets = body["widgets"].as_array().expect("widgets").iter();
    let metrics = widgets.flat_map(|widget| widget["properties"]["metrics"].as_array().into_iter().flatten());
    let name = |metric: &Value| {
        let texts: Vec<&str> =
            metric.as_array().expect("a metric").iter().filter_map(Value::as_str).collect();
        let pairs: Vec<(&str, &str)> = texts[2..].chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        MetricName::new(texts[0], texts[1], &pairs)
    };
    metrics.map(name).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(changes: &Value) -> AlarmRule {
        let mut values = json!({
            "alarm_description": "Something. See docs/RUNBOOK.md#kind",
            "comparison_operator": "GreaterThanThreshold", "threshold": 2.0,
            "evaluation_periods": 3, "datapoints_to_alarm": 2, "treat_missing_data": "notBreaching",
            "namespace": "N", "metric_name": "M", "dimensions": { "d": "1" }, "statistic": "Sum", "metric_query": [],
        });
        for (key, value) in changes.as_object().expect("changes") {
            values[key] = value.clone();
        }
        AlarmRule::of("alarm", &values)
    }

    fn run(values: &[(&str, f64)]) -> MetricStore {
        let mut store = MetricStore::default();
        for (metric, value) in values {
            store.add(MetricName::new("N", metric, &[("d", "1")]), *value);
        }
        store
    }

    #[test]
    fn values_of_a_period_are_summed_and_enough_periods_must_breach() {
        let (low, high) = (run(&[("M", 1.0), ("M", 1.0)]), run(&[("M", 1.0), ("M", 2.0)]));
        let rule = rule(&json!({}));
        assert!(!rule.fires(&[&low]) && !rule.fires(&[&low, &high]) && rule.fires(&[&low, &high, &high]));
        assert!(rule.fires(&[&high]) && rule.waits());
        assert_eq!(rule.kind, "kind");
    }

    #[test]
    fn the_maximum_and_other_dimensions_are_distinguished() {
        let maximum = rule(&json!({ "statistic": "Maximum" }));
        assert!(!maximum.fires(&[&run(&[("M", 2.0), ("M", 2.0)])]) && maximum.fires(&[&run(&[("M", 3.0)])]));
        let other = rule(&json!({ "dimensions": { "d": "2" } }));
        assert!(!other.fires(&[&run(&[("M", 9.0)])]));
    }

    #[test]
    fn missing_data_breaches_if_the_alarm_treats_it_so() {
        assert!(!rule(&json!({})).fires(&[&run(&[])]));
        assert!(rule(&json!({ "treat_missing_data": "breaching" })).fires(&[&run(&[])]));
    }

    #[test]
    fn a_share_is_of_what_it_counts_and_a_part_without_a_whole_breaches() {
        let metric = |name: &str| json!([{ "namespace": "N", "metric_name": name, "dimensions": { "d": "1" }, "stat": "Sum" }]);
        let queries = json!([
            { "id": "part", "metric": metric("P") },
            { "id": "whole", "metric": metric("W") },
            { "id": "share", "expression": "IF(whole > 0, 100 * part / whole, 100 * part)" },
        ]);
        let rule = rule(&json!({ "metric_query": queries, "threshold": 50.0 }));
        assert!(
            !rule.fires(&[&run(&[("P", 5.0), ("W", 10.0)])])
                && rule.fires(&[&run(&[("P", 6.0), ("W", 10.0)])])
        );
        assert!(
            rule.fires(&[&run(&[("P", 1.0), ("W", 0.0)])]) && !rule.fires(&[&run(&[("P", 0.0), ("W", 0.0)])])
        );
    }
}
