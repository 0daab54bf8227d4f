//! The derived values of an item's image.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::ImageScope;
use crate::record::{AttributeValue, Decimal, NotADecimal};
use crate::table::{Derivation, DerivationKind, NumberTerm, Operand, Term, TimeTerm};
use crate::{Error, ErrorKind, Result};

impl<'s, 'a: 's> ImageScope<'s, 'a> {
    /// The value of the entity's derivation with this index; `None` if it is absent.
    ///
    /// # Errors
    /// [`ErrorKind::Record`] if a value that it is computed from is of a wrong type, or the result exceeds DynamoDB's limits.
    pub(super) fn derive(&self, index: usize) -> Result<Option<Operand<'s>>> {
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
            self.term_error(term, "is a text that is not a number, such as -1234.5").caused_by(cause)
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

#[cfg(test)]
mod tests;
