//! Plain JSON as attribute values and as DynamoDB's JSON.

use afterwrite_model::record::{self, AttributeValue, Item};
use serde_json::Value;

/// A JSON object → an item.
pub(crate) fn attributes(item: &Value) -> Item {
    let item = item.as_object().expect("an item");
    item.iter().map(|(name, value)| (name.clone().into(), plain_value(value))).collect()
}

/// Plain JSON → an attribute value.
pub(crate) fn plain_value(value: &Value) -> AttributeValue<'static> {
    match value {
        Value::Null => AttributeValue::Null,
        Value::Bool(flag) => AttributeValue::Bool(*flag),
        Value::Number(number) => AttributeValue::N(number.to_string().parse().expect("a number")),
        Value::String(text) => AttributeValue::text(text),
        Value::Array(elements) => AttributeValue::L(elements.iter().map(plain_value).collect()),
        Value::Object(_) => AttributeValue::M(attributes(value)),
    }
}

/// Plain JSON → DynamoDB's JSON.
pub(crate) fn dynamodb_json(value: &Value) -> Value {
    serde_json::from_str(&record::dynamodb_json(&plain_value(value))).expect("JSON")
}
