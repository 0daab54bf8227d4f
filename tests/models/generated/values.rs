//! Conversions between the AWS SDK's values, the product's and DynamoDB's JSON, for the types that workloads write.

use std::collections::BTreeMap;

use afterwrite_demo::item::SdkItem;
use afterwrite_model::record::{AttributeValue, Item};
use aws_sdk_dynamodb::types::AttributeValue as Sdk;
use serde_json::{Map, Value, json};

pub(super) fn item_of(item: &SdkItem) -> Item {
    item.iter().map(|(name, value)| (name.clone().into(), value_of(value))).collect()
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the SDK keeps the variant for unknown types private")]
fn value_of(value: &Sdk) -> AttributeValue<'static> {
    match value {
        Sdk::S(text) => AttributeValue::text(text),
        Sdk::N(digits) => AttributeValue::N(digits.parse().expect("a number")),
        Sdk::Bool(flag) => AttributeValue::Bool(*flag),
        Sdk::Null(_) => AttributeValue::Null,
        Sdk::Ss(texts) => AttributeValue::Ss(texts.iter().map(|text| text.clone().into()).collect()),
        Sdk::L(list) => AttributeValue::L(list.iter().map(value_of).collect()),
        Sdk::M(map) => {
            let map = map.iter().map(|(name, value)| (name.clone().into(), value_of(value)));
            AttributeValue::M(map.collect::<BTreeMap<_, _>>())
        }
        other => panic!("workloads write no {other:?}"),
    }
}

pub(super) fn sdk_item_of(item: &Item) -> SdkItem {
    item.iter().map(|(name, value)| (name.to_string(), sdk_value_of(value))).collect()
}

fn sdk_value_of(value: &AttributeValue<'_>) -> Sdk {
    match value {
        AttributeValue::S(text) => Sdk::S(text.to_string()),
        AttributeValue::N(number) => Sdk::N(number.to_string()),
        AttributeValue::Bool(flag) => Sdk::Bool(*flag),
        AttributeValue::Null => Sdk::Null(true),
        AttributeValue::Ss(texts) => Sdk::Ss(texts.iter().map(ToString::to_string).collect()),
        AttributeValue::L(list) => Sdk::L(list.iter().map(sdk_value_of).collect()),
        AttributeValue::M(map) => {
            Sdk::M(map.iter().map(|(name, value)| (name.to_string(), sdk_value_of(value))).collect())
        }
        other @ (AttributeValue::B(_) | AttributeValue::Ns(_) | AttributeValue::Bs(_)) => {
            panic!("workloads write no {}", other.type_name())
        }
    }
}

/// Attributes as a stream record has them.
pub(super) fn json_of<'i>(attributes: impl IntoIterator<Item = (&'i str, &'i AttributeValue<'i>)>) -> Value {
    let named = attributes.into_iter().map(|(name, value)| (name.to_owned(), value_json(value)));
    Value::Object(named.collect::<Map<_, _>>())
}

fn value_json(value: &AttributeValue<'_>) -> Value {
    match value {
        AttributeValue::S(text) => json!({ "S": text }),
        AttributeValue::N(number) => json!({ "N": number.to_string() }),
        AttributeValue::Bool(flag) => json!({ "BOOL": flag }),
        AttributeValue::Null => json!({ "NULL": true }),
        AttributeValue::Ss(texts) => json!({ "SS": texts }),
        AttributeValue::L(list) => json!({ "L": list.iter().map(value_json).collect::<Vec<_>>() }),
        AttributeValue::M(map) => json!({ "M": json_of(map.iter().map(|(name, value)| (&**name, value))) }),
        other @ (AttributeValue::B(_) | AttributeValue::Ns(_) | AttributeValue::Bs(_)) => {
            panic!("workloads write no {}", other.type_name())
        }
    }
}
