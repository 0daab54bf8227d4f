//! The values that conditions compare with.

use super::{Matcher, Pattern, PatternCondition};
use crate::record::Decimal;
use crate::table::Term;

/// A value that a condition compares with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ComparedValue<'p> {
    /// A text, or a part of one.
    Text(&'p str),
    /// A number.
    Number(&'p Decimal),
    /// A boolean.
    Bool(bool),
    /// No value: the condition tests whether there is one.
    Absent,
}

impl Pattern {
    /// Calls `visit` with every value that the condition compares a term with.
    pub fn each_value(&self, visit: &mut impl FnMut(&Term, ComparedValue<'_>)) {
        visit_condition(&self.condition, visit);
    }
}

fn visit_condition(condition: &PatternCondition, visit: &mut impl FnMut(&Term, ComparedValue<'_>)) {
    match condition {
        PatternCondition::All(conditions) | PatternCondition::Any(conditions) => {
            conditions.iter().for_each(|condition| visit_condition(condition, visit));
        }
        PatternCondition::Field { term, matchers } => {
            matchers.iter().for_each(|matcher| visit_matcher(matcher, &mut |value| visit(term, value)));
        }
    }
}

fn visit_matcher(matcher: &Matcher, visit: &mut impl FnMut(ComparedValue<'_>)) {
    match matcher {
        Matcher::Text(text) | Matcher::Part(_, text) => visit(ComparedValue::Text(text)),
        Matcher::Number(number) => visit(ComparedValue::Number(number)),
        Matcher::Bool(value) => visit(ComparedValue::Bool(*value)),
        Matcher::Null | Matcher::Exists(_) => visit(ComparedValue::Absent),
        Matcher::Numeric(bounds) => {
            bounds.iter().for_each(|(_, bound)| visit(ComparedValue::Number(bound)));
        }
        Matcher::AnythingBut(matchers) => matchers.iter().for_each(|matcher| visit_matcher(matcher, visit)),
    }
}
