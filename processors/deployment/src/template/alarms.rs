//! Alarms. Each kind has a paragraph of its own in docs/RUNBOOK.md.

use serde_json::{Map, Value, json};

use super::conditions::Condition;
use super::events::drain_condition;
use super::functions::{COMPACTOR, EXPORTER, INVALIDATOR, VERIFIER};
use super::intrinsics::{reference, resource, substituted, when};
use super::mappings::{MappedStream, mapped_streams, stream_mapping_id};
use super::storage::BUFFERING_SECONDS;
use super::{DeployedShape, logical, queues};

const LAMBDA: &str = "AWS/Lambda";
const QUEUES: &str = "AWS/SQS";
/// The namespace of the functions' own metrics.
pub(super) const OWN: &str = "Afterwrite";

/// The kinds of alarms with minimal observability: every way of losing data.
const ESSENTIAL_KINDS: [&str; 11] = [
    "iterator-age",
    "delivery-failures",
    "on-failure",
    "dropped",
    "parked",
    "expiries-too-old",
    "dropped-contributions",
    "rejected-lines",
    "archive-delivery",
    "dead-letters",
    "drift",
];
/// Further alarms with minimal observability: a verifier that fails finds nothing, and a mapping that is disabled lets records expire.
const ESSENTIAL_NAMES: [&str; 3] = ["errors-verifier", "freshness-counted", "freshness-archived"];

/// An alarm: above a threshold.
pub(super) struct AlarmRule {
    name: String,
    kind: &'static str,
    summary: String,
    namespace: &'static str,
    metric: &'static str,
    /// The threshold is a percentage of what this metric counts.
    share_of: Option<&'static str>,
    dimensions: Vec<(&'static str, Value)>,
    statistic: &'static str,
    threshold: u64,
    period: u32,
    /// So many of the newest `periods` must be above the threshold.
    datapoints: u32,
    periods: u32,
    /// Whether a metric that nothing reports is an alarm, too.
    is_missing_breaching: bool,
    pub(super) condition: Option<Condition>,
}

impl AlarmRule {
    /// Any occurrence within five minutes.
    fn any(kind: &'static str, namespace: &'static str, metric: &'static str, summary: &str) -> Self {
        Self {
            name: kind.to_owned(),
            kind,
            summary: summary.to_owned(),
            namespace,
            metric,
            share_of: None,
            dimensions: Vec::new(),
            statistic: "Sum",
            threshold: 0,
            period: 300,
            datapoints: 1,
            periods: 1,
            is_missing_breaching: false,
            condition: None,
        }
    }

    /// One of several alarms of its kind.
    fn named(mut self, subject: &str) -> Self {
        self.name = format!("{}-{subject}", self.kind);
        self
    }

    fn of(mut self, dimension: &'static str, value: Value) -> Self {
        self.dimensions.push((dimension, value));
        self
    }

    fn above(mut self, threshold: u64) -> Self {
        self.threshold = threshold;
        self
    }

    /// The largest value of a period counts, not the sum.
    fn maximum_above(mut self, threshold: u64) -> Self {
        self.statistic = "Maximum";
        self.above(threshold)
    }

    fn percent_of(mut self, metric: &'static str, threshold: u64) -> Self {
        self.share_of = Some(metric);
        self.above(threshold)
    }

    fn lasting(mut self, datapoints: u32, periods: u32, period: u32) -> Self {
        (self.datapoints, self.periods, self.period) = (datapoints, periods, period);
        self
    }

    fn only(mut self, condition: Option<Condition>) -> Self {
        self.condition = condition;
        self
    }

    pub(super) fn id(&self) -> String {
        format!("{}Alarm", logical(&self.name))
    }

    fn resource(&self) -> Value {
        let mut properties = match self.share_of {
            None => self.metric_properties(),
            Some(whole) => json!({ "Metrics": self.share_queries(whole) }),
        };
        let topic = when(Condition::HasAlarmTopic, vec![reference("AlarmTopicArn")]);
        let common = json!({
            "AlarmName": substituted(format!("${{Name}}-{}", self.name)),
            "AlarmDescription": format!("{}. See docs/RUNBOOK.md#{}", self.summary, self.kind),
            "ComparisonOperator": "GreaterThanThreshold", "Threshold": self.threshold,
            "EvaluationPeriods": self.periods, "DatapointsToAlarm": self.datapoints,
            "TreatMissingData": if self.is_missing_breaching { "breaching" } else { "notBreaching" },
            "AlarmActions": topic, "OKActions": topic,
        });
        if let (Some(properties), Value::Object(common)) = (properties.as_object_mut(), common) {
            properties.extend(common);
        }
        resource("AWS::CloudWatch::Alarm", properties, self.condition)
    }

    fn metric_properties(&self) -> Value {
        json!({
            "Namespace": self.namespace, "MetricName": self.metric, "Dimensions": self.dimension_list(),
            "Statistic": self.statistic, "Period": self.period,
        })
    }

    /// A percentage. If nothing is counted, as when every transaction conflicts, one is too many.
    fn share_queries(&self, whole: &str) -> Value {
        let query = |id: &str, metric: &str| {
            json!({
                "Id": id, "ReturnData": false,
                "MetricStat": {
                    "Metric": { "Namespace": self.namespace, "MetricName": metric, "Dimensions": self.dimension_list() },
                    "Stat": self.statistic, "Period": self.period,
                },
            })
        };
        let share = json!({
            "Id": "share", "ReturnData": true, "Label": format!("{} in % of {whole}", self.metric),
            "Expression": "IF(whole > 0, 100 * part / whole, 100 * part)",
        });
        json!([query("part", self.metric), query("whole", whole), share])
    }

    fn dimension_list(&self) -> Vec<Value> {
        let dimensions = self.dimensions.iter();
        dimensions.map(|(name, value)| json!({ "Name": name, "Value": value })).collect()
    }
}

pub(super) fn resources(shape: &DeployedShape<'_>) -> Map<String, Value> {
    rules(shape).iter().map(|rule| (rule.id(), rule.resource())).collect()
}

pub(super) fn rules(shape: &DeployedShape<'_>) -> Vec<AlarmRule> {
    let mut rules = reader_rules(shape);
    rules.extend(mapping_rules(shape));
    rules.extend(function_rules(shape));
    if shape.has_aggregate() {
        rules.extend(counting_rules(shape));
    }
    rules.extend(relaying_rules(shape));
    if shape.has_datasets() {
        rules.extend(exporting_rules(shape));
    }
    rules.extend(dead_letter_rules(shape));
    rules.extend(freshness_rules(shape));
    let is_essential =
        |rule: &AlarmRule| ESSENTIAL_KINDS.contains(&rule.kind) || ESSENTIAL_NAMES.contains(&&*rule.name);
    rules.retain(|rule| !shape.is_minimal() || is_essential(rule));
    rules
}

fn named(name: &str) -> Value {
    substituted(format!("${{Name}}-{name}"))
}

/// A metric that Lambda counts for a function.
fn of_lambda(kind: &'static str, metric: &'static str, function: &str, summary: &str) -> AlarmRule {
    AlarmRule::any(kind, LAMBDA, metric, summary).named(function).of("FunctionName", named(function))
}

/// A metric that a function counts itself.
fn of_own(
    shape: &DeployedShape<'_>,
    kind: &'static str,
    metric: &'static str,
    function: &str,
    summary: &str,
) -> AlarmRule {
    AlarmRule::any(kind, OWN, metric, summary)
        .of("service", reference("Name"))
        .of("Function", json!(function))
        .of("Model", json!(&*shape.model.name))
}

fn of_queue(kind: &'static str, metric: &'static str, queue: &str, summary: &str) -> AlarmRule {
    AlarmRule::any(kind, QUEUES, metric, summary).of("QueueName", named(queue))
}

fn reader_rules(shape: &DeployedShape<'_>) -> Vec<AlarmRule> {
    let mut rules = Vec::new();
    for reader in shape.readers() {
        let behind = format!("{reader} is behind its stream");
        let lost =
            format!("Failed records of {reader} could not be written to the on-failure bucket, and are lost");
        rules.extend([
            of_lambda("iterator-age", "IteratorAge", reader, &behind)
                .maximum_above(300_000)
                .lasting(5, 5, 60),
            of_lambda("delivery-failures", "DestinationDeliveryFailures", reader, &lost),
        ]);
    }
    rules
}

fn mapping_rules(shape: &DeployedShape<'_>) -> Vec<AlarmRule> {
    let mut rules = Vec::new();
    for reader in shape.readers() {
        for MappedStream { table, description, .. } in mapped_streams(shape, reader) {
            let rule = |kind, metric, summary: String| {
                AlarmRule::any(kind, LAMBDA, metric, &summary)
                    .named(&format!("{reader}-{table}"))
                    .of("EventSourceMappingUUID", reference(&stream_mapping_id(reader, table)))
            };
            let failed = format!(
                "Records of {description} were given up by {reader} and are in the on-failure bucket"
            );
            let dropped =
                format!("Records of {description} were dropped by the event source mapping of {reader}");
            rules.push(rule("on-failure", "OnFailureDestinationDeliveredEventCount", failed));
            rules.push(rule("dropped", "DroppedEventCount", dropped));
        }
    }
    rules
}

/// A run of the compactor or the verifier is rare and long; other functions may fail now and then, and are invoked again.
fn function_rules(shape: &DeployedShape<'_>) -> Vec<AlarmRule> {
    let mut rules = Vec::new();
    for function in shape.deployed() {
        let name = function.name;
        let is_rare = [COMPACTOR.name, VERIFIER.name].contains(&name);
        let (datapoints, periods) = if is_rare { (1, 1) } else { (2, 3) };
        let errors = of_lambda("errors", "Errors", name, &format!("Invocations of {name} fail"));
        rules.push(errors.lasting(datapoints, periods, 300).only(function.condition));
        // The verifier uses the time that it has.
        if name != VERIFIER.name {
            let long = format!("{name} runs for nearly as long as it may");
            let duration = of_lambda("duration", "Duration", name, &long);
            // 80 % of the timeout, in milliseconds.
            let duration = duration.maximum_above(800 * u64::from(function.timeout));
            rules.push(duration.lasting(datapoints, periods, 300).only(function.condition));
        }
        // The pollers of the CDN queue always find the one invalidator busy: its backlog counts, not its throttles.
        if name != INVALIDATOR.name {
            let throttled = format!("Invocations of {name} are throttled");
            rules.push(of_lambda("throttles", "Throttles", name, &throttled).lasting(3, 3, 300));
        }
    }
    rules
}

fn counting_rules(shape: &DeployedShape<'_>) -> Vec<AlarmRule> {
    let own = |kind, metric, summary| of_own(shape, kind, metric, "aggregator", summary);
    let drifted = "What is derived differs from the items";
    let dropped =
        "Contributions to rollups that are sources and had expired were dropped: the levels above lack them";
    let drops = shape.model.has_expiring_sources();
    let mut rules = vec![
        own("unmatched", "Unmatched", "Many records match no entity of the model")
            .percent_of("Records", 50)
            .lasting(2, 2, 900),
        own("parked", "Parked", "Items are parked: their newest records cannot be counted"),
        own(
            "failed-records",
            "Failed",
            "Records could not be counted for a quarter of an hour, and are redelivered",
        )
        .lasting(3, 3, 300),
        own("conflicts", "Conflicts", "Transactions conflict with each other")
            .percent_of("Transactions", 50)
            .lasting(3, 3, 300),
        own("unwritable-mirrors", "UnwritableMirrors", "Counts cannot be shown on the application's items"),
        own(
            "other-models",
            "OtherModels",
            "Ledger entries were written by another model of the same generation",
        ),
        own("expiries-too-old", "ExpiriesTooOld", "Expiries of more than 35 days ago were not applied"),
        of_own(shape, "drift", "DriftedTargets", VERIFIER.name, drifted),
    ];
    rules.extend(drops.then(|| own("dropped-contributions", "DroppedContributions", dropped)));
    rules
}

const OLDEST_MESSAGE: &str = "ApproximateAgeOfOldestMessage";

/// Alarms on caches and the archive.
fn relaying_rules(shape: &DeployedShape<'_>) -> Vec<AlarmRule> {
    let failed = "Cache keys, archive lines or events could not be sent for a quarter of an hour";
    let refused = "CloudFront refuses paths, which stay stale";
    let undelivered = "The delivery stream does not deliver to the bucket";
    let delivery =
        AlarmRule::any("archive-delivery", "AWS/Firehose", "DeliveryToS3.DataFreshness", undelivered);
    let mut rules = vec![
        of_own(shape, "relay-failed", "RelayFailed", shape.relaying(), failed).lasting(3, 3, 300),
        of_own(shape, "paths-refused", "PathsRefused", INVALIDATOR.name, refused)
            .only(drain_condition(shape)),
        of_queue("cdn-backlog", OLDEST_MESSAGE, "cdn", "Stale paths or events wait in the queue")
            .maximum_above(900)
            .lasting(2, 2, 300)
            .only(drain_condition(shape)),
        delivery
            .of("DeliveryStreamName", named("archive"))
            .maximum_above(2 * BUFFERING_SECONDS + 300)
            .lasting(2, 2, 300),
    ];
    if !shape.model.events.is_empty() {
        let unpublished = "Events could not be published for a quarter of an hour";
        let failed = of_own(shape, "events-failed", "EventsFailed", shape.relaying(), unpublished);
        rules.push(failed.lasting(3, 3, 300));
    }
    rules
}

fn exporting_rules(shape: &DeployedShape<'_>) -> Vec<AlarmRule> {
    vec![
        of_own(shape, "rejected-lines", "RejectedLines", EXPORTER.name, "Archived lines cannot be exported"),
        of_queue("exporter-backlog", OLDEST_MESSAGE, "export", "Archived objects wait for the exporter")
            .maximum_above(3600)
            .lasting(2, 2, 300),
    ]
}

fn dead_letter_rules(shape: &DeployedShape<'_>) -> Vec<AlarmRule> {
    let visible = "ApproximateNumberOfMessagesVisible";
    let rule = |(name, condition): (&'static str, Option<Condition>)| {
        let given_up = format!("Messages of {name} were given up");
        of_queue("dead-letters", visible, &format!("{name}-dead-letters"), &given_up)
            .named(name)
            .maximum_above(0)
            .only(condition)
    };
    queues::dead_letters(shape).into_iter().map(rule).collect()
}

/// The stages that a heartbeat passes.
pub(super) fn heartbeat_stages(shape: &DeployedShape<'_>) -> Vec<&'static str> {
    match (shape.has_aggregate(), shape.has_datasets()) {
        (false, _) => Vec::new(),
        (true, false) => vec!["counted", "archived"],
        (true, true) => vec!["counted", "archived", "exported", "queryable"],
    }
}

/// A stage that reports nothing is dead. Exports follow the delivery stream's buffering, compactions their schedule.
fn freshness_rules(shape: &DeployedShape<'_>) -> Vec<AlarmRule> {
    let rule = |stage: &'static str| {
        let (threshold, periods, period) = match stage {
            "exported" => (2700, 3, 900),
            "queryable" => (10_800, 3, 3600),
            _ => (300, 2, 300),
        };
        let old = format!("The newest heartbeat that is {stage} is old, or there is none");
        let rule = AlarmRule::any("freshness", OWN, "FreshnessSeconds", &old)
            .named(stage)
            .of("service", reference("Name"))
            .of("Model", json!(&*shape.model.name))
            .of("stage", json!(stage))
            .maximum_above(threshold)
            .lasting(periods, periods, period);
        AlarmRule { is_missing_breaching: true, ..rule }
    };
    heartbeat_stages(shape).into_iter().map(rule).collect()
}
