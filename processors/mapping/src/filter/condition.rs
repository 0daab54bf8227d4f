//! The conditions of a filter on one value.

use afterwrite_model::{Error, ErrorKind, Result};
use serde_json::Value;

/// A condition on a leaf: a text, a number, a boolean or null.
#[derive(Clone, Debug)]
pub(super) enum LeafCondition {
    /// The value itself; `""` is the empty text.
    Equals(Value),
    EqualsIgnoreCase(String),
    Prefix(String),
    Suffix(String),
    /// `anything-but`: none of these values.
    AnythingBut(Vec<Value>),
    AnythingButPrefix(String),
    /// Whether a leaf is there. An object is not a leaf.
    Exists(bool),
}

impl LeafCondition {
    pub(super) fn read(field: &str, condition: &Value) -> Result<Self> {
        match condition {
            Value::Object(operator) => {
                let mut entries = operator.iter();
                match (entries.next(), entries.next()) {
                    (Some((name, operand)), None) => Self::read_operator(field, name, operand),
                    _ => Err(invalid(format!("a condition of `{field}` must have exactly one operator"))),
                }
            }
            Value::Array(_) => Err(invalid(format!("a condition of `{field}` must not be a list"))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                Ok(Self::Equals(condition.clone()))
            }
        }
    }

    fn read_operator(field: &str, name: &str, operand: &Value) -> Result<Self> {
        let wrong = |expected: &str| invalid(format!("`{name}` of `{field}` needs {expected}"));
        let text = || operand.as_str().map(str::to_owned).ok_or_else(|| wrong("a text"));
        match name {
            "prefix" => text().map(Self::Prefix),
            "suffix" => text().map(Self::Suffix),
            "equals-ignore-case" => text().map(Self::EqualsIgnoreCase),
            "exists" => operand.as_bool().map(Self::Exists).ok_or_else(|| wrong("true or false")),
            "anything-but" => match operand {
                Value::Array(values) if values.iter().all(is_text_or_number) => {
                    Ok(Self::AnythingBut(values.clone()))
                }
                Value::Object(inner) if inner.len() == 1 => {
                    let prefix = inner.get("prefix").and_then(Value::as_str);
                    let prefix = prefix.ok_or_else(|| wrong("a list, or {\"prefix\": \"text\"}"))?;
                    Ok(Self::AnythingButPrefix(prefix.to_owned()))
                }
                value if is_text_or_number(value) => Ok(Self::AnythingBut(vec![value.clone()])),
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::String(_)
                | Value::Array(_)
                | Value::Object(_) => Err(wrong("a list of texts or numbers, or {\"prefix\": \"text\"}")),
            },
            "numeric" => Err(invalid(format!("`numeric` of `{field}` never matches a record of DynamoDB"))
                .hint("A stream has numbers as texts: compare in the function, or in the table model")),
            _ => Err(invalid(format!("`{name}` of `{field}` is not an operator of filters")).hint(
                "Operators: prefix, suffix, equals-ignore-case, anything-but, exists; or the value itself",
            )),
        }
    }

    /// Whether a field with this value matches; `None` if the record does not have the field.
    pub(super) fn matches(&self, value: Option<&Value>) -> bool {
        match (self, value) {
            (Self::Exists(expected), value) => value.is_some_and(is_leaf) == *expected,
            (_, Some(Value::Array(elements))) => elements.iter().any(|element| self.matches_leaf(element)),
            (_, Some(value)) => is_leaf(value) && self.matches_leaf(value),
            (_, None) => false,
        }
    }

    fn matches_leaf(&self, value: &Value) -> bool {
        let text = value.as_str();
        match self {
            Self::Equals(expected) => value == expected,
            Self::EqualsIgnoreCase(expected) => {
                text.is_some_and(|text| text.to_lowercase() == expected.to_lowercase())
            }
            Self::Prefix(prefix) => text.is_some_and(|text| text.starts_with(prefix.as_str())),
            Self::Suffix(suffix) => text.is_some_and(|text| text.ends_with(suffix.as_str())),
            Self::AnythingBut(values) => is_text_or_number(value) && !values.contains(value),
            Self::AnythingButPrefix(prefix) => text.is_some_and(|text| !text.starts_with(prefix.as_str())),
            Self::Exists(expected) => *expected,
        }
    }
}

/// Whether a value is a leaf, or a list with a leaf.
fn is_leaf(value: &Value) -> bool {
    match value {
        Value::Object(_) => false,
        Value::Array(elements) => elements.iter().any(is_leaf),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

fn is_text_or_number(value: &Value) -> bool {
    value.is_string() || value.is_number()
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Configuration, message)
}
