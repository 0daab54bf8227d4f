//! The values of terms in the scope of one image of one item.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;

use super::{ItemElement, LookupKey};
use crate::entity::ItemIdentity;
use crate::record::{AttributeValue, Decimal, Image, NamedZone, Timestamp};
use crate::table::{
    BoundPiece, BoundTemplate, Entity, FormatZone, InternedPath, ItemZone, LookupUse, Mirror, Model, Operand,
    Pattern, Rollup, RollupExpiry, RollupKeys, Term, TimeFormat, TimeReading, ValueFormat,
};
use crate::{Error, ErrorKind, Result};

const OUTSIDE_CALENDAR: &str = "is a time whose year does not have four digits";

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
    /// The outputs of the lookups in scope, by the indexes of [`Term::LookupOutput`].
    pub outputs: &'s [&'s LookupOutputs],
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
            outputs: &[],
            element: None,
        }
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

    /// Renders a part of a rollup's key from this image into `key`, replacing its text.
    ///
    /// # Errors
    /// [`ErrorKind::Record`] if a value is absent, or of a type that a key cannot contain.
    pub(super) fn render_rollup(
        &self,
        template: &BoundTemplate,
        keys: RollupKeys,
        key: &mut String,
    ) -> Result<()> {
        key.clear();
        for piece in &template.pieces {
            match piece {
                BoundPiece::Literal(text) => key.push_str(text),
                BoundPiece::Value(term, format) => {
                    let begin = key.len();
                    self.render_value(term, format, key)?;
                    keys.write_tail(key, begin);
                }
            }
        }
        Ok(())
    }

    /// The key, without a shard, of the rollup that this item shows by a mirror.
    ///
    /// # Errors
    /// [`ErrorKind::Record`] if a value is absent, or of a type that a key cannot contain.
    pub fn mirrored_key(&self, mirror: &Mirror, rollup: &Rollup) -> Result<(String, String)> {
        let mut values = Vec::with_capacity(mirror.rollup_variables.len());
        for (term, format) in &mirror.rollup_variables {
            let mut value = String::new();
            self.render_value(term, format, &mut value)?;
            values.push(value);
        }
        Ok(rollup.key(&values))
    }

    /// The time in a term: see [`Operand::time`].
    ///
    /// # Errors
    /// [`ErrorKind::Record`] if the term is absent or not a time.
    pub fn time(&self, term: &Term, reading: TimeReading) -> Result<Timestamp> {
        self.time_of(term, &self.required(term)?, reading)
    }

    /// When the rollup of this item expires: its lifetime after the moment in its key, or after the start of the bucket there.
    ///
    /// # Errors
    /// [`ErrorKind::Record`] if the term is absent or not a time.
    pub(super) fn expiry(&self, expiry: &RollupExpiry) -> Result<Timestamp> {
        let time = self.time(&expiry.of, expiry.reading)?;
        let start = match &expiry.format {
            ValueFormat::Plain => Some(time),
            ValueFormat::Time(format) => self.start_of_bucket(format, time)?,
        };
        Ok(start.ok_or_else(|| self.term_error(&expiry.of, OUTSIDE_CALENDAR))?.plus(expiry.after))
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

    fn required(&self, term: &Term) -> Result<Operand<'s>> {
        self.read(term)?.ok_or_else(|| self.term_error(term, "is missing"))
    }

    /// The text of a value in a cache key or path; `None` if the value is absent or `NULL`.
    ///
    /// # Errors
    /// [`ErrorKind::Record`] if the value is of a type that a key cannot contain.
    pub(super) fn text(&self, term: &Term, format: &ValueFormat) -> Result<Option<Cow<'s, str>>> {
        match self.read_unless_null(term)? {
            None => Ok(None),
            Some(Operand::Text(text)) if format.is_plain() => Ok(Some(text)),
            Some(Operand::Value(AttributeValue::S(text))) if format.is_plain() => {
                Ok(Some(Cow::Borrowed(text)))
            }
            Some(_) if self.lacks_zone(format)? => Ok(None),
            Some(_) => {
                let mut text = String::new();
                self.render_value(term, format, &mut text)?;
                Ok(Some(Cow::Owned(text)))
            }
        }
    }

    /// Appends one value to a key.
    ///
    /// # Errors
    /// [`ErrorKind::Record`] if the value is absent, or of a type that a key cannot contain.
    pub fn render_value(&self, term: &Term, format: &ValueFormat, key: &mut String) -> Result<()> {
        match format {
            ValueFormat::Plain => {
                match self.required(term)? {
                    Operand::Text(text) => key.push_str(&text),
                    Operand::Value(AttributeValue::S(text)) => key.push_str(text),
                    Operand::Value(AttributeValue::N(number)) => {
                        // Writing to a String cannot fail.
                        let _ = write!(key, "{number}");
                    }
                    Operand::Number(number) => {
                        let _ = write!(key, "{number}");
                    }
                    Operand::Value(AttributeValue::Bool(value)) => {
                        key.push_str(if *value { "true" } else { "false" })
                    }
                    Operand::Value(_) | Operand::Ratio { .. } => {
                        let problem = "cannot be part of a key: only text, numbers and booleans can";
                        return Err(self.term_error(term, problem));
                    }
                }
            }
            ValueFormat::Time(format) => {
                if let Operand::Value(AttributeValue::S(text)) = self.required(term)?
                    && let Some(bucket) = format.prefix(text)
                {
                    key.push_str(bucket);
                    return Ok(());
                }
                let time = self.time(term, format.reading)?;
                let written = format.bucket.write(time, self.zone_of(format)?, key);
                written.ok_or_else(|| self.term_error(term, OUTSIDE_CALENDAR))?;
            }
        }
        Ok(())
    }

    /// The zone of a format's calendar; `None` is UTC.
    ///
    /// # Errors
    /// [`ErrorKind::Record`] if the item should state the zone, and its value is absent or not the name of a zone.
    pub(super) fn zone_of(&self, format: &TimeFormat) -> Result<Option<NamedZone>> {
        match &format.zone {
            FormatZone::Utc => Ok(None),
            FormatZone::Named(zone) => Ok(Some(*zone)),
            FormatZone::OfItem(zone) => self.item_zone(zone).map(Some),
        }
    }

    fn item_zone(&self, zone: &ItemZone) -> Result<NamedZone> {
        let Some(term) = &zone.term else {
            let message = format!("zone `{}` has no value; this is a defect of Afterwrite", zone.name);
            return Err(Error::new(ErrorKind::State, message));
        };
        let zone = match self.read_unless_null(term)? {
            None => return Err(self.term_error(term, "is missing or NULL, and should be a time zone")),
            Some(Operand::Text(name)) => NamedZone::of_name(&name),
            Some(Operand::Value(AttributeValue::S(name))) => NamedZone::of_name(name),
            Some(Operand::Value(_) | Operand::Number(_) | Operand::Ratio { .. }) => None,
        };
        zone.ok_or_else(|| {
            self.term_error(
                term,
                "is not the name of a time zone of the IANA database, such as `Europe/Berlin`",
            )
        })
    }

    /// Whether the item should state the zone of a format, and its value is absent or `NULL`.
    pub(super) fn lacks_zone(&self, format: &ValueFormat) -> Result<bool> {
        match format.zone_term() {
            None => Ok(false),
            Some(zone) => Ok(self.read_unless_null(zone)?.is_none()),
        }
    }

    /// The first moment of the bucket that a time is in. If the item states the zone, it is the moment at which UTC shows the bucket: all
    /// items of the bucket agree on it, whatever their zones.
    pub(super) fn start_of_bucket(&self, format: &TimeFormat, time: Timestamp) -> Result<Option<Timestamp>> {
        let zone = self.zone_of(format)?;
        Ok(match &format.zone {
            FormatZone::Utc | FormatZone::Named(_) => format.bucket.start(time, zone),
            FormatZone::OfItem(_) => format.bucket.start_in_utc(time, zone),
        })
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

    /// The number or text that `max` and `min` compare; `None` if it is absent or `NULL`.
    ///
    /// # Errors
    /// [`ErrorKind::Record`] if it is neither a number nor text.
    pub fn extreme(&self, term: &Term, format: &ValueFormat) -> Result<Option<AttributeValue<'static>>> {
        match self.read_unless_null(term)? {
            None => Ok(None),
            Some(_) if !format.is_plain() => {
                if self.lacks_zone(format)? {
                    return Ok(None);
                }
                let mut text = String::new();
                self.render_value(term, format, &mut text)?;
                Ok(Some(text.into()))
            }
            Some(Operand::Text(text)) => Ok(Some(AttributeValue::text(text))),
            Some(Operand::Number(number)) => Ok(Some(number.into())),
            Some(Operand::Value(value @ (AttributeValue::N(_) | AttributeValue::S(_)))) => {
                Ok(Some(value.clone().into_owned()))
            }
            Some(Operand::Value(_) | Operand::Ratio { .. }) => {
                Err(self.term_error(term, "must be a number or text"))
            }
        }
    }

    /// The key of a lookup that this item uses.
    ///
    /// # Errors
    /// [`ErrorKind::Record`] if an input is absent, or cannot be part of a key.
    pub fn lookup_key(&self, lookup: &LookupUse) -> Result<LookupKey<'s>> {
        let text = |input: &Term| {
            let text = self.text(input, &ValueFormat::Plain)?;
            text.ok_or_else(|| self.term_error(input, "is missing or NULL"))
        };
        if let [input] = lookup.inputs.as_slice() {
            return Ok(LookupKey { lookup: lookup.lookup, key: text(input)? });
        }
        let values = lookup.inputs.iter().map(text).collect::<Result<Vec<_>>>()?;
        Ok(LookupKey::of_several(lookup.lookup, &values))
    }

    /// An output of a lookup of this item; `None` if the value is absent or `NULL`.
    #[must_use]
    pub fn output(&self, term: &Term) -> Option<AttributeValue<'static>> {
        match self.read_unless_null(term).ok()?? {
            Operand::Text(text) => Some(AttributeValue::text(text)),
            Operand::Value(value) => Some(value.clone().into_owned()),
            Operand::Number(number) => Some(number.into()),
            Operand::Ratio { .. } => None,
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
            Term::LookupOutput { .. } => "the lookup's output".to_owned(),
        }
    }
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
