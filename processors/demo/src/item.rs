//! Items as the AWS SDK has them: building them, and reading their attributes.

use std::collections::HashMap;
use std::fmt;

use aws_sdk_dynamodb::types::AttributeValue;
use serde::{Serialize, Serializer};

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

/// A text attribute.
#[must_use]
pub fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

/// A number attribute.
#[must_use]
pub fn number(value: impl fmt::Display) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// A number attribute: 1 for true, 0 for false.
#[must_use]
pub fn flag(value: bool) -> AttributeValue {
    number(i64::from(value))
}

/// A map attribute.
#[must_use]
pub fn map<const N: usize>(attributes: [(&str, AttributeValue); N]) -> AttributeValue {
    AttributeValue::M(item(attributes))
}

/// A list of texts.
#[must_use]
pub fn texts<T: Into<String>>(values: impl IntoIterator<Item = T>) -> AttributeValue {
    AttributeValue::L(values.into_iter().map(text).collect())
}

/// An item of these attributes.
#[must_use]
pub fn item<const N: usize>(attributes: [(&str, AttributeValue); N]) -> SdkItem {
    with(SdkItem::new(), attributes)
}

/// An item with more attributes.
#[must_use]
pub fn with<const N: usize>(mut item: SdkItem, attributes: [(&str, AttributeValue); N]) -> SdkItem {
    item.extend(attributes.map(|(name, value)| (name.to_owned(), value)));
    item
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
