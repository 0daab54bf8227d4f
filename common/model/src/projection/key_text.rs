//! The values of an image as texts in keys: of rollups, lookups, cache entries and paths.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::{ImageScope, LookupKey};
use crate::record::{AttributeValue, NamedZone, Timestamp};
use crate::table::{
    BoundPiece, BoundTemplate, FormatZone, ItemZone, LookupUse, Mirror, Operand, Rollup, RollupExpiry,
    RollupKeys, Term, TimeFormat, ValueFormat,
};
use crate::{Error, ErrorKind, Result};

const OUTSIDE_CALENDAR: &str = "is a time whose year does not have four digits";

impl<'s, 'a: 's> ImageScope<'s, 'a> {
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
}

#[cfg(test)]
mod tests;
