//! Which value a name means, in the scope of one entity.

use std::sync::Arc;

use super::problem::ProblemCode;
use super::suggestion::{did_you_mean, suggestion};
use crate::record::{AttributeInterner, AttributePath, InvalidPath, NamedZone};
use crate::table::template::{canonical_name, split_format};
use crate::table::value_type::{ElementType, ValueType};
use crate::table::{ElementPath, ForEach, InternedPath, Term, TimeFormat, TimeReading, ValueFormat};

/// The names of one entity: variables of its key, derived values, declared attributes.
#[derive(Clone, Default)]
pub(crate) struct EntityScope {
    /// The entity's name.
    pub(crate) name: Arc<str>,
    pub(crate) variables: Vec<Arc<str>>,
    /// The variables that are numbers: each is a key of type `N`. Their texts do not order them.
    pub(crate) numbers: Vec<usize>,
    pub(crate) derived: Vec<(Arc<str>, ValueType)>,
    pub(crate) attributes: Vec<(Arc<str>, ValueType)>,
    /// The attributes that are 0 where they are absent.
    pub(crate) sums: Vec<Arc<str>>,
    /// How names are read as times.
    pub(crate) times: Vec<(Arc<str>, TimeReading)>,
    /// Of the items of a rollup that are counted themselves: the buckets of time in their key, aligned with the variables.
    pub(crate) buckets: Vec<Option<TimeFormat>>,
    /// Whether a rollup has its name, which `of` therefore does not mean.
    pub(crate) hides_rollup: bool,
    /// Some of its settings are wrong: a name that is not defined may be one of them.
    pub(crate) is_incomplete: bool,
}

impl EntityScope {
    /// How a name without a format is read as a time.
    pub(crate) fn reading(&self, name: &str) -> TimeReading {
        let known = self.times.iter().find(|(known, _)| **known == *name);
        known.map_or(TimeReading::Detected, |(_, reading)| *reading)
    }

    /// The bucket of time that a variable of the key is: the variable has a format, or `bind` fills it with one.
    pub(crate) fn bucket_of(&self, variable: usize) -> Option<TimeFormat> {
        let own = || split_format(self.variables.get(variable)?).ok()?.1.time().cloned();
        self.buckets.get(variable).cloned().flatten().or_else(own)
    }

    fn is_number(&self, variable: &str) -> bool {
        position(&self.variables, variable).is_some_and(|variable| self.numbers.contains(&variable))
    }

    /// How a variable of the key is read as a time. One with a format has a bucket of that format.
    fn reading_of_variable(&self, variable: &str) -> TimeReading {
        match split_format(variable) {
            Ok((_, ValueFormat::Time(format))) => format.reading_of_bucket(),
            Ok((_, ValueFormat::Plain)) | Err(_) => {
                let reading = self.reading(variable);
                let is_undeclared = reading == TimeReading::Detected;
                if is_undeclared && self.is_number(variable) { TimeReading::Digits } else { reading }
            }
        }
    }
}

/// An output of a lookup, as a name in a scope.
pub(crate) struct ScopeOutput {
    pub(crate) name: Arc<str>,
    pub(crate) term: Term,
    pub(crate) value_type: ValueType,
    pub(crate) reading: TimeReading,
}

/// The element that an aggregate counts, as a name in a scope.
#[derive(Clone)]
pub(crate) struct ScopeElement {
    pub(crate) name: Arc<str>,
    pub(crate) element_type: ElementType,
}

/// An entity's names, the outputs of the lookups that are used with it, and the element that is counted.
#[derive(Clone, Copy)]
pub(crate) struct NameScope<'s> {
    pub(crate) entity: &'s EntityScope,
    pub(crate) outputs: &'s [ScopeOutput],
    pub(crate) element: Option<&'s ScopeElement>,
}

impl ScopeElement {
    /// The value of the element that a name means.
    fn find(&self, base: &str) -> Option<(Term, ValueType, TimeReading)> {
        let path: AttributePath = base.parse().ok()?;
        if *path.root() != self.name {
            return None;
        }
        let within: Vec<&str> = path.within().iter().map(|name| &**name).collect();
        let value_type = match (self.element_type, within.as_slice()) {
            (ElementType::Value(value_type), []) => value_type,
            (ElementType::Value(value_type), _) if value_type.has_members() => ValueType::Any,
            (ElementType::Entry, [ForEach::KEY]) => ValueType::Text,
            (ElementType::Entry, [ForEach::VALUE, ..]) | (ElementType::Unknown, _) => ValueType::Any,
            (ElementType::Value(_) | ElementType::Entry, _) => return None,
        };
        let within = path.within().to_vec();
        let term = Term::Element(ElementPath { element: Arc::clone(&self.name), within });
        Some((term, value_type, TimeReading::Detected))
    }
}

/// A value that a name means.
pub(crate) struct ResolvedName {
    pub(crate) term: Term,
    pub(crate) format: ValueFormat,
    pub(crate) value_type: ValueType,
    /// How the value is read as a time; its format has it as well.
    pub(crate) reading: TimeReading,
}

impl ResolvedName {
    /// The same value for a key or an expiry: a bucket in the key of a rollup's items begins in the zone of that key, and so do its coarser buckets. In
    /// zones of items, it begins when UTC shows it.
    ///
    /// # Errors
    /// Why the bucket in the key does not determine the value, such as the month of a week.
    pub(crate) fn in_buckets_of(self, scope: &EntityScope) -> Result<Self, String> {
        let below = self.term.key_variable().and_then(|variable| scope.buckets.get(variable)?.clone());
        let Some(below) = below else { return Ok(self) };
        let reading = below.reading_of_bucket();
        let format = match self.format {
            ValueFormat::Plain => ValueFormat::Plain,
            ValueFormat::Time(written) => {
                let format = written.within(below);
                if let Some(problem) = format.too_fine_for(reading) {
                    return Err(problem);
                }
                ValueFormat::Time(format)
            }
        };
        Ok(Self { reading, format, ..self })
    }
}

impl ResolvedName {
    /// How it is read as a time; a variable that `bind` fills with a bucket is that bucket.
    pub(crate) fn reading_in(&self, scope: &EntityScope) -> TimeReading {
        let bucket = self.term.key_variable().and_then(|variable| scope.bucket_of(variable));
        bucket.map_or(self.reading, |bucket| bucket.reading_of_bucket())
    }

    /// Whether it is always a number, also if a key has it as text.
    pub(crate) fn is_number(&self, scope: &EntityScope) -> bool {
        let is_number_of_key = || self.term.key_variable().is_some_and(|key| scope.numbers.contains(&key));
        self.format.is_plain() && (self.value_type == ValueType::Number || is_number_of_key())
    }
}

impl NameScope<'_> {
    /// Finds a name, with or without a format: first among the key's variables, then the derived values, the lookups'
    /// outputs and the declared attributes. `Err` is the problem to report; `None` if the cause was reported before.
    pub(crate) fn resolve(
        &self,
        name: &str,
        interner: &mut AttributeInterner,
    ) -> Result<ResolvedName, Option<(ProblemCode, String)>> {
        let name = &*canonical_name(name).map_err(|problem| Some(not_a_path(name, problem)))?;
        // A variable of the key that has this very format is taken as it stands in the key.
        if let Some(index) = position(&self.entity.variables, name) {
            let (term, format) = (Term::Key(index), ValueFormat::Plain);
            let reading = self.entity.reading_of_variable(name);
            return Ok(ResolvedName { term, format, value_type: ValueType::Text, reading });
        }
        let (base, format) =
            split_format(name).map_err(|problem| Some((problem.code(), problem.to_string())))?;
        match self.find(base, interner) {
            Some((term, value_type, reading)) => {
                if let Some(problem) = format.time().and_then(|format| format.too_fine_for(reading)) {
                    return Err(Some((ProblemCode::FormatTooFine, format!("`{name}`: {problem}"))));
                }
                let format = self.bind_zone(name, format, interner)?.read_as(reading);
                Ok(ResolvedName { term, format, value_type, reading })
            }
            None if self.entity.is_incomplete => Err(None),
            None => Err(Some((ProblemCode::UndefinedName, self.undefined(base)))),
        }
    }

    /// The format, with the value of this scope that its zone comes from. `name` has the format.
    pub(crate) fn bind_zone(
        &self,
        name: &str,
        format: ValueFormat,
        interner: &mut AttributeInterner,
    ) -> Result<ValueFormat, Option<(ProblemCode, String)>> {
        let Some(zone) = format.item_zone().map(|zone| &zone.name) else { return Ok(format) };
        let Some((term, value_type, _)) = self.find(zone, interner) else {
            let problem = (ProblemCode::UnknownTimeZone, format!("`{name}`: {}", self.undefined_zone(zone)));
            return Err((!self.entity.is_incomplete).then_some(problem));
        };
        if !value_type.is_textual() {
            let problem = format!(
                "`{name}`: `{zone}` is {}, and the zone of a format is text: the name of a time zone, such as `Europe/Berlin`",
                value_type.described()
            );
            return Err(Some((ProblemCode::UnfitZone, problem)));
        }
        Ok(format.with_zone_of(term))
    }

    /// Whether a path is a map whose inner attributes can be named.
    pub(crate) fn is_map(&self, path: &str) -> bool {
        let Ok(path) = canonical_name(path) else { return false };
        let path = &*path;
        let mut attributes = self.entity.attributes.iter();
        self.declared(path).is_some_and(ValueType::has_members)
            || attributes.any(|(name, _)| is_within(name, path))
    }

    fn find(&self, base: &str, interner: &mut AttributeInterner) -> Option<(Term, ValueType, TimeReading)> {
        let entity = self.entity;
        let variable = position(&entity.variables, base)
            .or_else(|| entity.variables.iter().position(|variable| base_name(variable) == base));
        if let Some((index, variable)) =
            variable.and_then(|index| Some((index, entity.variables.get(index)?)))
        {
            return Some((Term::Key(index), ValueType::Text, entity.reading_of_variable(variable)));
        }
        if let Some(index) = entity.derived.iter().position(|(name, _)| **name == *base) {
            return Some((Term::Derived(index), entity.derived.get(index)?.1, entity.reading(base)));
        }
        if let Some(output) = self.outputs.iter().find(|output| *output.name == *base) {
            return Some((output.term.clone(), output.value_type, output.reading));
        }
        if let Some(found) = self.element.and_then(|element| element.find(base)) {
            return Some(found);
        }
        let value_type = self.declared(base)?;
        let path = interned_path(&base.parse().ok()?, interner);
        let absent_is_zero = position(&entity.sums, base).is_some();
        let path = InternedPath { declared: value_type.stored(), absent_is_zero, ..path };
        Some((Term::Attribute(path), value_type, entity.reading(base)))
    }

    /// The type of an attribute that is declared by this name, or lies in a declared map.
    fn declared(&self, path: &str) -> Option<ValueType> {
        let attributes = || self.entity.attributes.iter();
        let exact = attributes().find(|(name, _)| **name == *path).map(|(_, value_type)| *value_type);
        exact.or_else(|| {
            let mut attributes = attributes();
            let is_inside =
                attributes.any(|(name, value_type)| value_type.has_members() && is_within(path, name));
            is_inside.then_some(ValueType::Any)
        })
    }

    fn undefined(&self, name: &str) -> String {
        let hidden = if self.entity.hides_rollup {
            format!(
                "; the rollup `{}` is hidden by the entity of this name: rename it if its items are meant",
                self.entity.name
            )
        } else {
            String::new()
        };
        format!(
            "`{name}` is not defined for `{}`, as a key variable, derived value, lookup output or declared attribute{}{hidden}",
            self.entity.name,
            suggestion(name, self.known_names())
        )
    }

    fn undefined_zone(&self, zone: &str) -> String {
        let meant = match did_you_mean(zone, NamedZone::names()) {
            nearest if nearest.is_empty() => did_you_mean(zone, self.known_names()),
            nearest => nearest,
        };
        format!(
            "`{zone}` is neither a time zone nor a name of `{}`; write a zone of the IANA database, such as `Europe/Berlin`, or the name of an attribute, derived value or lookup output that holds one{meant}",
            self.entity.name
        )
    }

    fn known_names(&self) -> impl Iterator<Item = &str> + Clone {
        let entity = self.entity;
        let known = entity.variables.iter().map(|name| base_name(name));
        known
            .chain(entity.derived.iter().map(|(name, _)| &**name))
            .chain(self.outputs.iter().map(|output| &*output.name))
            .chain(self.element.map(|element| &*element.name))
            .chain(entity.attributes.iter().map(|(name, _)| &**name))
    }
}

/// The problem of a text that is not the path of an attribute.
pub(crate) fn not_a_path(written: &str, problem: InvalidPath) -> (ProblemCode, String) {
    (ProblemCode::InvalidPath, format!("`{written}` is not an attribute path; {problem}"))
}

/// Whether a path lies within another. Both are canonical.
fn is_within(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.starts_with('.'))
}

/// A variable's name without its format.
pub(crate) fn base_name(variable: &str) -> &str {
    split_format(variable).map_or(variable, |(name, _)| name)
}

/// The index of a name.
pub(crate) fn position(names: &[Arc<str>], name: &str) -> Option<usize> {
    names.iter().position(|known| **known == *name)
}

/// The place of an attribute in images.
pub(crate) fn interned_path(path: &AttributePath, interner: &mut AttributeInterner) -> InternedPath {
    InternedPath {
        root: interner.intern(Arc::clone(path.root())),
        within: path.within().to_vec(),
        declared: None,
        absent_is_zero: false,
    }
}
