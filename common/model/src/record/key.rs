//! The primary key of an item.

use std::borrow::Cow;

use super::AttributeValue;

/// A key attribute's name and value.
pub(super) type PrimaryKeyAttribute<'a> = (Cow<'a, str>, AttributeValue<'a>);

/// An item's primary key: one or two attributes of type `S`, `N` or `B`. The model determines which of them is the
/// partition key; the record does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimaryKey<'a> {
    first: PrimaryKeyAttribute<'a>,
    second: Option<PrimaryKeyAttribute<'a>>,
}

impl<'a> PrimaryKey<'a> {
    pub(super) fn new(first: PrimaryKeyAttribute<'a>, second: Option<PrimaryKeyAttribute<'a>>) -> Self {
        Self { first, second }
    }

    /// The value of a key attribute.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&AttributeValue<'a>> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The names and values of the key attributes, in the record's order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &AttributeValue<'a>)> {
        std::iter::once(&self.first).chain(&self.second).map(|(name, value)| (&**name, value))
    }

    /// The number of attributes: 1 or 2.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a key has at least one attribute")]
    pub fn len(&self) -> usize {
        1 + usize::from(self.second.is_some())
    }
}
