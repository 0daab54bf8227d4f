//! The queues of objects to export and of stale paths, with their dead-letter queues.

use serde_json::{Map, Value, json};

use super::storage::BUCKET;
use super::{DeployedShape, attribute, reference, substituted};

pub(super) fn resources(shape: &DeployedShape<'_>) -> Map<String, Value> {
    let mut resources = Map::new();
    let mut add = |name: &str, resource: Value| {
        resources.insert(name.to_owned(), resource);
    };
    if shape.has_datasets() {
        add("ExportDeadLetters", dead_letters("export", None));
        add("ExportQueue", queue("export", "ExportDeadLetters", 1800, 10, 1_209_600, None));
        add("ExportQueuePolicy", policy("ExportQueue", vec![notifications()], None));
    }
    let condition = Some("HasDistribution");
    add("CdnDeadLetters", dead_letters("cdn", condition));
    add("CdnQueue", queue("cdn", "CdnDeadLetters", 90, 1000, 345_600, condition));
    add("CdnQueuePolicy", policy("CdnQueue", Vec::new(), condition));
    add("ScheduleDeadLetters", dead_letters("schedules", None));
    resources
}

fn queue(
    name: &str,
    dead_letters: &str,
    visibility: u32,
    receives: u32,
    retention: u32,
    condition: Option<&str>,
) -> Value {
    let properties = json!({
        "QueueName": substituted(format!("${{Name}}-{name}")),
        "VisibilityTimeout": visibility,
        "MessageRetentionPeriod": retention,
        "SqsManagedSseEnabled": true,
        "RedrivePolicy": { "deadLetterTargetArn": attribute(dead_letters, "Arn"), "maxReceiveCount": receives },
    });
    with_condition("AWS::SQS::Queue", properties, condition)
}

fn dead_letters(name: &str, condition: Option<&str>) -> Value {
    let properties = json!({
        "QueueName": substituted(format!("${{Name}}-{name}-dead-letters")),
        "MessageRetentionPeriod": 1_209_600,
        "SqsManagedSseEnabled": true,
    });
    with_condition("AWS::SQS::Queue", properties, condition)
}

/// A queue that is only used over TLS.
fn policy(queue: &str, mut statements: Vec<Value>, condition: Option<&str>) -> Value {
    statements.push(json!({
        "Sid": "TlsOnly", "Effect": "Deny", "Principal": "*", "Action": "sqs:*",
        "Resource": attribute(queue, "Arn"),
        "Condition": { "Bool": { "aws:SecureTransport": "false" } },
    }));
    let properties = json!({
        "Queues": [reference(queue)],
        "PolicyDocument": { "Version": "2012-10-17", "Statement": statements },
    });
    with_condition("AWS::SQS::QueuePolicy", properties, condition)
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

/// A resource of a kind, with a condition if there is one.
pub(super) fn with_condition(kind: &str, properties: Value, condition: Option<&str>) -> Value {
    let mut resource = Map::from_iter([("Type".to_owned(), json!(kind))]);
    if let Some(condition) = condition {
        resource.insert("Condition".to_owned(), json!(condition));
    }
    // Queues are not data: a deleted stack leaves none.
    if kind == "AWS::SQS::Queue" {
        resource.insert("DeletionPolicy".to_owned(), json!("Delete"));
        resource.insert("UpdateReplacePolicy".to_owned(), json!("Delete"));
    }
    resource.insert("Properties".to_owned(), properties);
    Value::Object(resource)
}
