//! The queues of objects to export and of stale paths, and the dead-letter queues of queues and schedules.

use serde_json::{Map, Value, json};

use super::conditions::Condition;
use super::events::drain_condition;
use super::functions::{EXPORTER, INVALIDATOR};
use super::intrinsics::{attribute, either, key_if_given, reference, resource, substituted, when};
use super::storage::BUCKET;
use super::{DeployedShape, schedules};

/// The name of the queue of invocations that the schedules could not deliver.
const SCHEDULES: &str = "schedules";
const FOUR_DAYS: u32 = 345_600;
const TWO_WEEKS: u32 = 1_209_600;

/// A queue whose messages are given up after some receptions.
struct WorkQueue {
    id: &'static str,
    name: &'static str,
    dead_letters: &'static str,
    visibility: u32,
    receives: u32,
    retention: u32,
    condition: Option<Condition>,
}

const EXPORT: WorkQueue = WorkQueue {
    id: "ExportQueue",
    name: "export",
    dead_letters: "ExportDeadLetters",
    visibility: 6 * EXPORTER.timeout,
    receives: 10,
    retention: TWO_WEEKS,
    condition: EXPORTER.condition,
};
/// While CloudFront or a target of events is busy, a message is received about every 90 s, for a day at most.
const CDN: WorkQueue = WorkQueue {
    id: "CdnQueue",
    name: "cdn",
    dead_letters: "CdnDeadLetters",
    // More than the function's timeout: a message that the function returned reappears after it.
    visibility: INVALIDATOR.timeout + 30,
    receives: 1000,
    retention: FOUR_DAYS,
    condition: INVALIDATOR.condition,
};

/// A queue's name, and the condition under which it exists.
pub(super) type NamedQueue = (&'static str, Option<Condition>);

fn work_queues(shape: &DeployedShape<'_>) -> Vec<WorkQueue> {
    let cdn = WorkQueue { condition: drain_condition(shape), ..CDN };
    if shape.has_datasets() { vec![cdn, EXPORT] } else { vec![cdn] }
}

pub(super) fn work(shape: &DeployedShape<'_>) -> Vec<NamedQueue> {
    work_queues(shape).into_iter().map(|queue| (queue.name, queue.condition)).collect()
}

/// The names that have a dead-letter queue: `<name>-dead-letters`.
pub(super) fn dead_letters(shape: &DeployedShape<'_>) -> Vec<NamedQueue> {
    let mut names = work(shape);
    if !schedules::schedules(shape).is_empty() {
        names.push((SCHEDULES, None));
    }
    names
}

/// The URLs of the queues by their names, and the condition under which each exists.
pub(super) fn urls(shape: &DeployedShape<'_>) -> Vec<(String, Value, Option<Condition>)> {
    let queues = work_queues(shape).into_iter();
    queues.map(|queue| (queue.name.to_owned(), reference(queue.id), queue.condition)).collect()
}

/// The URLs of the dead-letter queues, as [`urls`].
pub(super) fn dead_letter_urls(shape: &DeployedShape<'_>) -> Vec<(String, Value, Option<Condition>)> {
    let queues = work_queues(shape).into_iter();
    let mut urls: Vec<_> =
        queues.map(|queue| (queue.name.to_owned(), reference(queue.dead_letters), queue.condition)).collect();
    if !schedules::schedules(shape).is_empty() {
        urls.push((SCHEDULES.to_owned(), reference("ScheduleDeadLetters"), None));
    }
    urls
}

pub(super) fn resources(shape: &DeployedShape<'_>) -> Map<String, Value> {
    let mut resources = Map::new();
    for queue in work_queues(shape) {
        let statements = if queue.name == EXPORT.name { vec![notifications()] } else { Vec::new() };
        add_work(&mut resources, &queue, statements);
    }
    if !schedules::schedules(shape).is_empty() {
        add_dead_letters(&mut resources, "ScheduleDeadLetters", SCHEDULES, None);
    }
    resources
}

fn add_work(resources: &mut Map<String, Value>, queue: &WorkQueue, statements: Vec<Value>) {
    let redrive = json!({
        "deadLetterTargetArn": attribute(queue.dead_letters, "Arn"), "maxReceiveCount": queue.receives,
    });
    let mut properties = encrypted(queue.name, queue.retention);
    properties.insert("VisibilityTimeout".to_owned(), json!(queue.visibility));
    properties.insert("RedrivePolicy".to_owned(), redrive);
    add_queue(resources, queue.id, properties, statements, queue.condition);
    add_dead_letters(resources, queue.dead_letters, queue.name, queue.condition);
}

fn add_dead_letters(resources: &mut Map<String, Value>, id: &str, of: &str, condition: Option<Condition>) {
    let properties = encrypted(&format!("{of}-dead-letters"), TWO_WEEKS);
    add_queue(resources, id, properties, Vec::new(), condition);
}

fn add_queue(
    resources: &mut Map<String, Value>,
    id: &str,
    properties: Map<String, Value>,
    statements: Vec<Value>,
    condition: Option<Condition>,
) {
    resources.insert(id.to_owned(), resource("AWS::SQS::Queue", properties.into(), condition));
    resources.insert(format!("{id}Policy"), policy(id, statements, condition));
}

/// The properties that all queues share.
fn encrypted(name: &str, retention: u32) -> Map<String, Value> {
    Map::from_iter([
        ("QueueName".to_owned(), substituted(format!("${{Name}}-{name}"))),
        ("MessageRetentionPeriod".to_owned(), json!(retention)),
        ("KmsMasterKeyId".to_owned(), key_if_given()),
        ("KmsDataKeyReusePeriodSeconds".to_owned(), when(Condition::HasKey, 3600)),
        ("SqsManagedSseEnabled".to_owned(), either(Condition::HasKey, reference("AWS::NoValue"), true)),
    ])
}

/// A queue that is only used over TLS.
fn policy(queue: &str, mut statements: Vec<Value>, condition: Option<Condition>) -> Value {
    statements.push(json!({
        "Sid": "TlsOnly", "Effect": "Deny", "Principal": "*", "Action": "sqs:*",
        "Resource": attribute(queue, "Arn"),
        "Condition": { "Bool": { "aws:SecureTransport": "false" } },
    }));
    let properties = json!({
        "Queues": [reference(queue)],
        "PolicyDocument": { "Version": "2012-10-17", "Statement": statements },
    });
    resource("AWS::SQS::QueuePolicy", properties, condition)
}

/// The bucket may send. It is named by its name: it is created after this policy.
fn notifications() -> Value {
    json!({
        "Sid": "Notifications", "Effect": "Allow", "Principal": { "Service": "s3.amazonaws.com" },
        "Action": "sqs:SendMessage", "Resource": attribute("ExportQueue", "Arn"),
        "Condition": {
            "ArnEquals": { "aws:SourceArn": substituted(format!("arn:${{AWS::Partition}}:s3:::{BUCKET}")) },
            "StringEquals": { "aws:SourceAccount": reference("AWS::AccountId") },
        },
    })
}
