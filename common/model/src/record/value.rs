//! Attribute values, borrowed from the event where possible.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::Decimal;

/// An item: attribute names and values.
pub type Item = BTreeMap<Cow<'static, str>, AttributeValue<'static>>;

/// One DynamoDB attribute value. Numbers are exact decimals, never floats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue<'a> {
    /// `S`: text.
    S(Cow<'a, str>),
    /// `N`: a number of up to 38 significant digits.
    N(Decimal),
    /// `B`: bytes (base64 in JSON).
    B(Cow<'a, [u8]>),
    /// `BOOL`.
    Bool(bool),
    /// `NULL`.
    Null,
    /// `M`: a map.
    M(BTreeMap<Cow<'a, str>, AttributeValue<'a>>),
    /// `L`: a list.
    L(Vec<AttributeValue<'a>>),
    /// `SS`: a set of texts.
    Ss(Vec<Cow<'a, str>>),
    /// `NS`: a set of numbers.
    Ns(Vec<Decimal>),
    /// `BS`: a set of byte strings.
    Bs(Vec<Cow<'a, [u8]>>),
}

impl AttributeValue<'_> {
    /// An `S` with owned text.
    pub fn text(text: impl Into<String>) -> AttributeValue<'static> {
        AttributeValue::S(Cow::Owned(text.into()))
    }

    /// The text of an `S`.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        if let Self::S(text) = self { Some(text) } else { None }
    }

    /// The number of an `N`.
    #[must_use]
    pub fn as_number(&self) -> Option<&Decimal> {
        if let Self::N(number) = self { Some(number) } else { None }
    }

    /// Whether the value is `NULL`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// DynamoDB's name of the type: `S`, `N`, `BOOL`, …
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::S(_) => "S",
            Self::N(_) => "N",
            Self::B(_) => "B",
            Self::Bool(_) => "BOOL",
            Self::Null => "NULL",
            Self::M(_) => "M",
            Self::L(_) => "L",
            Self::Ss(_) => "SS",
            Self::Ns(_) => "NS",
            Self::Bs(_) => "BS",
        }
    }

    /// Whether the value is of the type with this name.
    #[must_use]
    pub fn is_of_type(&self, name: &str) -> bool {
        // Called for every value that is counted: comparing with a constant is faster than calling `type_name`.
        match self {
            Self::S(_) => name == "S",
            Self::N(_) => name == "N",
            Self::Bool(_) => name == "BOOL",
            Self::B(_) | Self::Null | Self::M(_) | Self::L(_) | Self::Ss(_) | Self::Ns(_) | Self::Bs(_) => {
                name == self.type_name()
            }
        }
    }

    /// Whether it is a list or a set.
    #[must_use]
    pub fn has_elements(&self) -> bool {
        match self {
            Self::L(_) | Self::Ss(_) | Self::Ns(_) | Self::Bs(_) => true,
            Self::S(_) | Self::N(_) | Self::Bool(_) | Self::B(_) | Self::Null | Self::M(_) => false,
        }
    }

    /// The same value with owned content.
    #[must_use]
    pub fn into_owned(self) -> AttributeValue<'static> {
        fn owned<T: ToOwned + ?Sized>(value: Cow<'_, T>) -> Cow<'static, T> {
            Cow::Owned(value.into_owned())
        }
        match self {
            Self::S(value) => AttributeValue::S(owned(value)),
            Self::N(number) => AttributeValue::N(number),
            Self::B(value) => AttributeValue::B(owned(value)),
            Self::Bool(value) => AttributeValue::Bool(value),
            Self::Null => AttributeValue::Null,
            Self::M(map) => AttributeValue::M(
                map.into_iter().map(|(name, value)| (owned(name), value.into_owned())).collect(),
            ),
            Self::L(list) => AttributeValue::L(list.into_iter().map(AttributeValue::into_owned).collect()),
            Self::Ss(set) => AttributeValue::Ss(set.into_iter().map(owned).collect()),
            Self::Ns(set) => AttributeValue::Ns(set),
            Self::Bs(set) => AttributeValue::Bs(set.into_iter().map(owned).collect()),
        }
    }
}

impl From<Decimal> for AttributeValue<'_> {
    fn from(number: Decimal) -> Self {
        Self::N(number)
    }
}

impl<'a> From<&'a str> for AttributeValue<'a> {
    fn from(text: &'a str) -> Self {
        Self::S(Cow::Borrowed(text))
    }
}

impl From<String> for AttributeValue<'_> {
    fn from(text: String) -> Self {
        Self::S(Cow::Owned(text))
    }
}
