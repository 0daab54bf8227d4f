//! The faults that provoke the alarms: each is injected into a deployment in use, and the run's metrics are kept under its name.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Duration;

use afterwrite_mapping::EventHandler as _;
use afterwrite_tests::call_recorder::{CallFault, FaultRule};
use aws_sdk_dynamodb::types::AttributeValue;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::future::join_all;
use serde_json::{Value, json};

use super::alarm_rules::AlarmRule;
use super::delivery::{depth, drain_queue, forward_notifications, run_schedule, sent_event};
use super::metrics_store::MetricStore;
use super::usage::UsedDeployment;

/// The time limit of functions that a fault blocks; it stands for the deployed one.
const SHORT: Duration = Duration::from_secs(3);
const HOUR: Duration = Duration::from_secs(3_600);

/// The metrics of each fault.
pub(crate) type ProvokedFaults = BTreeMap<&'static str, MetricStore>;

/// The fault without any metric.
pub(crate) const NOTHING_REPORTS: &str = "nothing reports";
const OLD_HEARTBEAT: &str = "the newest heartbeat is older than every threshold";

/// The faults that provoke the alarms of a kind, each alone.
pub(crate) fn faults_of(kind: &str) -> Vec<&'static str> {
    match kind {
        "freshness" => vec![NOTHING_REPORTS, OLD_HEARTBEAT],
        other => vec![fault_of(other)],
    }
}

fn fault_of(kind: &str) -> &'static str {
    match kind {
        "iterator-age" => "the mapping stopped for two hours",
        "on-failure" => "the mapping stopped for seven hours",
        "delivery-failures" | "dropped" => "the bucket of failed records refuses them",
        "errors" => "payloads of another service",
        "duration" => "AWS does not respond",
        "throttles" => "no concurrency is left",
        "unmatched" | "parked" => "items that do not fit the model",
        "failed-records" | "relay-failed" => "AWS is unavailable",
        "conflicts" => "transactions conflict",
        "unwritable-mirrors" => "an item is too large for its mirror",
        "other-models" => "another model of the same generation",
        "expiries-too-old" => "an expiry of forty days ago",
        "paths-refused" => "CloudFront refuses a path",
        "cdn-backlog" | "exporter-backlog" => "messages that nothing receives",
        "rejected-lines" => "a malformed line in the archive",
        "drift" => "a rollup that was changed by hand",
        "archive-delivery" => "the delivery stream may not write",
        "dead-letters" => "messages that nothing understands",
        other => panic!("no fault provokes alarms of the kind {other}"),
    }
}

/// Injects all faults, one after the other.
pub(crate) async fn provoke(used: &mut UsedDeployment<'_>) -> ProvokedFaults {
    let mut faults = ProvokedFaults::from([(NOTHING_REPORTS, MetricStore::default())]);
    Box::pin(old_heartbeat(used, &mut faults)).await;
    Box::pin(stopped_mappings(used, &mut faults)).await;
    failed_invocations(used, &mut faults).await;
    Box::pin(uncountable_items(used, &mut faults)).await;
    refused_writes(used, &mut faults).await;
    queues(used, &mut faults).await;
    datasets(used, &mut faults).await;
    faults
}

impl UsedDeployment<'_> {
    /// The function that relays: `relay`, or `aggregator` if it is the only reader.
    fn relaying(&self) -> &'static str {
        if self.functions.contains_key("relay") { "relay" } else { "aggregator" }
    }

    pub(crate) fn fail(&self, principal: &str, action: &'static str, resource: &str, fault: CallFault) {
        let (principal, resource) = (principal.to_owned(), resource.to_owned());
        self.cloud.recorder.set_faults(vec![FaultRule { principal, action, resource, fault }]);
    }

    /// Copies an object of the archive, so that there is something to export; returns its key.
    async fn archive_again(&self, fault: CallFault) -> String {
        let archived = self.cloud.keys(&self.cloud.bucket, "archive/").await.remove(0);
        let (content, key) = (self.cloud.object(&archived).await, format!("archive/{fault:?}.gz"));
        let put = self.cloud.s3.client().put_object().bucket(&self.cloud.bucket).key(&key);
        put.body(content.into()).send().await.expect("an object");
        key
    }

    async fn put(&self, item: &[(&str, &str)]) {
        let client = self.cloud.dynamodb.client();
        let mut put = client.put_item().table_name(self.state.source_table());
        for (name, value) in item {
            put = put.item(*name, AttributeValue::S((*value).to_owned()));
        }
        put.send().await.expect("a write");
    }

    /// Writes an item, and passes its record to a function.
    pub(crate) async fn invoke_with(&self, function: &str, item: &[(&str, &str)]) {
        self.put(item).await;
        let record = self.newest_record().await;
        self.invoke(function, &json!({ "Records": [record] })).await;
    }

    /// Invokes a function; a failure is in its metrics.
    async fn invoke(&self, function: &str, event: &Value) {
        let _outcome = self.functions[function].handle(event.to_string().into_bytes(), HOUR).await;
    }
}

/// A heartbeat of hours ago passes every stage, as if nothing had written one since.
async fn old_heartbeat(used: &mut UsedDeployment<'_>, faults: &mut ProvokedFaults) {
    used.begin(OLD_HEARTBEAT, None);
    let rules = AlarmRule::all(used.state).into_iter().filter(|rule| rule.kind == "freshness");
    let thresholds: Vec<f64> = rules.map(|rule| rule.threshold()).collect();
    assert_eq!(thresholds.len(), 4, "an alarm for each stage");
    let oldest = thresholds.into_iter().fold(0.0, f64::max);
    let age = Duration::from_secs_f64(oldest) + Duration::from_secs(60);
    let age = jiff::SignedDuration::try_from(age).expect("a duration");
    let written = jiff::Timestamp::now().checked_sub(age).expect("a time").as_millisecond();
    let put = used.cloud.dynamodb.client().put_item().table_name(used.state.source_table());
    let put = ["PK", "SK"]
        .into_iter()
        .fold(put, |put, key| put.item(key, AttributeValue::S("AFTERWRITE#HEARTBEAT".to_owned())));
    let put = put.item("heartbeat_at", AttributeValue::N(written.to_string()));
    let write = async { drop(put.send().await.expect("a write")) };
    Box::pin(used.deliver_during(write)).await;
    used.drain_queues().await;
    used.run_schedule("compaction").await;
    faults.insert(OLD_HEARTBEAT, used.end().await);
}

async fn stopped_mappings(used: &mut UsedDeployment<'_>, faults: &mut ProvokedFaults) {
    for (fault, by, refuses) in [
        ("the mapping stopped for two hours", 2 * HOUR, false),
        ("the mapping stopped for seven hours", 7 * HOUR, false),
        ("the bucket of failed records refuses them", 7 * HOUR, true),
    ] {
        used.begin(fault, None);
        let deliveries = used.deliveries.iter();
        deliveries.for_each(|delivery| delivery.make_records_older(by));
        if refuses {
            let rule = |principal: &str| FaultRule {
                principal: principal.to_owned(),
                action: "s3:PutObject",
                resource: used.cloud.failures.clone(),
                fault: CallFault::Denied,
            };
            used.cloud
                .recorder
                .set_faults(used.deliveries.iter().map(|delivery| rule(delivery.reader)).collect());
        }
        let write = async {
            used.put(&[("PK", "USER#late@example.com"), ("SK", "USER#late@example.com"), ("name", fault)])
                .await;
            used.put(&[
                ("PK", "ADMIN#late"),
                ("SK", "PROJECT#late"),
                ("GSI1PK", "PROJECT#late"),
                ("GSI1SK", "PROJECT#late"),
                ("title", fault),
            ])
            .await;
        };
        Box::pin(used.deliver_during(write)).await;
        faults.insert(fault, used.end().await);
    }
}

async fn failed_invocations(used: &mut UsedDeployment<'_>, faults: &mut ProvokedFaults) {
    let names: Vec<String> = used.functions.keys().cloned().collect();
    used.begin("payloads of another service", None);
    for name in &names {
        used.invoke(name, &json!({ "Records": [{ "eventSource": "aws:kinesis", "kinesis": {} }] })).await;
    }
    faults.insert("payloads of another service", used.end().await);

    used.begin("no concurrency is left", None);
    for name in &names {
        used.functions[name].throttle(true);
        used.invoke(name, &json!({})).await;
    }
    faults.insert("no concurrency is left", used.end().await);

    for (fault, kind) in
        [("AWS does not respond", CallFault::Stalled), ("AWS is unavailable", CallFault::Unavailable)]
    {
        used.begin(fault, Some(SHORT));
        unreachable_aws(used, &names, kind).await;
        faults.insert(fault, used.end().await);
    }
}

/// Invokes all functions at once, while requests of each fail.
async fn unreachable_aws(used: &UsedDeployment<'_>, names: &[String], fault: CallFault) {
    let record = used.newest_record().await;
    let archived = used.archive_again(fault).await;
    // The exporter gives up an object that it cannot read in time, and keeps the rest of its time for commits.
    let blocked = |name: &str| if name == "exporter" { ("s3:PutObject", "_delta_log/") } else { ("", "") };
    let rule = |principal: &String| FaultRule {
        principal: principal.clone(),
        action: blocked(principal).0,
        resource: blocked(principal).1.to_owned(),
        fault,
    };
    used.cloud.recorder.set_faults(names.iter().map(rule).collect());
    let invoke = async |name: &String| {
        let event = match name.as_str() {
            "aggregator" | "relay" => json!({ "Records": [record] }),
            "exporter" => sent_event(&used.cloud, &archived),
            "invalidator" => {
                json!({ "Records": [{ "messageId": "m", "eventSource": "aws:sqs", "body": paths(&["/a"]) }] })
            }
            _ => json!({}),
        };
        used.invoke(name, &event).await;
    };
    join_all(names.iter().map(invoke)).await;
}

/// The body of a message to the invalidator.
fn paths(paths: &[&str]) -> String {
    json!({ "version": 1, "paths": paths }).to_string()
}

async fn uncountable_items(used: &mut UsedDeployment<'_>, faults: &mut ProvokedFaults) {
    used.begin("items that do not fit the model", None);
    let write = async {
        // A score that is a text, and keys without the question's id.
        let attempt = [
            ("PK", "CANDIDATE#bad"),
            ("SK", "ATTEMPT#bad"),
            ("project_id", "bad"),
            ("started_at", "2026-02-06T10:00:00Z"),
        ];
        used.put(&[
            ("PK", "ADMIN#bad"),
            ("SK", "PROJECT#bad"),
            ("GSI1PK", "PROJECT#bad"),
            ("GSI1SK", "PROJECT#bad"),
        ])
        .await;
        used.put(
            &[&attempt[..], &[("status", "COMPLETED"), ("score", "many"), ("total_questions", "x")]].concat(),
        )
        .await;
        for number in 0..20 {
            used.put(&[("PK", &format!("PROJECT#bad{number}")), ("SK", "QUESTION#")]).await;
        }
    };
    Box::pin(used.deliver_during(write)).await;
    faults.insert("items that do not fit the model", used.end().await);

    used.begin("an expiry of forty days ago", None);
    let mut record = used.newest_record().await;
    record["eventName"] = json!("REMOVE");
    record["userIdentity"] = json!({ "type": "Service", "principalId": "dynamodb.amazonaws.com" });
    let image = json!({ "PK": { "S": "PROJECT#old" }, "SK": { "S": "QUESTION#old" } });
    let change = &mut record["dynamodb"];
    change["Keys"] = image.clone();
    change["OldImage"] = image;
    change.as_object_mut().expect("a change").remove("NewImage");
    change["ApproximateCreationDateTime"] = json!(jiff::Timestamp::now().as_second() - 40 * 86_400);
    used.invoke("aggregator", &json!({ "Records": [record] })).await;
    faults.insert("an expiry of forty days ago", used.end().await);

    used.begin("another model of the same generation", None);
    used.cloud.change_model("numeric = [\">=\", 70]", "numeric = [\">=\", 71]");
    let project =
        [("PK", "ADMIN#bad"), ("SK", "PROJECT#bad"), ("GSI1PK", "PROJECT#bad"), ("GSI1SK", "PROJECT#bad")];
    used.invoke_with("aggregator", &[&project[..], &[("title", "changed")]].concat()).await;
    used.cloud.change_model("numeric = [\">=\", 71]", "numeric = [\">=\", 70]");
    faults.insert("another model of the same generation", used.end().await);
}

async fn refused_writes(used: &mut UsedDeployment<'_>, faults: &mut ProvokedFaults) {
    used.begin("transactions conflict", Some(SHORT));
    used.fail("aggregator", "dynamodb:TransactWriteItems", "", CallFault::Conflict);
    used.invoke_with("aggregator", &[("PK", "PROJECT#bad"), ("SK", "QUESTION#conflict")]).await;
    faults.insert("transactions conflict", used.end().await);

    used.begin("an item is too large for its mirror", None);
    used.fail(
        "aggregator",
        "dynamodb:UpdateItem",
        &format!("table/{}", used.state.source_table()),
        CallFault::TooLarge,
    );
    used.invoke_with("aggregator", &[("PK", "PROJECT#bad"), ("SK", "QUESTION#mirrored")]).await;
    faults.insert("an item is too large for its mirror", used.end().await);

    used.begin("the delivery stream may not write", None);
    used.fail("firehose", "s3:PutObject", "", CallFault::Denied);
    used.invoke_with(used.relaying(), &[("PK", "USER#undelivered"), ("SK", "USER#undelivered")]).await;
    used.is_undelivered = used.cloud.firehose.flush().await.is_err();
    faults.insert("the delivery stream may not write", used.end().await);
    used.is_undelivered = false;
}

async fn queues(used: &mut UsedDeployment<'_>, faults: &mut ProvokedFaults) {
    let read: Vec<&str> =
        ["exporter", "invalidator"].into_iter().filter(|name| used.functions.contains_key(*name)).collect();
    if used.functions.contains_key("invalidator") {
        used.begin("CloudFront refuses a path", None);
        used.cloud.cloudfront.refuse("/refused");
        let queue = used.state.queue_of("invalidator").expect("a queue");
        used.cloud.sqs.send(&queue.name, paths(&["/refused"]));
        drain_queue(used.state, &used.cloud, "invalidator", &used.functions["invalidator"]).await;
        faults.insert("CloudFront refuses a path", used.end().await);
    }

    used.begin("messages that nothing receives", None);
    for name in &read {
        used.cloud.sqs.send(&used.state.queue_of(name).expect("a queue").name, "a message".to_owned());
    }
    used.waited = 3 * HOUR;
    faults.insert("messages that nothing receives", used.end().await);
    used.waited = Duration::ZERO;

    used.begin("messages that nothing understands", None);
    for name in &read {
        drain_queue(used.state, &used.cloud, name, &used.functions[*name]).await;
        let queue = used.state.queue_of(name).expect("a queue");
        assert_eq!(
            (depth(&used.cloud, &queue.name).await, depth(&used.cloud, &queue.dead_letters).await),
            (0, 1)
        );
    }
    used.functions["compactor"].throttle(true);
    let run = run_schedule(used.state, &used.cloud, &used.functions, "compaction").await;
    assert!(run.is_err(), "a function without concurrency runs");
    faults.insert("messages that nothing understands", used.end().await);
}

fn gzipped(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish()).expect("bytes in memory")
}

async fn datasets(used: &mut UsedDeployment<'_>, faults: &mut ProvokedFaults) {
    used.begin("a malformed line in the archive", None);
    let put = used.cloud.s3.client().put_object().bucket(&used.cloud.bucket);
    let put =
        put.key("archive/dt=2026-02-06/hh=10/malformed.gz").body(gzipped("{\"eventName\": 7}\n").into());
    put.send().await.expect("an object");
    forward_notifications(used.state, &used.cloud).await;
    drain_queue(used.state, &used.cloud, "exporter", &used.functions["exporter"]).await;
    faults.insert("a malformed line in the archive", used.end().await);

    used.begin("a rollup that was changed by hand", None);
    let state_table = used.state.variable("aggregator", "AFTERWRITE_STATE_TABLE").expect("a state table");
    let (partition, sort) = used.any_rollup().await;
    let update = used.cloud.dynamodb.client().update_item().table_name(state_table);
    let update = update.key("PK", AttributeValue::S(partition)).key("SK", AttributeValue::S(sort));
    let update = update
        .update_expression("ADD attempts :n")
        .expression_attribute_values(":n", AttributeValue::N("5".to_owned()));
    update.send().await.expect("a change");
    // Longer than the tolerance: nothing is in flight.
    tokio::time::sleep(Duration::from_secs(2)).await;
    used.invoke(
        "verifier",
        &json!({ "verify": { "sample": 1.0, "tolerance_seconds": 1, "datasets": false } }),
    )
    .await;
    faults.insert("a rollup that was changed by hand", used.end().await);
}
