//! The values of terms in the scope of one image of one item; derived values are among them.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;

use smallvec::SmallVec;

use super::ItemElement;
use crate::entity::ItemIdentity;
use crate::record::{AttributeValue, Decimal, Image, NotADecimal, Timestamp};
use crate::table::{
    Derivation, DerivationKind, Entity, InternedPath, LookupUse, Model, NumberTerm, Operand, Pattern, Term,
    TimeReading, TimeTerm,
};
use crate::{Error, ErrorKind, Result};

/// The outputs of a lookup, aligned with [`crate::table::Lookup::outputs`].
pub type LookupOutputs = [AttributeValue<'static>];

/// One image of one item, in which the terms of its entity are read.
#[derive(Clone, Copy)]
pub struct ImageScope<'s, 'a> {
    /// The model.
    pub model: &'s Model,
    /// The item's entity.
    pub entity: &'s Entity,
    /// The values of its key's variables.
    pub variables: &'s [Cow<'s, str>],
    /// The image.
    pub image: &'s Image<'a>,
    /// The lookups in scope, by the indexes of [`Term::LookupOutput`]: errors name them.
    pub(super) lookups: &'s [LookupUse],
    /// The outputs of the lookups in scope, aligned with them.
    pub(super) outputs: &'s [&'s LookupOutputs],
    /// The element that is counted, by an aggregate that counts elements.
    pub element: Option<ItemElement<'s>>,
}

impl<'s, 'a: 's> ImageScope<'s, 'a> {
    /// The scope of an image, without outputs of lookups.
    #[must_use]
    pub fn of(model: &'s Model, identity: &'s ItemIdentity<'_, '_>, image: &'s Image<'a>) -> Self {
        Self {
            model,
            entity: identity.entity,
            variables: &identity.variables,
            image,
            lookups: &[],
            outputs: &[],
            element: None,
        }
    }

    /// The same scope with these lookups, and the outputs of each.
    #[must_use]
    pub fn with_outputs(self, lookups: &'s [LookupUse], outputs: &'s [&'s LookupOutputs]) -> Self {
        Self { lookups, outputs, ..self }
    }

    /// The value of a term; `None` if it is absent.
    ///
    /// # Errors
    /// [`ErrorKind::Record`] if an attribute is of another type than the model declares.
    pub fn read(&self, term: &Term) -> Result<Option<Operand<'s>>> {
        match term {
            Term::Key(index) => Ok(self.variables.get(*index).map(|text| Operand::Text(Cow::Borrowed(text)))),
            Term::Attribute(path) => match attribute(self.image, path) {
                Some(value) if has_declared_type(value, path) => Ok(Some(Operand::Value(value))),
                Some(value) => {
                    let declared = path.declared.unwrap_or("any");
                    let actual = value.type_name();
                    Err(self.term_error(term, &format!("must be of type {declared} and is of type {actual}")))
                }
                None => Ok(None),
            },
            Term::Derived(index) => self.derive(*index),
            Term::Element(path) => Ok(self.element.and_then(|element| element.read(path))),
            Term::LookupOutput { lookup, output } => {
                Ok(self.outputs.get(*lookup).and_then(|outputs| outputs.get(*output)).map(Operand::Value))
            }
        }
    }

    /// The value of a term; `None` if it is absent or `NULL`.
    pub(super) fn read_unless_null(&self, term: &Term) -> Result<Option<Operand<'s>>> {
        Ok(self.read(term)?.filter(|value| !value.is_null()))
    }

    /// Whether a condition holds that must never fail a record. A value of another type than the model declares is tested as it is, but a
    /// list or set where a single value is declared is absent: its elements could meet the conditions of several entities. A derived value that
    /// cannot be computed is absent.
    pub(super) fn satisfies(&self, when: &Pattern) -> bool {
        let mut read = |term: &Term| match term {
            Term::Attribute(path) => {
                let is_testable =
                    |value: &&AttributeValue<'_>| !path.is_single_value() || !value.has_elements();
                Ok(attribute(self.image, path).filter(is_testable).map(Operand::Value))
            }
            Term::Key(_) | Term::Derived(_) | Term::LookupOutput { .. } | Term::Element(_) => {
                Ok::<_, Infallible>(self.read(term).ok().flatten())
            }
        };
        when.matches(&mut read).unwrap_or_else(|never| match never {})
    }

    /// The time in a term: see [`Operand::time`].
    ///
    /// # Errors
    /// [`ErrorKind::Record`] if the term is absent or not a time.
    pub fn time(&self, term: &Term, reading: TimeReading) -> Result<Timestamp> {
        self.time_of(term, &self.required(term)?, reading)
    }

    /// The time that the value of a term names.
    ///
    /// # Errors
    /// [`ErrorKind::Record`] if it is not a time.
    pub(super) fn time_of(
        &self,
        term: &Term,
        value: &Operand<'_>,
        reading: TimeReading,
    ) -> Result<Timestamp> {
        value.time(reading).ok_or_else(|| self.term_error(term, &format!("is not {}", reading.described())))
    }

    /// An error that names a term, never its value.
    pub(super) fn term_error(&self, term: &Term, problem: &str) -> Error {
        Error::new(ErrorKind::Record, format!("{} {problem}", self.describe(term)))
            .with("entity", self.entity.name.as_ref())
            .hint("Correct the item, whose next change then counts it, or the table model")
    }

    pub(super) fn required(&self, term: &Term) -> Result<Operand<'s>> {
        self.read(term)?.ok_or_else(|| self.term_error(term, "is missing"))
    }

    /// The number in a term; `None` if it is absent or `NULL`.
    ///
    /// # Errors
    /// [`ErrorKind::Record`] if it is not a number.
    pub fn number(&self, term: &Term) -> Result<Option<Cow<'s, Decimal>>> {
        match self.read_unless_null(term)? {
            None => Ok(None),
            Some(Operand::Value(AttributeValue::N(number))) => Ok(Some(Cow::Borrowed(number))),
            Some(Operand::Number(number)) => Ok(Some(Cow::Owned(number))),
            Some(Operand::Value(other)) => {
                Err(self
                    .term_error(term, &format!("must be a number (N) and is of type {}", other.type_name())))
            }
            Some(Operand::Text(_) | Operand::Ratio { .. }) => {
                Err(self.term_error(term, "must be a number (N)"))
            }
        }
    }

    fn describe(&self, term: &Term) -> String {
        match term {
            Term::Key(index) => format!("key variable `{}`", name(self.entity.variables.get(*index))),
            Term::Attribute(path) => format!("attribute `{}`", path.named(&self.model.row_attributes)),
            Term::Derived(index) => {
                format!("derived value `{}`", name(self.entity.derivations.get(*index).map(|d| &d.name)))
            }
            Term::Element(path) => format!("element `{path}`"),
            Term::LookupOutput { lookup, output } => {
                let used = self.lookups.get(*lookup).and_then(|used| self.model.lookups.get(used.lookup));
                let output = name(used.and_then(|lookup| lookup.outputs.get(*output)));
                format!("output `{output}` of lookup `{}`", name(used.map(|lookup| &lookup.name)))
            }
        }
    }
}

/// Derived values: each is computed from terms, which may be derived too.
impl<'s, 'a: 's> ImageScope<'s, 'a> {
    /// The value of the entity's derivation with this index; `None` if it is absent.
    ///
    /// # Errors
    /// [`ErrorKind::Record`] if a value that it is computed from is of a wrong type, or the result exceeds DynamoDB's limits.
    fn derive(&self, index: usize) -> Result<Option<Operand<'s>>> {
        let Some(derivation) = self.entity.derivations.get(index) else { return Ok(None) };
        match &derivation.kind {
            DerivationKind::First(terms) => self.first(terms),
            DerivationKind::Part { of, key, variables, variable } => {
                let text = match self.read(of)? {
                    Some(Operand::Value(AttributeValue::S(text))) => &**text,
                    Some(Operand::Text(Cow::Borrowed(text))) => text,
                    Some(_) | None => return Ok(None),
                };
                let mut bindings = SmallVec::<[_; 4]>::from_elem(None, *variables);
                let value = if key.parse(text, &mut bindings) { bindings.get(*variable) } else { None };
                Ok(value.copied().flatten().map(|value| Operand::Text(Cow::Borrowed(value))))
            }
            DerivationKind::Percent { part, whole } => {
                let (Some(part), Some(whole)) = (self.number(part)?, self.number(whole)?) else {
                    return Ok(None);
                };
                if whole.sign().is_le() {
                    return Ok(None);
                }
                let numerator = part.times(&Decimal::from(100));
                let numerator = numerator.map_err(|cause| too_large(derivation, cause))?;
                Ok(Some(Operand::Ratio { numerator, denominator: whole.into_owned() }))
            }
            DerivationKind::Size(term) => self.size(term),
            DerivationKind::Number(term) => self.read_number(term),
            DerivationKind::Minus { from, subtracted } => {
                let (Some(from), Some(subtracted)) = (self.operand(from)?, self.operand(subtracted)?) else {
                    return Ok(None);
                };
                let difference = from.minus(&subtracted).map_err(|cause| too_large(derivation, cause))?;
                Ok(Some(Operand::Number(difference)))
            }
            DerivationKind::Duration { from, to } => self.seconds_between(from, to),
        }
    }

    /// The first of these values that is present and not `NULL`.
    fn first(&self, terms: &[Term]) -> Result<Option<Operand<'s>>> {
        for term in terms {
            if let Some(value) = self.read_unless_null(term)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    fn operand(&self, term: &'s NumberTerm) -> Result<Option<Cow<'s, Decimal>>> {
        match term {
            NumberTerm::Term(term) => self.number(term),
            NumberTerm::Constant(number) => Ok(Some(Cow::Borrowed(number))),
        }
    }

    /// The number in a value: the value itself, or a text that is a decimal number.
    fn read_number(&self, term: &Term) -> Result<Option<Operand<'s>>> {
        let text = match self.read_unless_null(term)? {
            Some(Operand::Text(text)) => text,
            Some(Operand::Value(AttributeValue::S(text))) => Cow::Borrowed(&**text),
            _ => return Ok(self.number(term)?.map(|number| Operand::Number(number.into_owned()))),
        };
        // The cause states why the text is not a number, and never the text itself.
        let number = text.parse::<Decimal>().map_err(|cause| {
            let problem = "must be a number or the text of one, such as `-1234.5`, and is another text";
            self.term_error(term, problem).caused_by(cause)
        })?;
        Ok(Some(Operand::Number(number)))
    }

    /// The number of elements of a list, set or map, of characters of a text, or of bytes of a binary value.
    fn size(&self, term: &Term) -> Result<Option<Operand<'s>>> {
        let size = match self.read_unless_null(term)? {
            None => return Ok(None),
            Some(Operand::Text(text)) => text.chars().count(),
            Some(Operand::Value(value)) => match value {
                AttributeValue::S(text) => text.chars().count(),
                AttributeValue::B(bytes) => bytes.len(),
                AttributeValue::L(list) => list.len(),
                AttributeValue::M(map) => map.len(),
                AttributeValue::Ss(set) => set.len(),
                AttributeValue::Ns(set) => set.len(),
                AttributeValue::Bs(set) => set.len(),
                AttributeValue::N(_) | AttributeValue::Bool(_) | AttributeValue::Null => {
                    let problem = format!("is of type {}, which has no size", value.type_name());
                    return Err(self.term_error(term, &problem));
                }
            },
            Some(Operand::Number(_) | Operand::Ratio { .. }) => {
                return Err(self.term_error(term, "is a number, which has no size"));
            }
        };
        // An item has at most 400 KB.
        Ok(Some(Operand::Number(Decimal::from(i64::try_from(size).unwrap_or(i64::MAX)))))
    }

    /// The seconds from one time to another; negative if the other is earlier.
    fn seconds_between(&self, from: &TimeTerm, to: &TimeTerm) -> Result<Option<Operand<'s>>> {
        let (Some(begin), Some(end)) = (self.read_unless_null(&from.term)?, self.read_unless_null(&to.term)?)
        else {
            return Ok(None);
        };
        let begin = self.time_of(&from.term, &begin, from.reading)?;
        let end = self.time_of(&to.term, &end, to.reading)?;
        let ms = Decimal::from(end.epoch_ms().saturating_sub(begin.epoch_ms()));
        // A whole number of milliseconds has three decimal places of seconds: the quotient is exact.
        Ok(ms.divided_by(&Decimal::from(1000), 3).map(Operand::Number))
    }
}

fn too_large(derivation: &Derivation, cause: NotADecimal) -> Error {
    let message = format!("`{}` exceeds DynamoDB's limits on numbers", derivation.name);
    Error::new(ErrorKind::Record, message).caused_by(cause)
}

fn name(name: Option<&Arc<str>>) -> &str {
    name.map_or("?", |name| name)
}

fn has_declared_type(value: &AttributeValue<'_>, path: &InternedPath) -> bool {
    path.declared.is_none_or(|declared| value.is_of_type(declared) || value.is_null())
}

/// The value at a path in an image.
pub fn attribute<'i, 'a>(image: &'i Image<'a>, path: &InternedPath) -> Option<&'i AttributeValue<'a>> {
    const ZERO: &AttributeValue<'static> = &AttributeValue::N(Decimal::ZERO);
    let root = image.get(path.root).or(path.absent_is_zero.then_some(ZERO))?;
    path.within.iter().try_fold(root, |value, name| {
        if let AttributeValue::M(map) = value { map.get(name.as_ref()) } else { None }
    })
}

#[cfg(test)]
mod tests;
