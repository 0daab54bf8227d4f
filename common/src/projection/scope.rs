//! Reading terms in the scope of one image of one item.

use std::borrow::Cow;
use std::fmt::Write as _;

use smallvec::SmallVec;

use super::LookupKey;
use crate::entity::ItemIdentity;
use crate::record::{AttributeValue, Image, Timestamp};
use crate::table::{
    BoundPiece, BoundTemplate, DerivationKind, Entity, InternedPath, LookupUse, Model, Operand, Term,
    ValueFormat,
};
use crate::{Error, ErrorKind, Result};

/// What a lookup gave: its outputs' values, aligned with [`crate::table::Lookup::outputs].
pub type LookupOutputs = [AttributeValue<'static>];

/// One image of one item, as the terms of its entity see it.
#[derive(Clone, Copy)]
pub struct ImageScope<'s, 'a> {
    /// The model.
    pub model: &'s Model,
    /// What the item is.
    pub entity: &'s Entity,
    /// The values of its key's variables.
    pub variables: &'s [&'s str],
    /// The image.
    pub image: &'s Image<'a>,
    /// What the lookups at hand gave, as [`Term::LookupOutput`] counts them.
    pub outputs: &'s [&'s LookupOutputs],
}

impl<'s, 'a: 's> ImageScope<'s, 'a> {
    /// An image of an item, without what lookups give.
    #[must_use]
    pub fn of(model: &'s Model, identity: &'s ItemIdentity<'_, '_>, image: &'s Image<'a>) -> Self {
        Self { model, entity: identity.entity, variables: &identity.variables, image, outputs: &[] }
    }

    /// The value of a term; `None` where it is absent.
    ///
    /// # Errors
    /// [`ErrorKind::Record`] if it is, or is derived from, an attribute of another type than the model declares.
    pub fn read(&self, term: &Term) -> Result<Option<Operand<'s>>> {
        match term {
            Term::Key(index) => Ok(self.variables.get(*index).map(|text| Operand::Text(Cow::Borrowed(text)))),
            Term::Attribute(path) => match attribute(self.image, path) {
                Some(value) if is_as_declared(value, path) => Ok(Some(Operand::Value(value))),
                Some(value) => {
                    let declared = path.declared.unwrap_or("any");
                    Err(self.unfit(
                        term,
                        &format!("must be of type {declared} and is of type {}", value.type_name()),
                    ))
                }
                None => Ok(None),
            },
            Term::Derived(index) => self.derive(*index),
            Term::LookupOutput { lookup, output } => {
                Ok(self.outputs.get(*lookup).and_then(|outputs| outputs.get(*output)).map(Operand::Value))
            }
        }
    }

    /// The value of a term; `None` where the item has none: it is absent, or `NULL`.
    pub(super) fn read_unless_null(&self, term: &Term) -> Result<Option<Operand<'s>>> {
        Ok(self.read(term)?.filter(|value| !value.is_null()))
    }

    /// Renders a key from this image into `key`, whatever that held before.
    ///
    /// # Errors
    /// [`ErrorKind::Record`] if a value is absent, or none that a key can be made of.
    pub fn render(&self, template: &BoundTemplate, key: &mut String) -> Result<()> {
        key.clear();
        for piece in &template.pieces {
            match piece {
                BoundPiece::Literal(text) => key.push_str(text),
                BoundPiece::Value(term, format) => self.render_value(term, *format, key)?,
            }
        }
        Ok(())
    }

    /// The point in time that a term names: text in RFC 3339, a date, an hour, or a number of epoch seconds. As a day it is the
    /// day's beginning.
    ///
    /// # Errors
    /// [`ErrorKind::Record`] if it is absent or none of these.
    pub fn time(&self, term: &Term, format: ValueFormat) -> Result<Timestamp> {
        let time = self.required(term)?.time();
        let time = time.ok_or_else(|| {
            self.unfit(term, "is not a time (RFC 3339 text, a date, an hour, or epoch seconds)")
        })?;
        Ok(match format {
            ValueFormat::Plain => time,
            ValueFormat::Day => time.start_of_day(),
        })
    }

    /// An error that names a term, never its value.
    pub fn unfit(&self, term: &Term, problem: &str) -> Error {
        Error::new(ErrorKind::Record, format!("{} {problem}", self.describe(term)))
            .with("entity", self.entity.name.as_ref())
            .hint("Correct the item or the table model; the record comes again until then")
    }

    fn required(&self, term: &Term) -> Result<Operand<'s>> {
        self.read(term)?.ok_or_else(|| self.unfit(term, "is missing"))
    }

    /// A value as it is written into a cache key or path; `None` where the item has none: it is absent, or `NULL`.
    ///
    /// # Errors
    /// [`ErrorKind::Record`] if it is none that a key can be made of.
    pub(super) fn text(&self, term: &Term, format: ValueFormat) -> Result<Option<Cow<'s, str>>> {
        match self.read_unless_null(term)? {
            None => Ok(None),
            Some(Operand::Text(text)) if format == ValueFormat::Plain => Ok(Some(text)),
            Some(Operand::Value(AttributeValue::S(text))) if format == ValueFormat::Plain => {
                Ok(Some(Cow::Borrowed(text)))
            }
            Some(_) => {
                let mut text = String::new();
                self.render_value(term, format, &mut text)?;
                Ok(Some(Cow::Owned(text)))
            }
        }
    }

    /// Renders one value into a key.
    ///
    /// # Errors
    /// [`ErrorKind::Record`] if it is absent, or none that a key can be made of.
    pub fn render_value(&self, term: &Term, format: ValueFormat, key: &mut String) -> Result<()> {
        match format {
            ValueFormat::Plain => {
                let unfit =
                    || self.unfit(term, "cannot be part of a key: it is neither text, number nor boolean");
                match self.required(term)? {
                    Operand::Text(text) => key.push_str(&text),
                    Operand::Value(AttributeValue::S(text)) => key.push_str(text),
                    Operand::Value(AttributeValue::N(number)) => {
                        // Writing to a String cannot fail.
                        let _ = write!(key, "{number}");
                    }
                    Operand::Value(AttributeValue::Bool(value)) => {
                        key.push_str(if *value { "true" } else { "false" })
                    }
                    Operand::Value(_) | Operand::Ratio { .. } => return Err(unfit()),
                }
            }
            ValueFormat::Day => {
                if let Operand::Value(AttributeValue::S(text)) = self.required(term)?
                    && let Some(day) = Timestamp::day_of_utc(text)
                {
                    key.push_str(day);
                    return Ok(());
                }
                let day = self.time(term, ValueFormat::Plain)?.day();
                key.push_str(&day.ok_or_else(|| self.unfit(term, "is a time beyond the calendar"))?);
            }
        }
        Ok(())
    }

    fn derive(&self, index: usize) -> Result<Option<Operand<'s>>> {
        let Some(derivation) = self.entity.derivations.get(index) else { return Ok(None) };
        match &derivation.kind {
            DerivationKind::First(terms) => {
                for term in terms {
                    if let Some(value) = self.read_unless_null(term)? {
                        return Ok(Some(value));
                    }
                }
                Ok(None)
            }
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
                let hundred = crate::record::Decimal::from(100);
                let numerator = part.times(&hundred).map_err(|cause| {
                    Error::new(
                        ErrorKind::Record,
                        format!("`{}` is beyond DynamoDB's numbers", derivation.name),
                    )
                    .caused_by(cause)
                })?;
                Ok(Some(Operand::Ratio { numerator, denominator: whole.into_owned() }))
            }
        }
    }

    /// The number that a term names; `None` where the item has none: it is absent, or `NULL`.
    ///
    /// # Errors
    /// [`ErrorKind::Record`] if it is not a number.
    pub fn number(&self, term: &Term) -> Result<Option<Cow<'s, crate::record::Decimal>>> {
        match self.read_unless_null(term)? {
            None => Ok(None),
            Some(Operand::Value(AttributeValue::N(number))) => Ok(Some(Cow::Borrowed(number))),
            Some(Operand::Value(other)) => {
                Err(self.unfit(term, &format!("must be a number (N) and is of type {}", other.type_name())))
            }
            Some(Operand::Text(_) | Operand::Ratio { .. }) => Err(self.unfit(term, "must be a number (N)")),
        }
    }

    /// The number or text that `max` and `min` compare; `None` where the item has none: it is absent, or `NULL`.
    ///
    /// # Errors
    /// [`ErrorKind::Record`] if it is neither.
    pub fn extreme(&self, term: &Term, format: ValueFormat) -> Result<Option<AttributeValue<'static>>> {
        match self.read_unless_null(term)? {
            None => Ok(None),
            Some(_) if format != ValueFormat::Plain => {
                let mut text = String::new();
                self.render_value(term, format, &mut text)?;
                Ok(Some(text.into()))
            }
            Some(Operand::Text(text)) => Ok(Some(AttributeValue::text(text))),
            Some(Operand::Value(value @ (AttributeValue::N(_) | AttributeValue::S(_)))) => {
                Ok(Some(value.clone().into_owned()))
            }
            Some(Operand::Value(_) | Operand::Ratio { .. }) => {
                Err(self.unfit(term, "must be a number or text"))
            }
        }
    }

    /// The question that this item asks of a lookup.
    ///
    /// # Errors
    /// [`ErrorKind::Record`] if an input is absent, or cannot be part of a key.
    pub fn question(&self, key: &LookupUse) -> Result<LookupKey<'s>> {
        let text = |input: &Term| -> Result<Cow<'s, str>> {
            match self.read(input)? {
                Some(Operand::Text(text)) => Ok(text),
                Some(Operand::Value(AttributeValue::S(text))) => Ok(Cow::Borrowed(text)),
                Some(_) | None => {
                    let mut text = String::new();
                    self.render_value(input, ValueFormat::Plain, &mut text)?;
                    Ok(Cow::Owned(text))
                }
            }
        };
        if let [input] = key.inputs.as_slice() {
            return Ok(LookupKey { lookup: key.lookup, key: text(input)? });
        }
        let values = key.inputs.iter().map(text).collect::<Result<Vec<_>>>()?;
        Ok(LookupKey::of_several(key.lookup, &values))
    }

    /// What this item gives to those who look it up; `None` where it is absent.
    #[must_use]
    pub fn output(&self, term: &Term) -> Option<AttributeValue<'static>> {
        match self.read(term).ok()?? {
            Operand::Text(text) => Some(AttributeValue::text(text)),
            Operand::Value(value) => Some(value.clone().into_owned()),
            Operand::Ratio { .. } => None,
        }
    }

    fn describe(&self, term: &Term) -> String {
        match term {
            Term::Key(index) => format!("key variable `{}`", name(self.entity.variables.get(*index))),
            Term::Attribute(path) => {
                let within = path.within.iter().map(|name| format!(".{name}")).collect::<String>();
                format!("attribute `{}{within}`", self.model.row_vocabulary.name(path.root))
            }
            Term::Derived(index) => {
                format!("derived value `{}`", name(self.entity.derivations.get(*index).map(|d| &d.name)))
            }
            Term::LookupOutput { .. } => "what the lookup gave".to_owned(),
        }
    }
}

fn name(name: Option<&std::sync::Arc<str>>) -> &str {
    name.map_or("?", |name| name)
}

fn is_as_declared(value: &AttributeValue<'_>, path: &InternedPath) -> bool {
    path.declared.is_none_or(|declared| value.is_of_type(declared) || value.is_null())
}

/// The value at a path of an image.
pub fn attribute<'i, 'a>(image: &'i Image<'a>, path: &InternedPath) -> Option<&'i AttributeValue<'a>> {
    path.within.iter().try_fold(image.get(path.root)?, |value, name| {
        if let AttributeValue::M(map) = value { map.get(name.as_ref()) } else { None }
    })
}
