//! The types of values: what an attribute is declared as, or what follows from where a value comes from.

use super::ValueFormat;
use super::named::named_values;

named_values! {
    /// A type that a model declares for an attribute: DynamoDB's names, or `any`.
    pub(super) enum DeclaredType {
        Text = "S" | "string" | "text" | "str",
        Number = "N" | "number" | "int" | "integer" | "float" | "double" | "decimal",
        Bool = "BOOL" | "boolean",
        Map = "M" | "map" | "object" | "struct",
        List = "L" | "list" | "array",
        TextSet = "SS",
        NumberSet = "NS",
        BinarySet = "BS",
        Binary = "B" | "binary" | "bytes",
        Any = "any",
    }
}

impl DeclaredType {
    pub(super) fn value_type(self) -> ValueType {
        match self {
            Self::Text => ValueType::Text,
            Self::Number => ValueType::Number,
            Self::Bool => ValueType::Bool,
            Self::Map => ValueType::Map,
            Self::List => ValueType::Other(CollectionType::List),
            Self::TextSet => ValueType::Other(CollectionType::Texts),
            Self::NumberSet => ValueType::Other(CollectionType::Numbers),
            Self::BinarySet => ValueType::Other(CollectionType::Binaries),
            Self::Binary => ValueType::Other(CollectionType::Binary),
            Self::Any => ValueType::Any,
        }
    }
}

/// The type of a value in an entity's scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueType {
    /// An `S`; also a variable of a key.
    Text,
    Number,
    Bool,
    Map,
    /// A list, a set or binary: conditions can test it, but it is not a single value.
    Other(CollectionType),
    Any,
    /// A derived percentage: never declared.
    Ratio,
}

/// The types that conditions can test and that are not single values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CollectionType {
    List,
    Texts,
    Numbers,
    Binaries,
    /// Not a collection.
    Binary,
}

/// The elements of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ElementType {
    /// Of a list or set: values of this type.
    Value(ValueType),
    /// Of a map: its members.
    Entry,
    /// Of a value of any type.
    Unknown,
}

impl ValueType {
    /// Its elements; `None` if it has none.
    pub(super) fn elements(self) -> Option<ElementType> {
        match self {
            Self::Map => Some(ElementType::Entry),
            Self::Any => Some(ElementType::Unknown),
            Self::Other(CollectionType::List) => Some(ElementType::Value(Self::Any)),
            Self::Other(CollectionType::Texts) => Some(ElementType::Value(Self::Text)),
            Self::Other(CollectionType::Numbers) => Some(ElementType::Value(Self::Number)),
            Self::Other(CollectionType::Binaries) => {
                Some(ElementType::Value(Self::Other(CollectionType::Binary)))
            }
            Self::Other(CollectionType::Binary) | Self::Text | Self::Number | Self::Bool | Self::Ratio => {
                None
            }
        }
    }

    /// As the end of "`x` is …".
    pub(super) fn described(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Number => "a number",
            Self::Bool => "a boolean",
            Self::Map => "a map",
            Self::Other(_) => "a list, set or binary",
            Self::Any => "of any type",
            Self::Ratio => "a percentage",
        }
    }

    /// DynamoDB's name of the type, if values are checked against it.
    pub(super) fn stored(self) -> Option<&'static str> {
        match self {
            Self::Text => Some(DeclaredType::Text.name()),
            Self::Number => Some(DeclaredType::Number.name()),
            Self::Bool => Some(DeclaredType::Bool.name()),
            Self::Map | Self::Other(_) | Self::Any | Self::Ratio => None,
        }
    }

    /// Whether it may hold a number.
    pub(super) fn is_numeric(self) -> bool {
        match self {
            Self::Number | Self::Any => true,
            Self::Text | Self::Bool | Self::Map | Self::Other(_) | Self::Ratio => false,
        }
    }

    /// Whether it may hold text.
    pub(super) fn is_textual(self) -> bool {
        match self {
            Self::Text | Self::Any => true,
            Self::Number | Self::Bool | Self::Map | Self::Other(_) | Self::Ratio => false,
        }
    }

    /// Whether it may have elements, characters or bytes.
    pub(super) fn has_size(self) -> bool {
        match self {
            Self::Text | Self::Map | Self::Other(_) | Self::Any => true,
            Self::Number | Self::Bool | Self::Ratio => false,
        }
    }

    /// Whether attributes inside it can be named.
    pub(super) fn has_members(self) -> bool {
        match self {
            Self::Map | Self::Any => true,
            Self::Text | Self::Number | Self::Bool | Self::Other(_) | Self::Ratio => false,
        }
    }

    /// Whether it can be ordered, for `max` and `min`.
    pub(super) fn is_ordered(self) -> bool {
        self.is_numeric() || self.is_textual()
    }

    /// Whether it can be written into a key in this format.
    pub(super) fn fits_key(self, format: ValueFormat) -> bool {
        match format {
            ValueFormat::Plain => self.is_ordered() || self == Self::Bool,
            ValueFormat::Time(_) => self.is_ordered(),
        }
    }
}
