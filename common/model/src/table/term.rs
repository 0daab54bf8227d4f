//! Where the values in templates, measures and conditions come from.

use std::fmt;
use std::sync::Arc;

use crate::record::{AttributeId, AttributeInterner, AttributePath, written_name};

/// Where a value comes from, in the scope of one entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Term {
    /// A variable of the item's primary key: an index into [`super::Entity::variables`].
    Key(usize),
    /// An attribute of the item's image.
    Attribute(InternedPath),
    /// A value derived from attributes: an index into [`super::Entity::derivations`].
    Derived(usize),
    /// An output of a lookup.
    LookupOutput {
        /// Which of the aggregate's lookups: an index into [`super::Aggregate::lookups`].
        lookup: usize,
        /// Which of its outputs: an index into [`super::Lookup::outputs`].
        output: usize,
    },
    /// A value of the element that an aggregate with `for_each` counts.
    Element(ElementPath),
}

/// A value of an element: the element itself, or what is within it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementPath {
    /// How the model calls the element.
    pub element: Arc<str>,
    /// The names within, outermost first. Of a member of a map, the first is [`super::ForEach::KEY`] or [`super::ForEach::VALUE`].
    pub within: Vec<Arc<str>>,
}

/// As the model writes it: `line.sku`, `line.'unit.price'`.
impl fmt::Display for ElementPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.element)?;
        self.within.iter().try_for_each(|name| write!(f, ".{}", written_name(name)))
    }
}

impl Term {
    /// Whether it is a variable of the item's primary key, which never changes.
    pub(super) fn is_key(&self) -> bool {
        match self {
            Self::Key(_) => true,
            Self::Attribute(_) | Self::Derived(_) | Self::LookupOutput { .. } | Self::Element(_) => false,
        }
    }

    /// The position of the lookup that it is an output of, among the lookups of its part.
    #[must_use]
    pub fn output_lookup(&self) -> Option<usize> {
        self.lookup_output().map(|(lookup, _)| lookup)
    }

    /// The position of the output within its lookup, if it is one.
    #[must_use]
    pub fn output(&self) -> Option<usize> {
        self.lookup_output().map(|(_, output)| output)
    }

    /// The variable of the item's primary key that it is.
    pub(super) fn key_variable(&self) -> Option<usize> {
        match self {
            Self::Key(variable) => Some(*variable),
            Self::Attribute(_) | Self::Derived(_) | Self::LookupOutput { .. } | Self::Element(_) => None,
        }
    }

    /// The position of the lookup that it is an output of, and the position of the output within that lookup.
    pub(crate) fn lookup_output(&self) -> Option<(usize, usize)> {
        match self {
            Self::LookupOutput { lookup, output } => Some((*lookup, *output)),
            Self::Key(_) | Self::Attribute(_) | Self::Derived(_) | Self::Element(_) => None,
        }
    }

    /// Whether it is a value of an element.
    pub(crate) fn is_of_element(&self) -> bool {
        match self {
            Self::Element(_) => true,
            Self::Key(_) | Self::Attribute(_) | Self::Derived(_) | Self::LookupOutput { .. } => false,
        }
    }

    /// The index of the derivation, if it is a derived value.
    pub(crate) fn derivation(&self) -> Option<usize> {
        match self {
            Self::Derived(index) => Some(*index),
            Self::Key(_) | Self::Attribute(_) | Self::LookupOutput { .. } | Self::Element(_) => None,
        }
    }

    /// The attribute that it reads, if it is one.
    #[must_use]
    pub fn attribute(&self) -> Option<&InternedPath> {
        match self {
            Self::Attribute(path) => Some(path),
            Self::Key(_) | Self::Derived(_) | Self::LookupOutput { .. } | Self::Element(_) => None,
        }
    }
}

/// An attribute's path whose first name is interned: images are decoded by id, so that reading one compares no names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InternedPath {
    /// The top-level attribute.
    pub root: AttributeId,
    /// The names within, outermost first; mostly none.
    pub within: Vec<Arc<str>>,
    /// The type that the model declares, in DynamoDB's notation. A value of another type is an error; `NULL` counts as absent.
    pub declared: Option<&'static str>,
    /// Whether it is 0 where it is absent: a measure that items add to is absent from a rollup until one has.
    pub absent_is_zero: bool,
}

impl InternedPath {
    /// The path in names. `attributes` is the interner of the path.
    #[must_use]
    pub fn named(&self, attributes: &AttributeInterner) -> AttributePath {
        AttributePath::nested(Arc::clone(attributes.name(self.root)), self.within.iter().cloned())
    }

    /// Whether the model declares that it is text, a number or a boolean.
    #[must_use]
    pub fn is_single_value(&self) -> bool {
        self.declared.is_some_and(|declared| ["S", "N", "BOOL"].contains(&declared))
    }
}
