//! Conditions, written as Lambda event filter patterns.
//!
//! The meaning is AWS's, on attribute values instead of JSON: fields are ANDed, a field's matchers ORed; a list or set
//! matches if one of its elements does; a field that is missing satisfies `exists = false` and nothing else, not even
//! `anything-but`. Numbers compare as exact decimals, and a number never equals a text.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use super::Term;
use crate::record::{AttributeValue, Decimal};

/// A value as a condition or a measure sees it.
#[derive(Clone, Debug)]
pub enum Operand<'v> {
    /// An attribute.
    Value(&'v AttributeValue<'v>),
    /// A variable of the key, or what a lookup gave.
    Text(Cow<'v, str>),
    /// A derived ratio.
    Ratio {
        /// What is divided.
        numerator: Decimal,
        /// What it is divided by: above nought.
        denominator: Decimal,
    },
}

/// A condition on the values of one entity's scope.
#[derive(Clone, Debug)]
pub struct Pattern {
    pub(super) condition: Condition,
}

#[derive(Clone, Debug)]
pub(super) enum Condition {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Field { term: Term, matchers: Vec<Matcher> },
}

#[derive(Clone, Debug)]
pub(super) enum Matcher {
    Text(Arc<str>),
    Number(Decimal),
    Bool(bool),
    Null,
    Prefix(Arc<str>),
    Suffix(Arc<str>),
    /// In lower case.
    IgnoreCase(Arc<str>),
    Exists(bool),
    /// All comparisons hold.
    Numeric(Vec<(Comparison, Decimal)>),
    /// There is a value, and it is none of these.
    AnythingBut(Vec<Matcher>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Comparison {
    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::Less => ordering.is_lt(),
            Self::AtMost => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::AtLeast => ordering.is_ge(),
        }
    }
}

impl Pattern {
    /// Whether the condition holds. `read` gives the value of a term, `None` if there is none; values are read as they
    /// are needed, fields in the order of the model file, until the answer is certain.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn matches<'v, E>(
        &self,
        read: &mut impl FnMut(&Term) -> Result<Option<Operand<'v>>, E>,
    ) -> Result<bool, E> {
        self.condition.matches(read)
    }

    /// Calls `visit` with every term that the condition reads.
    pub(super) fn each_term(&self, visit: &mut impl FnMut(&Term)) {
        self.condition.each_term(visit);
    }
}

impl Condition {
    fn matches<'v, E>(
        &self,
        read: &mut impl FnMut(&Term) -> Result<Option<Operand<'v>>, E>,
    ) -> Result<bool, E> {
        match self {
            Self::All(conditions) => {
                for condition in conditions {
                    if !condition.matches(read)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Any(conditions) => {
                for condition in conditions {
                    if condition.matches(read)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::Field { term, matchers } => {
                let operand = read(term)?;
                Ok(matchers.iter().any(|matcher| matcher.matches(operand.as_ref())))
            }
        }
    }

    fn each_term(&self, visit: &mut impl FnMut(&Term)) {
        match self {
            Self::All(conditions) | Self::Any(conditions) => {
                conditions.iter().for_each(|condition| condition.each_term(visit));
            }
            Self::Field { term, .. } => visit(term),
        }
    }
}

/// A single value, no list, set or map.
enum Scalar<'v> {
    Text(&'v str),
    Number(&'v Decimal),
    Ratio(&'v Decimal, &'v Decimal),
    Bool(bool),
    Null,
    /// A value that no pattern can write down: binary.
    Other,
}

impl Matcher {
    fn matches(&self, operand: Option<&Operand<'_>>) -> bool {
        match (self, operand) {
            (Self::Exists(wanted), operand) => *wanted == operand.is_some(),
            (_, None) => false,
            (_, Some(Operand::Value(value))) => self.matches_value(value),
            (_, Some(Operand::Text(text))) => self.matches_scalar(&Scalar::Text(text)),
            (_, Some(Operand::Ratio { numerator, denominator })) => {
                self.matches_scalar(&Scalar::Ratio(numerator, denominator))
            }
        }
    }

    fn matches_value(&self, value: &AttributeValue<'_>) -> bool {
        match value {
            AttributeValue::S(text) => self.matches_scalar(&Scalar::Text(text)),
            AttributeValue::N(number) => self.matches_scalar(&Scalar::Number(number)),
            AttributeValue::Bool(value) => self.matches_scalar(&Scalar::Bool(*value)),
            AttributeValue::Null => self.matches_scalar(&Scalar::Null),
            AttributeValue::B(_) => self.matches_scalar(&Scalar::Other),
            AttributeValue::L(list) => list.iter().any(|element| self.matches_value(element)),
            AttributeValue::Ss(set) => set.iter().any(|text| self.matches_scalar(&Scalar::Text(text))),
            AttributeValue::Ns(set) => set.iter().any(|number| self.matches_scalar(&Scalar::Number(number))),
            AttributeValue::Bs(set) => set.iter().any(|_| self.matches_scalar(&Scalar::Other)),
            AttributeValue::M(_) => false,
        }
    }

    fn matches_scalar(&self, value: &Scalar<'_>) -> bool {
        match (self, value) {
            (Self::Text(wanted), Scalar::Text(text)) => **wanted == **text,
            (Self::Prefix(prefix), Scalar::Text(text)) => text.starts_with(&**prefix),
            (Self::Suffix(suffix), Scalar::Text(text)) => text.ends_with(&**suffix),
            (Self::IgnoreCase(wanted), Scalar::Text(text)) => text.to_lowercase() == **wanted,
            (Self::Bool(wanted), Scalar::Bool(value)) => wanted == value,
            (Self::Null, Scalar::Null) => true,
            (Self::Number(wanted), value) => compare(value, wanted).is_some_and(Ordering::is_eq),
            (Self::Numeric(bounds), value) => bounds.iter().all(|(comparison, bound)| {
                compare(value, bound).is_some_and(|ordering| comparison.holds(ordering))
            }),
            (Self::AnythingBut(excluded), value) => {
                !excluded.iter().any(|matcher| matcher.matches_scalar(value))
            }
            (Self::Exists(wanted), _) => *wanted,
            (
                Self::Text(_)
                | Self::Prefix(_)
                | Self::Suffix(_)
                | Self::IgnoreCase(_)
                | Self::Bool(_)
                | Self::Null,
                _,
            ) => false,
        }
    }
}

/// How a number compares with a bound; `None` if it is no number.
fn compare(value: &Scalar<'_>, bound: &Decimal) -> Option<Ordering> {
    match value {
        Scalar::Number(number) => Some((*number).cmp(bound)),
        Scalar::Ratio(numerator, denominator) => Some(numerator.compare_quotient(denominator, bound)),
        Scalar::Text(_) | Scalar::Bool(_) | Scalar::Null | Scalar::Other => None,
    }
}
