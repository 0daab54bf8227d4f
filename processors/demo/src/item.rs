//! Items as the AWS SDK has them: building them, and reading their attributes.

use std::collections::HashMap;
use std::fmt;

use aws_sdk_dynamodb::types::AttributeValue;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::exact::ExactNumber;

/// An item of the AWS SDK.
pub type SdkItem = HashMap<String, AttributeValue>;

/// An item and its table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableItem {
    /// The table's name.
    pub table: String,
    /// The item.
    pub item: SdkItem,
}

/// The value of an attribute, to compare and to show.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ItemValue {
    /// A number.
    Number(ExactNumber),
    /// A text, or any other value as Rust writes it.
    Text(String),
}

impl ItemValue {
    /// The value of an attribute.
    #[must_use]
    pub fn of(attribute: &AttributeValue) -> Self {
        match (attribute.as_n().map(|digits| ExactNumber::parse(digits)), attribute.as_s()) {
            (Ok(Some(number)), _) => Self::Number(number),
            (_, Ok(text)) => Self::Text(text.clone()),
            _ => Self::Text(format!("{attribute:?}")),
        }
    }

    /// The number; zero for a text.
    #[must_use]
    pub fn number(&self) -> ExactNumber {
        match self {
            Self::Number(number) => number.clone(),
            Self::Text(_) => ExactNumber::ZERO,
        }
    }
}

impl fmt::Display for ItemValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl Serialize for ItemValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// An item of a JSON object: texts, numbers, booleans, nulls, lists and maps are attributes of the same type. A number that JSON
/// cannot hold exactly is written as by [`exact`], a set of texts as `{"SS": ["a", "b"]}`.
#[must_use]
pub fn item(attributes: Value) -> SdkItem {
    with(SdkItem::new(), attributes)
}

/// An item with the additional attributes of a JSON object.
#[must_use]
pub fn with(mut item: SdkItem, attributes: Value) -> SdkItem {
    if let Value::Object(attributes) = attributes {
        item.extend(attributes.into_iter().map(|(name, value)| (name, attribute(value))));
    }
    item
}

/// A number in an item's JSON, as DynamoDB writes it: `{"N": "0.10"}`.
#[must_use]
pub fn exact(number: &ExactNumber) -> Value {
    json!({ "N": number.to_string() })
}

/// The attribute of a JSON value.
#[must_use]
pub fn attribute(value: Value) -> AttributeValue {
    match value {
        Value::Null => AttributeValue::Null(true),
        Value::Bool(value) => AttributeValue::Bool(value),
        Value::Number(number) => AttributeValue::N(number.to_string()),
        Value::String(text) => AttributeValue::S(text),
        Value::Array(values) => AttributeValue::L(values.into_iter().map(attribute).collect()),
        Value::Object(members) => match (members.get("N"), members.get("SS")) {
            (Some(Value::String(digits)), _) => AttributeValue::N(digits.clone()),
            (_, Some(Value::Array(texts))) => {
                AttributeValue::Ss(texts.iter().filter_map(owned_text).collect())
            }
            _ => AttributeValue::M(item(Value::Object(members))),
        },
    }
}

fn owned_text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// The texts of a set; none if the attribute is absent or not a set of texts.
#[must_use]
pub fn texts_of<'i>(item: &'i SdkItem, name: &str) -> &'i [String] {
    item.get(name).and_then(|value| value.as_ss().ok()).map_or(&[], Vec::as_slice)
}

/// The text of an attribute; empty if the attribute is absent or not a text.
#[must_use]
pub fn text_of<'i>(item: &'i SdkItem, name: &str) -> &'i str {
    item.get(name).and_then(|value| value.as_s().ok()).map_or("", String::as_str)
}

/// The number of an attribute, if it is a number.
#[must_use]
pub fn number_of(item: &SdkItem, name: &str) -> Option<ExactNumber> {
    ExactNumber::parse(item.get(name)?.as_n().ok()?)
}

/// The integer of an attribute, if it is an integer.
#[must_use]
pub fn integer_of(item: &SdkItem, name: &str) -> Option<i64> {
    item.get(name)?.as_n().ok()?.parse().ok()
}

/// The value at a path of an item, names within maps joined by dots.
#[must_use]
pub fn value_at<'i>(item: &'i SdkItem, path: &str) -> Option<&'i AttributeValue> {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let mut names = rest.split('.').filter(|name| !name.is_empty());
    names.try_fold(item.get(first)?, |value, name| value.as_m().ok()?.get(name))
}
