//! The elements of an attribute: of a list, a set or a map.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::record::AttributeValue;
use crate::table::{ElementPath, ForEach, Operand};

/// One element of a list, a set or a map.
#[derive(Clone, Copy, Debug)]
pub enum ItemElement<'e> {
    /// An element of a list or a set.
    Value(&'e AttributeValue<'e>),
    /// A member of a map.
    Entry {
        /// Its name.
        key: &'e str,
        /// Its value.
        value: &'e AttributeValue<'e>,
    },
}

impl<'e> ItemElement<'e> {
    /// The value at a path within the element.
    pub(super) fn read(self, path: &ElementPath) -> Option<Operand<'e>> {
        match self {
            Self::Value(value) => member(value, &path.within).map(Operand::Value),
            Self::Entry { key, value } => match path.within.split_first() {
                Some((part, [])) if **part == *ForEach::KEY => Some(Operand::Text(Cow::Borrowed(key))),
                Some((part, within)) if **part == *ForEach::VALUE => {
                    member(value, within).map(Operand::Value)
                }
                Some(_) | None => None,
            },
        }
    }
}

/// The value at a path within maps.
fn member<'e>(value: &'e AttributeValue<'e>, within: &[Arc<str>]) -> Option<&'e AttributeValue<'e>> {
    within.iter().try_fold(value, |value, name| {
        if let AttributeValue::M(map) = value { map.get(name.as_ref()) } else { None }
    })
}

/// The elements of one attribute of an item.
pub(super) enum ItemElements<'e> {
    List(&'e [AttributeValue<'e>]),
    Set(Vec<AttributeValue<'e>>),
    Map(&'e BTreeMap<Cow<'e, str>, AttributeValue<'e>>),
}

impl ItemElements<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::List(list) => list.len(),
            Self::Set(set) => set.len(),
            Self::Map(map) => map.len(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements, in the order of a list, or of the names of a map.
    pub(super) fn iter(&self) -> Box<dyn Iterator<Item = ItemElement<'_>> + '_> {
        match self {
            Self::List(list) => Box::new(list.iter().map(ItemElement::Value)),
            Self::Set(set) => Box::new(set.iter().map(ItemElement::Value)),
            Self::Map(map) => {
                Box::new(map.iter().map(|(key, value)| ItemElement::Entry { key: key.as_ref(), value }))
            }
        }
    }
}
