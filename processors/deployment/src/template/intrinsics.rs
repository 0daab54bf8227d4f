//! The functions of CloudFormation, and resources with what happens to them when the stack is deleted.

use serde_json::{Map, Value, json};

use super::conditions::Condition;

pub(super) fn reference(id: &str) -> Value {
    json!({ "Ref": id })
}

pub(super) fn attribute(id: &str, name: &str) -> Value {
    json!({ "Fn::GetAtt": [id, name] })
}

pub(super) fn substituted(text: impl Into<String>) -> Value {
    json!({ "Fn::Sub": text.into() })
}

pub(super) fn either(condition: Condition, value: impl Into<Value>, otherwise: impl Into<Value>) -> Value {
    json!({ "Fn::If": [condition.name(), value.into(), otherwise.into()] })
}

/// A value that is absent unless the condition holds.
pub(super) fn when(condition: Condition, value: impl Into<Value>) -> Value {
    either(condition, value, reference("AWS::NoValue"))
}

/// The key that encrypts everything, if there is one.
pub(super) fn key_if_given() -> Value {
    when(Condition::HasKey, reference("KmsKeyArn"))
}

/// A resource that exists if the condition holds, if it has one.
pub(super) fn resource(kind: &str, properties: Value, condition: Option<Condition>) -> Value {
    let mut resource = Map::from_iter([("Type".to_owned(), json!(kind))]);
    if let Some(condition) = condition {
        resource.insert("Condition".to_owned(), json!(condition.name()));
    }
    if let Some(policy) = deletion_policy(kind) {
        resource.insert("DeletionPolicy".to_owned(), json!(policy));
        resource.insert("UpdateReplacePolicy".to_owned(), json!(policy));
    }
    resource.insert("Properties".to_owned(), properties);
    Value::Object(resource)
}

/// Data stays when the stack is deleted. Queues and logs are not data.
fn deletion_policy(kind: &str) -> Option<&'static str> {
    match kind {
        "AWS::DynamoDB::Table" | "AWS::S3::Bucket" => Some("Retain"),
        "AWS::SQS::Queue" | "AWS::Logs::LogGroup" => Some("Delete"),
        _ => None,
    }
}
