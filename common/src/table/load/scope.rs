//! Which value a name means, in the scope of one entity.

use std::sync::Arc;

use super::document::ValueType;
use super::problem::suggestion;
use crate::record::AttributeInterner;
use crate::table::template::split_format;
use crate::table::{InternedPath, Term, ValueFormat};

/// The names of one entity: variables of its key, derived values, declared attributes.
#[derive(Default)]
pub(super) struct EntityScope {
    pub(super) variables: Vec<Arc<str>>,
    pub(super) derived: Vec<(Arc<str>, ValueType)>,
    pub(super) attributes: Vec<(Arc<str>, ValueType)>,
    /// Some of its own settings are wrong: a name that is not found may be one of them.
    pub(super) is_incomplete: bool,
}

/// An entity's names and, in an aggregate, what its lookups give.
#[derive(Clone, Copy)]
pub(super) struct NameScope<'s> {
    pub(super) entity: &'s EntityScope,
    pub(super) entity_name: &'s str,
    pub(super) outputs: &'s [(Arc<str>, Term, ValueType)],
}

/// A value that a name means.
#[derive(Clone)]
pub(super) struct ResolvedName {
    pub(super) term: Term,
    pub(super) format: ValueFormat,
    pub(super) value_type: ValueType,
}

impl NameScope<'_> {
    /// Finds a name, with or without a format: first among the key's variables, then the derived values, the lookups'
    /// outputs and the declared attributes. `Err` is what to say of it; empty if enough was said before.
    pub(super) fn resolve(
        &self,
        name: &str,
        vocabulary: &mut AttributeInterner,
    ) -> Result<ResolvedName, String> {
        // A variable of the key that has this very format is taken as it stands in the key.
        if let Some(index) = self.variable(name) {
            return Ok(ResolvedName {
                term: Term::Key(index),
                format: ValueFormat::Plain,
                value_type: ValueType::Text,
            });
        }
        let (base, format) = split_format(name).map_err(|problem| problem.to_string())?;
        let (term, value_type) = self.find(base, vocabulary).ok_or_else(|| self.unknown(base))?;
        Ok(ResolvedName { term, format, value_type })
    }

    /// Whether a path is a map whose inner attributes can be named.
    pub(super) fn is_map(&self, path: &str) -> bool {
        matches!(self.declared(path), Some(ValueType::Map | ValueType::Any))
            || self
                .entity
                .attributes
                .iter()
                .any(|(name, _)| name.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
    }

    fn variable(&self, name: &str) -> Option<usize> {
        self.entity.variables.iter().position(|variable| **variable == *name)
    }

    fn find(&self, base: &str, vocabulary: &mut AttributeInterner) -> Option<(Term, ValueType)> {
        let variable = self.variable(base).or_else(|| {
            let mut variables = self.entity.variables.iter();
            variables.position(|variable| split_format(variable).is_ok_and(|(name, _)| name == base))
        });
        if let Some(index) = variable {
            return Some((Term::Key(index), ValueType::Text));
        }
        if let Some(index) = self.entity.derived.iter().position(|(name, _)| **name == *base) {
            return Some((Term::Derived(index), self.entity.derived.get(index)?.1));
        }
        if let Some((_, term, value_type)) = self.outputs.iter().find(|(name, ..)| **name == *base) {
            return Some((term.clone(), *value_type));
        }
        let value_type = self.declared(base)?;
        let path = InternedPath { declared: value_type.stored(), ..attribute_path(base, vocabulary) };
        Some((Term::Attribute(path), value_type))
    }

    /// The type of an attribute that is declared by this name, or lies in a declared map.
    fn declared(&self, path: &str) -> Option<ValueType> {
        let exact = self.entity.attributes.iter().find(|(name, _)| **name == *path);
        exact.map(|(_, value_type)| *value_type).or_else(|| {
            let inside = self.entity.attributes.iter().any(|(name, value_type)| {
                matches!(value_type, ValueType::Map | ValueType::Any)
                    && path.strip_prefix(&**name).is_some_and(|rest| rest.starts_with('.'))
            });
            inside.then_some(ValueType::Any)
        })
    }

    fn unknown(&self, name: &str) -> String {
        if self.entity.is_incomplete {
            return String::new();
        }
        let variables =
            self.entity.variables.iter().map(|name| split_format(name).map_or(&**name, |(name, _)| name));
        let known = variables
            .chain(self.entity.derived.iter().map(|(name, _)| &**name))
            .chain(self.outputs.iter().map(|(name, ..)| &**name))
            .chain(self.entity.attributes.iter().map(|(name, _)| &**name));
        format!(
            "nothing binds `{name}`: it is no key variable, derived value or declared attribute of `{}`, and no lookup gives it{}",
            self.entity_name,
            suggestion(name, known)
        )
    }
}

/// The place of an attribute that is written `root.inner.innermost`.
pub(super) fn attribute_path(written: &str, vocabulary: &mut AttributeInterner) -> InternedPath {
    let mut names = written.split('.');
    let root = vocabulary.intern(names.next().unwrap_or_default());
    InternedPath { root, within: names.map(Arc::from).collect(), declared: None }
}

impl ValueType {
    /// How errors call a value of this type.
    pub(super) fn described(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Number => "a number",
            Self::Bool => "a boolean",
            Self::Map => "a map",
            Self::Other => "a list, set or binary",
            Self::Any => "of any type",
            Self::Ratio => "a percentage",
        }
    }

    /// DynamoDB's name of the type, where it is one that values are checked against.
    fn stored(self) -> Option<&'static str> {
        match self {
            Self::Text => Some("S"),
            Self::Number => Some("N"),
            Self::Bool => Some("BOOL"),
            Self::Map | Self::Other | Self::Any | Self::Ratio => None,
        }
    }

    /// Whether it may hold a number.
    pub(super) fn is_numeric(self) -> bool {
        matches!(self, Self::Number | Self::Any)
    }

    /// Whether it can be written into a key.
    pub(super) fn fits_key(self, format: ValueFormat) -> bool {
        match format {
            ValueFormat::Plain => matches!(self, Self::Text | Self::Number | Self::Bool | Self::Any),
            ValueFormat::Day => matches!(self, Self::Text | Self::Number | Self::Any),
        }
    }
}
