//! Items as the AWS SDK has them: making them, and reading what they hold.

use std::collections::HashMap;
use std::fmt;

use aws_sdk_dynamodb::types::AttributeValue;

use super::exact::Exact;
use afterwrite_local::dynamodb::TableDefinition;

/// An item as the AWS SDK has it.
pub type Item = HashMap<String, AttributeValue>;

/// An item and the table it is in.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// The table's name.
    pub table: String,
    /// The item.
    pub item: Item,
}

/// A value as it is compared and shown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// A number.
    Number(Exact),
    /// A text, or anything that is no number which [`Exact`] can hold.
    Text(String),
}

impl Value {
    /// What stands in an attribute.
    #[must_use]
    pub fn of(attribute: &AttributeValue) -> Self {
        match (attribute.as_n(), attribute.as_s()) {
            (Ok(digits), _) => Exact::parse(digits).map_or_else(|| Self::Text(digits.clone()), Self::Number),
            (_, Ok(text)) => Self::Text(text.clone()),
            _ => Self::Text(format!("{attribute:?}")),
        }
    }

    /// The number; nought if it is none.
    #[must_use]
    pub fn number(&self) -> Exact {
        match self {
            Self::Number(number) => *number,
            Self::Text(_) => Exact::ZERO,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// A text attribute.
#[must_use]
pub fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

/// A whole number's attribute.
#[must_use]
pub fn whole(value: i64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// A number's attribute.
#[must_use]
pub fn number(value: Exact) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// A map's attribute.
#[must_use]
pub fn map<const N: usize>(attributes: [(&str, AttributeValue); N]) -> AttributeValue {
    AttributeValue::M(item(attributes))
}

/// A list of texts as an attribute.
#[must_use]
pub fn texts<T: Into<String>>(values: impl IntoIterator<Item = T>) -> AttributeValue {
    AttributeValue::L(values.into_iter().map(text).collect())
}

/// An item of these attributes.
#[must_use]
pub fn item<const N: usize>(attributes: [(&str, AttributeValue); N]) -> Item {
    attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The text of an attribute; empty if there is none.
#[must_use]
pub fn text_of<'i>(item: &'i Item, name: &str) -> &'i str {
    match item.get(name) {
        Some(AttributeValue::S(text)) => text,
        _ => "",
    }
}

/// The number of an attribute, if it is one.
#[must_use]
pub fn number_of(item: &Item, name: &str) -> Option<Exact> {
    match item.get(name) {
        Some(AttributeValue::N(digits)) => Exact::parse(digits),
        _ => None,
    }
}

/// The whole number of an attribute, if it is one.
#[must_use]
pub fn whole_of(item: &Item, name: &str) -> Option<i64> {
    match item.get(name) {
        Some(AttributeValue::N(digits)) => digits.parse().ok(),
        _ => None,
    }
}

/// What stands at a path of an item, names within maps joined by dots.
#[must_use]
pub fn at<'i>(item: &'i Item, path: &str) -> Option<&'i AttributeValue> {
    let mut names = path.split('.');
    let mut found = item.get(names.next()?)?;
    for name in names {
        found = found.as_m().ok()?.get(name)?;
    }
    Some(found)
}

/// The attributes of an item that are its table's key.
#[must_use]
pub fn key_of(item: &Item, table: &TableDefinition) -> Item {
    let names = std::iter::once(&table.key.partition).chain(&table.key.sort);
    names.filter_map(|name| Some((name.clone(), item.get(name)?.clone()))).collect()
}
