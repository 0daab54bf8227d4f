//! Conditions, written as Lambda event filter patterns.
//!
//! The meaning is AWS's, on attribute values instead of JSON: fields are ANDed, a field's matchers ORed; a list or set
//! matches if one of its elements does; a field that is missing satisfies `exists = false` and nothing else, not even
//! `anything-but`. A map satisfies `exists = true` and nothing else: it has no value to compare. `NULL` satisfies
//! `exists = false` as well. Numbers compare as exact decimals, and a number never equals a text.
//!
//! A condition is first evaluated before lookups, when a field that is an output of a lookup is unknown. The result is often
//! known nevertheless: `status = ["DONE"]` excludes a draft without knowing its lookups.

mod compared;
mod contradiction;
mod disjoint;
mod notation;
pub(super) mod settings;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

pub use self::compared::ComparedValue;
pub(super) use self::contradiction::contradiction;
use super::named::named_values;
use super::{Term, TimeReading};
use crate::record::{AttributeValue, Decimal, Timestamp};

/// A value as a condition or a measure sees it.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand<'v> {
    /// An attribute, or an output of a lookup.
    Value(&'v AttributeValue<'v>),
    /// A variable of the key.
    Text(Cow<'v, str>),
    /// A derived number.
    Number(Decimal),
    /// A derived ratio.
    Ratio {
        /// The dividend.
        numerator: Decimal,
        /// The divisor: above 0.
        denominator: Decimal,
    },
}

impl Operand<'_> {
    /// Whether it is DynamoDB's `NULL`, which stands for no value.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Value(value) if value.is_null())
    }

    /// The point in time that a value names, if it is read in this way.
    #[must_use]
    pub fn time(&self, reading: TimeReading) -> Option<Timestamp> {
        match self {
            Self::Text(text) => reading.of_text(text),
            Self::Value(AttributeValue::S(text)) => reading.of_text(text),
            Self::Value(AttributeValue::N(number)) | Self::Number(number) => reading.of_number(number),
            Self::Value(_) | Self::Ratio { .. } => None,
        }
    }
}

/// A condition on the values of one entity's scope.
///
/// | matcher | holds of |
/// |---|---|
/// | `"text"`, `7`, `0.10`, `true`, `{ null = true }` | an equal value of that type |
/// | `{ prefix = "a" }`, `{ suffix = "a" }` | a text that begins or ends so |
/// | `{ equals-ignore-case = "a" }` | a text that is equal in lower case |
/// | `{ numeric = [">", 0, "<=", 5] }` | a number within the bounds; or one bound, or `["=", 5]` |
/// | `{ anything-but = "a" }`, `{ anything-but = ["a", "b"] }` | a value, present, not a map, and none of these |
/// | `{ anything-but = { prefix = "a" } }` | likewise with `prefix`, `suffix` or `equals-ignore-case` |
/// | `{ exists = true }`, `{ exists = false }` | any value except `NULL`; no value, or `NULL` |
///
/// Three things differ from AWS: numbers are exact decimals of 38 digits, `exists` also tests a map, and `NULL` counts as
/// absent for `exists`.
#[derive(Clone, Debug)]
pub struct Pattern {
    pub(super) condition: PatternCondition,
}

#[derive(Clone, Debug)]
pub(super) enum PatternCondition {
    All(Vec<PatternCondition>),
    Any(Vec<PatternCondition>),
    Field { term: Term, matchers: Vec<Matcher> },
}

#[derive(Clone, Debug)]
pub(super) enum Matcher {
    Text(Arc<str>),
    Number(Decimal),
    Bool(bool),
    Null,
    /// A test of a text; the operand is [`TextTest::operand`].
    Part(TextTest, Arc<str>),
    Exists(bool),
    /// All comparisons hold.
    Numeric(Vec<(Comparison, Decimal)>),
    /// A value is present, and is not one of these.
    AnythingBut(Vec<Matcher>),
}

named_values! {
    /// A test of a text against another.
    pub(super) enum TextTest {
        IgnoreCase = "equals-ignore-case",
        Prefix = "prefix",
        Suffix = "suffix",
    }
}

impl TextTest {
    /// The text that is compared with, which the model file has as `text`.
    fn operand(self, text: &str) -> Arc<str> {
        match self {
            Self::Prefix | Self::Suffix => Arc::from(text),
            Self::IgnoreCase => Arc::from(text.to_lowercase()),
        }
    }

    fn holds(self, text: &str, operand: &str) -> bool {
        match self {
            Self::Prefix => text.starts_with(operand),
            Self::Suffix => text.ends_with(operand),
            Self::IgnoreCase => text.to_lowercase() == operand,
        }
    }
}

named_values! {
    /// The matchers that are tables, next to the [`TextTest`]s.
    pub(super) enum MatcherName {
        AnythingBut = "anything-but",
        Exists = "exists",
        Null = "null",
        Numeric = "numeric",
    }
}

named_values! {
    /// An operator of `numeric`.
    pub(super) enum Comparison {
        Equal = "=",
        Less = "<",
        AtMost = "<=",
        Greater = ">",
        AtLeast = ">=",
    }
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
    /// Holds if one of these numbers is present and not 0; `None` without numbers.
    pub(super) fn any_nonzero(numbers: Vec<Term>) -> Option<Self> {
        let nonzero = |term| PatternCondition::Field {
            term,
            matchers: vec![Matcher::AnythingBut(vec![Matcher::Number(Decimal::from(0))])],
        };
        let choices: Vec<_> = numbers.into_iter().map(nonzero).collect();
        (!choices.is_empty()).then_some(Self { condition: PatternCondition::Any(choices) })
    }

    /// Whether the condition holds. `read` returns the value of a term, `None` if it is absent; values are read when they
    /// are needed, fields in the order of the model file, until the result is certain.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn matches<'v, E>(
        &self,
        read: &mut impl FnMut(&Term) -> Result<Option<Operand<'v>>, E>,
    ) -> Result<bool, E> {
        let result = self.condition.evaluate(read, EvaluationStage::AfterLookups)?;
        // After lookups every value is known, so there is a result.
        Ok(result.unwrap_or(false))
    }

    /// Whether the condition holds, as far as that is known before lookups: `None` if it depends on their outputs or on an element,
    /// which `read` is not called for.
    ///
    /// # Errors
    /// The errors of `read`, unless the outputs of lookups decide whether the value is read: then the result is not known.
    pub fn matches_before_lookups<'v, E>(
        &self,
        read: &mut impl FnMut(&Term) -> Result<Option<Operand<'v>>, E>,
    ) -> Result<Option<bool>, E> {
        self.condition.evaluate(read, EvaluationStage::BeforeLookups)
    }

    /// The parts of the condition that do not hold, each a condition of its own: fields, and choices none of whose alternatives holds. Parts
    /// that read elements are left out. `read` returns the value of a term, `None` if it is absent or cannot be read.
    pub fn unmet<'v>(&self, read: &mut impl FnMut(&Term) -> Option<Operand<'v>>) -> Vec<Self> {
        let mut unmet = Vec::new();
        self.condition.add_unmet(read, &mut unmet);
        unmet
    }

    /// The field that the condition is on, if it is on one.
    #[must_use]
    pub fn field(&self) -> Option<&Term> {
        match &self.condition {
            PatternCondition::Field { term, .. } => Some(term),
            PatternCondition::All(_) | PatternCondition::Any(_) => None,
        }
    }

    /// Calls `visit` with every term that the condition reads.
    pub(super) fn each_term(&self, visit: &mut impl FnMut(&Term)) {
        self.condition.each_term(visit);
    }
}

/// When a condition is evaluated.
#[derive(Clone, Copy)]
enum EvaluationStage {
    /// The outputs of lookups and the elements of the item are unknown.
    BeforeLookups,
    /// Every value is known.
    AfterLookups,
}

impl EvaluationStage {
    fn knows(self, term: &Term) -> bool {
        match self {
            Self::BeforeLookups => term.output_lookup().is_none() && !term.is_of_element(),
            Self::AfterLookups => true,
        }
    }
}

impl PatternCondition {
    /// Whether it holds; `None` if unknown values decide that.
    fn evaluate<'v, E>(
        &self,
        read: &mut impl FnMut(&Term) -> Result<Option<Operand<'v>>, E>,
        stage: EvaluationStage,
    ) -> Result<Option<bool>, E> {
        match self {
            Self::All(conditions) => Self::evaluate_group(conditions, false, read, stage),
            Self::Any(conditions) => Self::evaluate_group(conditions, true, read, stage),
            Self::Field { term, .. } if !stage.knows(term) => Ok(None),
            Self::Field { term, matchers } => {
                let operand = read(term)?;
                Ok(Some(matchers.iter().any(|matcher| matcher.matches(operand.as_ref()))))
            }
        }
    }

    /// The result of a group of conditions. One `decisive` result decides the group: `false` if all conditions must hold, `true`
    /// if one must hold.
    fn evaluate_group<'v, E>(
        conditions: &[Self],
        decisive: bool,
        read: &mut impl FnMut(&Term) -> Result<Option<Operand<'v>>, E>,
        stage: EvaluationStage,
    ) -> Result<Option<bool>, E> {
        let mut is_known = true;
        for condition in conditions {
            match condition.evaluate(read, stage) {
                Ok(Some(result)) if result == decisive => return Ok(Some(decisive)),
                Ok(Some(_)) => {}
                Ok(None) => is_known = false,
                // The unknown condition before it may be decisive, and then this value is not read.
                Err(_) if !is_known => {}
                Err(error) => return Err(error),
            }
        }
        Ok(is_known.then_some(!decisive))
    }

    fn add_unmet<'v>(&self, read: &mut impl FnMut(&Term) -> Option<Operand<'v>>, unmet: &mut Vec<Pattern>) {
        if let Self::All(conditions) = self {
            return conditions.iter().for_each(|condition| condition.add_unmet(read, unmet));
        }
        let mut reads_elements = false;
        self.each_term(&mut |term| reads_elements |= term.is_of_element());
        let mut infallible = |term: &Term| Ok::<_, std::convert::Infallible>(read(term));
        let holds = self.evaluate(&mut infallible, EvaluationStage::AfterLookups);
        if !reads_elements && holds == Ok(Some(false)) {
            unmet.push(Pattern { condition: self.clone() });
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

/// A single value, not a list, set or map.
enum ScalarValue<'v> {
    Text(&'v str),
    Number(&'v Decimal),
    Ratio(&'v Decimal, &'v Decimal),
    Bool(bool),
    Null,
    /// A value that no pattern can express: binary.
    Other,
}

impl Matcher {
    fn matches(&self, operand: Option<&Operand<'_>>) -> bool {
        match (self, operand) {
            (Self::Exists(wanted), operand) => *wanted == operand.is_some_and(|operand| !operand.is_null()),
            (_, None) => false,
            (_, Some(Operand::Value(value))) => self.matches_value(value),
            (_, Some(Operand::Text(text))) => self.matches_scalar(&ScalarValue::Text(text)),
            (_, Some(Operand::Number(number))) => self.matches_scalar(&ScalarValue::Number(number)),
            (_, Some(Operand::Ratio { numerator, denominator })) => {
                self.matches_scalar(&ScalarValue::Ratio(numerator, denominator))
            }
        }
    }

    fn matches_value(&self, value: &AttributeValue<'_>) -> bool {
        match value {
            AttributeValue::S(text) => self.matches_scalar(&ScalarValue::Text(text)),
            AttributeValue::N(number) => self.matches_scalar(&ScalarValue::Number(number)),
            AttributeValue::Bool(value) => self.matches_scalar(&ScalarValue::Bool(*value)),
            AttributeValue::Null => self.matches_scalar(&ScalarValue::Null),
            AttributeValue::B(_) => self.matches_scalar(&ScalarValue::Other),
            AttributeValue::L(list) => list.iter().any(|element| self.matches_value(element)),
            AttributeValue::Ss(set) => set.iter().any(|text| self.matches_scalar(&ScalarValue::Text(text))),
            AttributeValue::Ns(set) => {
                set.iter().any(|number| self.matches_scalar(&ScalarValue::Number(number)))
            }
            AttributeValue::Bs(set) => set.iter().any(|_| self.matches_scalar(&ScalarValue::Other)),
            AttributeValue::M(_) => false,
        }
    }

    fn matches_scalar(&self, value: &ScalarValue<'_>) -> bool {
        match (self, value) {
            (Self::Text(wanted), ScalarValue::Text(text)) => **wanted == **text,
            (Self::Part(test, operand), ScalarValue::Text(text)) => test.holds(text, operand),
            (Self::Bool(wanted), ScalarValue::Bool(value)) => wanted == value,
            (Self::Null, ScalarValue::Null) => true,
            (Self::Number(wanted), value) => compare(value, wanted).is_some_and(Ordering::is_eq),
            (Self::Numeric(bounds), value) => bounds.iter().all(|(comparison, bound)| {
                compare(value, bound).is_some_and(|ordering| comparison.holds(ordering))
            }),
            (Self::AnythingBut(excluded), value) => {
                !excluded.iter().any(|matcher| matcher.matches_scalar(value))
            }
            (Self::Exists(wanted), _) => *wanted,
            (Self::Text(_) | Self::Part(..) | Self::Bool(_) | Self::Null, _) => false,
        }
    }
}

/// How a number compares with a bound; `None` if it is not a number.
fn compare(value: &ScalarValue<'_>, bound: &Decimal) -> Option<Ordering> {
    match value {
        ScalarValue::Number(number) => Some((*number).cmp(bound)),
        ScalarValue::Ratio(numerator, denominator) => Some(numerator.compare_quotient(denominator, bound)),
        ScalarValue::Text(_) | ScalarValue::Bool(_) | ScalarValue::Null | ScalarValue::Other => None,
    }
}

#[cfg(test)]
mod tests;
