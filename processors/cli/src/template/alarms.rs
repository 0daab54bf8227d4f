//! Alarms. Each kind has a paragraph of its own in docs/RUNBOOK.md.

use serde_json::{Map, Value, json};

use super::{DeployedShape, logical, reference, substituted};

/// An alarm: above a threshold.
struct AlarmRule {
    name: String,
    kind: &'static str,
    namespace: &'static str,
    metric: &'static str,
    dimensions: Vec<(&'static str, Value)>,
    statistic: &'static str,
    threshold: u64,
    period: u32,
    periods: u32,
    /// Whether a metric that nothing reports is an alarm, too.
    is_missing_breaching: bool,
    condition: Option<&'static str>,
}

impl AlarmRule {
    /// Any occurrence within five minutes.
    fn any(name: String, kind: &'static str, namespace: &'static str, metric: &'static str) -> Self {
        Self {
            name,
            kind,
            namespace,
            metric,
            dimensions: Vec::new(),
            statistic: "Sum",
            threshold: 0,
            period: 300,
            periods: 1,
            is_missing_breaching: false,
            condition: None,
        }
    }

    fn of(mut self, dimension: &'static str, value: Value) -> Self {
        self.dimensions.push((dimension, value));
        self
    }

    fn above(mut self, statistic: &'static str, threshold: u64, period: u32, periods: u32) -> Self {
        (self.statistic, self.threshold, self.period, self.periods) = (statistic, threshold, period, periods);
        self
    }

    fn resource(&self) -> Value {
        let dimensions = self.dimensions.iter();
        let dimensions: Vec<Value> =
            dimensions.map(|(name, value)| json!({ "Name": name, "Value": value })).collect();
        let topic =
            json!({ "Fn::If": ["HasAlarmTopic", [reference("AlarmTopicArn")], reference("AWS::NoValue")] });
        let properties = json!({
            "AlarmName": substituted(format!("${{Name}}-{}", self.name)),
            "AlarmDescription": format!("See docs/RUNBOOK.md#{}", self.kind),
            "ComparisonOperator": "GreaterThanThreshold",
            "Namespace": self.namespace, "MetricName": self.metric, "Dimensions": dimensions,
            "Statistic": self.statistic, "Threshold": self.threshold, "Period": self.period,
            "EvaluationPeriods": self.periods, "DatapointsToAlarm": self.periods,
            "TreatMissingData": if self.is_missing_breaching { "breaching" } else { "notBreaching" },
            "AlarmActions": topic, "OKActions": topic,
        });
        super::queues::with_condition("AWS::CloudWatch::Alarm", properties, self.condition)
    }
}

pub(super) fn resources(shape: &DeployedShape<'_>) -> Map<String, Value> {
    let mut rules = function_rules(shape);
    rules.extend(mapping_rules(shape));
    rules.extend(own_rules(shape));
    rules.extend(queue_rules(shape));
    rules.extend(freshness_rules(shape));
    rules.iter().map(|rule| (format!("{}Alarm", logical(&rule.name)), rule.resource())).collect()
}

fn function_name(function: &str) -> Value {
    substituted(format!("${{Name}}-{function}"))
}

fn function_rules(shape: &DeployedShape<'_>) -> Vec<AlarmRule> {
    const LAMBDA: &str = "AWS/Lambda";
    let mut rules = Vec::new();
    for reader in shape.readers() {
        let rule = |kind, metric| {
            AlarmRule::any(format!("{kind}-{reader}"), kind, LAMBDA, metric)
                .of("FunctionName", function_name(reader))
        };
        rules.push(rule("iterator-age", "IteratorAge").above("Maximum", 300_000, 60, 5));
        rules.push(rule("delivery-failures", "DestinationDeliveryFailures"));
    }
    let mut deployed: Vec<(&str, u64)> = shape.readers().into_iter().map(|reader| (reader, 60)).collect();
    if shape.has_datasets() {
        deployed.extend([("exporter", 300), ("compactor", 900)]);
    }
    for (function, timeout) in deployed {
        let rule = |kind, metric| {
            AlarmRule::any(format!("{kind}-{function}"), kind, LAMBDA, metric)
                .of("FunctionName", function_name(function))
        };
        let periods = if function == "compactor" { 1 } else { 2 };
        rules.push(rule("errors", "Errors").above("Sum", 0, 300, periods));
        rules.push(rule("throttles", "Throttles").above("Sum", 0, 300, 3));
        rules.push(rule("duration", "Duration").above("Maximum", 800 * timeout, 300, periods));
    }
    rules
}

fn mapping_rules(shape: &DeployedShape<'_>) -> Vec<AlarmRule> {
    let mut rules = Vec::new();
    for reader in shape.readers() {
        for table in &shape.model.tables {
            let mapping = format!("{}{}Mapping", logical(reader), logical(&table.name));
            let rule = |kind, metric| {
                AlarmRule::any(format!("{kind}-{reader}-{}", table.name), kind, "AWS/Lambda", metric)
                    .of("EventSourceMappingUUID", reference(&mapping))
            };
            rules.push(rule("on-failure", "OnFailureDestinationDeliveredEventCount"));
            rules.push(rule("dropped", "DroppedEventCount"));
        }
    }
    rules
}

/// The metrics of the functions.
fn own_rules(shape: &DeployedShape<'_>) -> Vec<AlarmRule> {
    let own = |kind: &'static str, metric, function: &'static str| {
        AlarmRule::any(kind.to_owned(), kind, "Afterwrite", metric)
            .of("service", reference("Name"))
            .of("Function", json!(function))
            .of("Model", json!(&*shape.model.name))
    };
    let mut rules = Vec::new();
    if shape.has_aggregate() {
        rules.extend([
            own("parked", "Parked", "aggregator"),
            own("failed-records", "Failed", "aggregator").above("Sum", 0, 300, 3),
            own("unwritable-mirrors", "UnwritableMirrors", "aggregator"),
            own("other-models", "OtherModels", "aggregator"),
            own("expiries-too-old", "ExpiriesTooOld", "aggregator"),
        ]);
    }
    rules.push(own("relay-failed", "RelayFailed", shape.relaying()).above("Sum", 0, 300, 3));
    if shape.has_datasets() {
        rules.push(own("rejected-lines", "RejectedLines", "exporter"));
    }
    let refused = own("paths-refused", "PathsRefused", "invalidator");
    rules.push(AlarmRule { condition: Some("HasDistribution"), ..refused });
    rules
}

fn queue_rules(shape: &DeployedShape<'_>) -> Vec<AlarmRule> {
    let queue = |name: &str, kind, metric, queue: &str| {
        AlarmRule::any(name.to_owned(), kind, "AWS/SQS", metric)
            .of("QueueName", substituted(format!("${{Name}}-{queue}")))
    };
    let oldest = "ApproximateAgeOfOldestMessage";
    let letters = "ApproximateNumberOfMessagesVisible";
    let condition = Some("HasDistribution");
    let mut rules = vec![
        AlarmRule {
            condition,
            ..queue("cdn-backlog", "cdn-backlog", oldest, "cdn").above("Maximum", 900, 300, 2)
        },
        AlarmRule {
            condition,
            ..queue("dead-letters-cdn", "dead-letters", letters, "cdn-dead-letters")
                .above("Maximum", 0, 300, 1)
        },
        queue("dead-letters-schedules", "dead-letters", letters, "schedules-dead-letters")
            .above("Maximum", 0, 300, 1),
    ];
    if shape.has_datasets() {
        rules.push(
            queue("exporter-backlog", "exporter-backlog", oldest, "export").above("Maximum", 3600, 300, 2),
        );
        rules.push(
            queue("dead-letters-export", "dead-letters", letters, "export-dead-letters")
                .above("Maximum", 0, 300, 1),
        );
    }
    let delivery = AlarmRule::any(
        "archive-delivery".to_owned(),
        "archive-delivery",
        "AWS/Firehose",
        "DeliveryToS3.DataFreshness",
    );
    let stream = substituted("${Name}-archive");
    rules.push(delivery.of("DeliveryStreamName", stream).above("Maximum", 2100, 300, 2));
    rules
}

/// A stage that reports nothing is dead.
fn freshness_rules(shape: &DeployedShape<'_>) -> Vec<AlarmRule> {
    let mut stages = Vec::new();
    if shape.has_aggregate() {
        stages.extend([("counted", 300, 300, 2), ("archived", 300, 300, 2)]);
        if shape.has_datasets() {
            stages.extend([("exported", 2700, 900, 3), ("queryable", 10_800, 3600, 3)]);
        }
    }
    let rule = |(stage, threshold, period, periods): (&'static str, u64, u32, u32)| AlarmRule {
        is_missing_breaching: true,
        ..AlarmRule::any(format!("freshness-{stage}"), "freshness", "Afterwrite", "FreshnessSeconds")
            .of("service", reference("Name"))
            .of("Model", json!(&*shape.model.name))
            .of("stage", json!(stage))
            .above("Maximum", threshold, period, periods)
    };
    stages.into_iter().map(rule).collect()
}
