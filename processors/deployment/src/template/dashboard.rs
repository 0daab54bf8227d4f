//! One dashboard: the state of all alarms, the streams, the functions, and what each function counts.

use serde_json::{Map, Value, json};

use super::DeployedShape;
use super::alarms::{self, AlarmRule, OWN};
use super::conditions::Condition;
use super::functions::{AGGREGATOR, COMPACTOR, EXPORTER, INVALIDATOR, VERIFIER};
use super::intrinsics::{either, reference, resource, substituted};
use super::mappings::{MappedStream, mapped_streams, stream_mapping_id};
use super::queues::{self, NamedQueue};

/// A diagram of metrics.
struct Panel {
    title: &'static str,
    statistic: &'static str,
    metrics: Vec<Value>,
}

pub(super) fn resources(shape: &DeployedShape<'_>) -> Map<String, Value> {
    if shape.is_minimal() {
        return Map::new();
    }
    let body = |view: DashboardView| substituted(view.body(shape).to_string());
    let properties = json!({
        "DashboardName": reference("Name"),
        "DashboardBody": either(
            Condition::HasDistribution, body(DashboardView::WithDistribution), body(DashboardView::WithoutDistribution),
        ),
    });
    let dashboard = resource("AWS::CloudWatch::Dashboard", properties, None);
    Map::from_iter([("Dashboard".to_owned(), dashboard)])
}

/// A dashboard is one text, so there is one for deployments with CloudFront, and one for those without.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DashboardView {
    WithDistribution,
    WithoutDistribution,
}

impl DashboardView {
    fn shows(self, condition: Option<Condition>) -> bool {
        self == Self::WithDistribution || condition != Some(Condition::HasDistribution)
    }

    fn body(self, shape: &DeployedShape<'_>) -> Value {
        let rules = alarms::rules(shape);
        let shown = rules.iter().filter(|rule| self.shows(rule.condition));
        let arns: Vec<String> = shown.map(|rule: &AlarmRule| format!("${{{}.Arn}}", rule.id())).collect();
        let model = shape.model;
        let title = format!("Alarms of ${{Name}}, model {}, generation {}", model.name, model.generation);
        let state = json!({
            "type": "alarm", "width": 24, "height": 4, "properties": { "title": title, "alarms": arns },
        });
        let mut panels = self.service_panels(shape);
        panels.extend(self.own_panels(shape));
        let shown = panels.iter().filter(|panel| !panel.metrics.is_empty());
        let widgets: Vec<Value> = std::iter::once(state).chain(shown.map(Panel::widget)).collect();
        json!({ "widgets": widgets })
    }

    /// Metrics that the services count.
    fn service_panels(self, shape: &DeployedShape<'_>) -> Vec<Panel> {
        let deployed = shape.deployed();
        let shown = deployed.iter().filter(|function| self.shows(function.condition));
        let functions: Vec<&str> = shown.map(|function| function.name).collect();
        let of_functions =
            |metric| functions.iter().map(|function| of_lambda(metric, function)).collect::<Vec<_>>();
        let readers = shape.readers();
        let ages = readers.iter().map(|reader| of_lambda("IteratorAge", reader)).collect();
        let stages = alarms::heartbeat_stages(shape);
        let heartbeats = stages.into_iter().map(|stage| {
            json!([
                OWN,
                "FreshnessSeconds",
                "service",
                "${Name}",
                "Model",
                &*shape.model.name,
                "stage",
                stage
            ])
        });
        vec![
            Panel { title: "Iterator age (ms)", statistic: "Maximum", metrics: ages },
            Panel {
                title: "Age of the newest heartbeat, by stage (s)",
                statistic: "Maximum",
                metrics: heartbeats.collect(),
            },
            Panel { title: "Errors", statistic: "Sum", metrics: of_functions("Errors") },
            Panel { title: "Throttles", statistic: "Sum", metrics: of_functions("Throttles") },
            Panel { title: "Longest run (ms)", statistic: "Maximum", metrics: of_functions("Duration") },
            Panel { title: "Failed and dropped records", statistic: "Sum", metrics: given_up_records(shape) },
            Panel {
                title: "Age of the oldest message (s)",
                statistic: "Maximum",
                metrics: self.of_queues("ApproximateAgeOfOldestMessage", "", queues::work(shape)),
            },
            Panel {
                title: "Dead letters",
                statistic: "Maximum",
                metrics: self.of_queues(
                    "ApproximateNumberOfMessagesVisible",
                    "-dead-letters",
                    queues::dead_letters(shape),
                ),
            },
        ]
    }

    fn of_queues(self, metric: &str, suffix: &str, queues: Vec<NamedQueue>) -> Vec<Value> {
        let shown = queues.into_iter().filter(|(_, condition)| self.shows(*condition));
        shown
            .map(|(name, _)| json!(["AWS/SQS", metric, "QueueName", format!("${{Name}}-{name}{suffix}")]))
            .collect()
    }

    /// Metrics that the functions count themselves.
    fn own_panels(self, shape: &DeployedShape<'_>) -> Vec<Panel> {
        let mut panels = Vec::new();
        let mut add = |function: &str, measured: &[OwnPanel]| {
            panels.extend(measured.iter().map(|panel| panel.of(shape, function)));
        };
        if shape.has_aggregate() {
            add(AGGREGATOR.name, &COUNTING);
        }
        add(shape.relaying(), &RELAYING);
        if !shape.model.events.is_empty() {
            add(shape.relaying(), &NOTIFYING);
        }
        if self.shows(INVALIDATOR.condition) {
            add(INVALIDATOR.name, &INVALIDATING);
        }
        if shape.has_datasets() {
            add(EXPORTER.name, &EXPORTING);
            add(COMPACTOR.name, &COMPACTING);
        }
        if shape.has_aggregate() {
            add(VERIFIER.name, &VERIFYING);
        }
        panels
    }
}

/// A diagram of metrics that one function counts.
struct OwnPanel {
    title: &'static str,
    statistic: &'static str,
    metrics: &'static [&'static str],
}

const NOTIFYING: [OwnPanel; 1] = [OwnPanel {
    title: "Events",
    statistic: "Sum",
    metrics: &["Events", "EventsQueued", "EventsFailed", "EventsDetailOmitted"],
}];

const COUNTING: [OwnPanel; 4] = [
    OwnPanel {
        title: "Records counted",
        statistic: "Sum",
        metrics: &[
            "Records",
            "Duplicates",
            "Folded",
            "Unmatched",
            "Failed",
            "Parked",
            "Skipped",
            "DroppedContributions",
        ],
    },
    OwnPanel {
        title: "Transactions",
        statistic: "Sum",
        metrics: &["Transactions", "Conflicts", "Retries", "LedgerWrites", "WriteUnits", "Reconciled"],
    },
    OwnPanel {
        title: "Mirrors and models",
        statistic: "Sum",
        metrics: &["Mirrors", "UnwritableMirrors", "OtherModels", "ExpiriesTooOld"],
    },
    OwnPanel { title: "Delay of counting (ms)", statistic: "Maximum", metrics: &["RecordAge", "Duration"] },
];
const RELAYING: [OwnPanel; 2] = [
    OwnPanel {
        title: "Caches",
        statistic: "Sum",
        metrics: &["RecordsRelayed", "RelayFailed", "KeysInvalidated", "PathsQueued"],
    },
    OwnPanel {
        title: "Archive",
        statistic: "Sum",
        metrics: &["LinesArchived", "LinesArchivedBefore", "ArchiveRetries", "DirectObjects"],
    },
];
const INVALIDATING: [OwnPanel; 1] = [OwnPanel {
    title: "CloudFront",
    statistic: "Sum",
    metrics: &["Messages", "MessagesFailed", "PathsReceived", "PathsInvalidated", "PathsRefused"],
}];
const EXPORTING: [OwnPanel; 1] = [OwnPanel {
    title: "Export",
    statistic: "Sum",
    metrics: &["Lines", "Rows", "RejectedLines", "RescuedRows", "UndatedRows", "Files"],
}];
const COMPACTING: [OwnPanel; 1] = [OwnPanel {
    title: "Compaction",
    statistic: "Sum",
    metrics: &["Partitions", "RowsRead", "RowsWritten", "PartitionsDerived", "FilesRemoved"],
}];
const VERIFYING: [OwnPanel; 1] = [OwnPanel {
    title: "Verification",
    statistic: "Sum",
    metrics: &["CheckedTargets", "DriftedTargets", "UndecidedTargets"],
}];

impl OwnPanel {
    fn of(&self, shape: &DeployedShape<'_>, function: &str) -> Panel {
        let metrics = self.metrics.iter().map(|metric| of_own(shape, metric, function)).collect();
        Panel { title: self.title, statistic: self.statistic, metrics }
    }
}

impl Panel {
    /// Without a position: CloudWatch arranges the widgets, three in a row.
    fn widget(&self) -> Value {
        json!({
            "type": "metric", "width": 8, "height": 6,
            "properties": {
                "title": self.title, "region": "${AWS::Region}", "period": 300, "stat": self.statistic,
                "metrics": self.metrics,
            },
        })
    }
}

fn of_lambda(metric: &str, function: &str) -> Value {
    json!(["AWS/Lambda", metric, "FunctionName", format!("${{Name}}-{function}")])
}

fn of_own(shape: &DeployedShape<'_>, metric: &str, function: &str) -> Value {
    json!([OWN, metric, "service", "${Name}", "Function", function, "Model", &*shape.model.name])
}

fn given_up_records(shape: &DeployedShape<'_>) -> Vec<Value> {
    let mut metrics = Vec::new();
    for (metric, word) in
        [("OnFailureDestinationDeliveredEventCount", "failed"), ("DroppedEventCount", "dropped")]
    {
        for reader in shape.readers() {
            for MappedStream { table, .. } in mapped_streams(shape, reader) {
                let mapping = format!("${{{}}}", stream_mapping_id(reader, table));
                let label = format!("{reader}/{table} {word}");
                metrics.push(
                    json!(["AWS/Lambda", metric, "EventSourceMappingUUID", mapping, { "label": label }]),
                );
            }
        }
    }
    metrics
}
