//! The types of values: what an attribute is declared as, or what follows from where a value comes from.

use std::borrow::Cow;

use super::ValueFormat;
use super::named::named_values;

named_values! {
    /// A type that a model declares for an attribute: DynamoDB's names, or `any`.
    pub enum DeclaredType {
        /// A text.
        Text = "S" | "string" | "text" | "str",
        /// A number.
        Number = "N" | "number" | "int" | "integer" | "float" | "double" | "decimal",
        /// A boolean.
        Bool = "BOOL" | "boolean",
        /// A map.
        Map = "M" | "map" | "object" | "struct",
        /// A list.
        List = "L" | "list" | "array",
        /// A set of texts.
        TextSet = "SS",
        /// A set of numbers.
        NumberSet = "NS",
        /// A set of binary values.
        BinarySet = "BS",
        /// A binary value.
        Binary = "B" | "binary" | "bytes",
        /// A value of any type.
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
            Self::List => ValueType::Other(CompositeType::List),
            Self::TextSet => ValueType::Other(CompositeType::Texts),
            Self::NumberSet => ValueType::Other(CompositeType::Numbers),
            Self::BinarySet => ValueType::Other(CompositeType::Binaries),
            Self::Binary => ValueType::Other(CompositeType::Binary),
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
    Other(CompositeType),
    Any,
    /// A derived percentage: never declared.
    Ratio,
    /// The first of values of these types.
    Mixed(MixedType),
}

/// Several types. A value has one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MixedType {
    /// A bit for each of [`MixedType::PARTS`].
    parts: u16,
}

impl MixedType {
    /// The types that can be mixed.
    const PARTS: [ValueType; 10] = [
        ValueType::Number,
        ValueType::Text,
        ValueType::Bool,
        ValueType::Map,
        ValueType::Other(CompositeType::List),
        ValueType::Other(CompositeType::Texts),
        ValueType::Other(CompositeType::Numbers),
        ValueType::Other(CompositeType::Binaries),
        ValueType::Other(CompositeType::Binary),
        ValueType::Any,
    ];

    /// The single types.
    fn parts(self) -> impl Iterator<Item = ValueType> {
        let parts = Self::PARTS.into_iter().enumerate();
        parts.filter(move |(bit, _)| self.parts & (1 << bit) != 0).map(|(_, part)| part)
    }

    fn all(self, holds: impl Fn(ValueType) -> bool) -> bool {
        self.parts().all(holds)
    }

    /// Whether one of the types meets a condition.
    pub(super) fn any(self, holds: impl Fn(ValueType) -> bool) -> bool {
        self.parts().any(holds)
    }
}

/// The types that are not scalar in conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CompositeType {
    List,
    Texts,
    Numbers,
    Binaries,
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
    /// The type of a value that has one of these types: what holds for it holds for all of them.
    pub(super) fn one_of(types: impl IntoIterator<Item = Self>) -> Self {
        let mut parts = 0;
        for value_type in types {
            let of_mixed = if let Self::Mixed(mixed) = value_type { mixed.parts } else { 0 };
            let bit = MixedType::PARTS.iter().position(|part| *part == value_type);
            parts |= of_mixed | bit.map_or(0, |bit| 1 << bit);
        }
        let mixed = MixedType { parts };
        let mut single = mixed.parts();
        match (single.next(), single.next()) {
            (Some(only), None) => only,
            (Some(_), Some(_)) => Self::Mixed(mixed),
            (None, _) => Self::Any,
        }
    }

    /// Its elements; `None` if it has none.
    pub(super) fn elements(self) -> Option<ElementType> {
        match self {
            Self::Map => Some(ElementType::Entry),
            Self::Any => Some(ElementType::Unknown),
            Self::Other(CompositeType::List) => Some(ElementType::Value(Self::Any)),
            Self::Other(CompositeType::Texts) => Some(ElementType::Value(Self::Text)),
            Self::Other(CompositeType::Numbers) => Some(ElementType::Value(Self::Number)),
            Self::Other(CompositeType::Binaries) => {
                Some(ElementType::Value(Self::Other(CompositeType::Binary)))
            }
            Self::Other(CompositeType::Binary) | Self::Text | Self::Number | Self::Bool | Self::Ratio => None,
            Self::Mixed(mixed) => mixed.all(|part| part.elements().is_some()).then_some(ElementType::Unknown),
        }
    }

    /// As the end of "`x` is …".
    pub(super) fn described(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Text => "text",
            Self::Number => "a number",
            Self::Bool => "a boolean",
            Self::Map => "a map",
            Self::Other(_) => "a list, set or binary",
            Self::Any => "of any type",
            Self::Ratio => "a percentage",
            Self::Mixed(mixed) => {
                let mut parts: Vec<Cow<'static, str>> = mixed.parts().map(Self::described).collect();
                parts.dedup();
                return Cow::Owned(parts.join(" or "));
            }
        })
    }

    /// DynamoDB's name of the type, if values are checked against it.
    pub(super) fn stored(self) -> Option<&'static str> {
        match self {
            Self::Text => Some(DeclaredType::Text.name()),
            Self::Number => Some(DeclaredType::Number.name()),
            Self::Bool => Some(DeclaredType::Bool.name()),
            Self::Map => Some(DeclaredType::Map.name()),
            Self::Other(CompositeType::List) => Some(DeclaredType::List.name()),
            Self::Other(CompositeType::Texts) => Some(DeclaredType::TextSet.name()),
            Self::Other(CompositeType::Numbers) => Some(DeclaredType::NumberSet.name()),
            Self::Other(CompositeType::Binaries) => Some(DeclaredType::BinarySet.name()),
            Self::Other(CompositeType::Binary) => Some(DeclaredType::Binary.name()),
            Self::Any | Self::Ratio | Self::Mixed(_) => None,
        }
    }

    /// Whether it may hold a number.
    pub(super) fn is_numeric(self) -> bool {
        match self {
            Self::Number | Self::Any => true,
            Self::Mixed(mixed) => mixed.all(Self::is_numeric),
            Self::Text | Self::Bool | Self::Map | Self::Other(_) | Self::Ratio => false,
        }
    }

    /// Whether it may hold text.
    pub(super) fn is_textual(self) -> bool {
        match self {
            Self::Text | Self::Any => true,
            Self::Mixed(mixed) => mixed.all(Self::is_textual),
            Self::Number | Self::Bool | Self::Map | Self::Other(_) | Self::Ratio => false,
        }
    }

    /// Whether some of its values may be text.
    pub(super) fn may_be_text(self) -> bool {
        if let Self::Mixed(mixed) = self { mixed.any(Self::is_textual) } else { self.is_textual() }
    }

    /// Whether it may have elements, characters or bytes.
    pub(super) fn has_size(self) -> bool {
        match self {
            Self::Text | Self::Map | Self::Other(_) | Self::Any => true,
            Self::Mixed(mixed) => mixed.all(Self::has_size),
            Self::Number | Self::Bool | Self::Ratio => false,
        }
    }

    /// Whether attributes inside it can be named.
    pub(super) fn has_members(self) -> bool {
        match self {
            Self::Map | Self::Any => true,
            Self::Mixed(mixed) => mixed.all(Self::has_members),
            Self::Text | Self::Number | Self::Bool | Self::Other(_) | Self::Ratio => false,
        }
    }

    /// Whether it may hold text or a number, which can be read as a time.
    pub(super) fn is_ordered(self) -> bool {
        if let Self::Mixed(mixed) = self {
            return mixed.all(Self::is_ordered);
        }
        self.is_numeric() || self.is_textual()
    }

    /// Whether its values can be compared with each other, for `max` and `min`: numbers, or texts.
    pub(super) fn is_comparable(self) -> bool {
        self.is_numeric() || self.is_textual()
    }

    /// Whether it can be written into a key in this format.
    pub(super) fn fits_key(self, format: &ValueFormat) -> bool {
        if let Self::Mixed(mixed) = self {
            return mixed.all(|part| part.fits_key(format));
        }
        match format {
            ValueFormat::Plain => self.is_ordered() || self == Self::Bool,
            ValueFormat::Time(_) => self.is_ordered(),
        }
    }
}

/// The choice of a `max` or `min` between a number and a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MixedTypes {
    /// The model declares which of the two the values are. A value of the other type was written by another model or program, and is
    /// replaced.
    Replaced,
    /// The model leaves the type open (`any`): every number is preferred to every text, so that the order of the changes does not matter.
    NumbersFirst,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_for_a_mixed_type_holds_for_all_its_parts() {
        let [number, text, any] = [ValueType::Number, ValueType::Text, ValueType::Any];
        assert_eq!(ValueType::one_of([number, number]), number);
        assert_eq!(ValueType::one_of([]), any);
        let mixed = ValueType::one_of([text, number]);
        assert_eq!((mixed.is_numeric(), mixed.is_textual()), (false, false));
        assert_eq!((mixed.is_ordered(), mixed.is_comparable()), (true, false));
        assert!(mixed.fits_key(&ValueFormat::Plain));
        assert_eq!(mixed.described(), "a number or text");
        assert!(
            ValueType::one_of([number, any]).is_numeric() && !ValueType::one_of([text, any]).is_numeric()
        );
        assert!(!ValueType::one_of([mixed, ValueType::Map]).fits_key(&ValueFormat::Plain));
        let list = ValueType::Other(CompositeType::List);
        assert_eq!(ValueType::one_of([list, ValueType::Map]).elements(), Some(ElementType::Unknown));
        assert_eq!(ValueType::one_of([list, number]).elements(), None);
    }
}
