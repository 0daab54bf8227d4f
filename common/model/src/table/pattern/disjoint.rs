//! Whether two conditions can hold of one item.

use super::{Matcher, Pattern, PatternCondition};
use crate::table::Term;

impl Pattern {
    /// Whether this condition and another provably never hold of one item: both require one of a list of exact values of the same field, and
    /// the lists have no value in common. `is_same` decides whether two terms, each in the scope of its own condition, are the same value.
    pub(crate) fn is_disjoint(&self, other: &Self, is_same: impl Fn(&Term, &Term) -> bool) -> bool {
        let others = exact_fields(&other.condition);
        exact_fields(&self.condition).iter().any(|(term, values)| {
            let mut same_field = others.iter().filter(|(other, _)| is_same(term, other));
            same_field
                .any(|(_, others)| !values.iter().any(|value| others.iter().any(|other| equal(value, other))))
        })
    }
}

/// The fields that must have one of some exact values.
fn exact_fields(condition: &PatternCondition) -> Vec<(&Term, &[Matcher])> {
    match condition {
        PatternCondition::All(conditions) => conditions.iter().flat_map(exact_fields).collect(),
        PatternCondition::Field { term, matchers } if matchers.iter().all(is_exact) => vec![(term, matchers)],
        PatternCondition::Any(_) | PatternCondition::Field { .. } => Vec::new(),
    }
}

fn is_exact(matcher: &Matcher) -> bool {
    match matcher {
        Matcher::Text(_) | Matcher::Number(_) | Matcher::Bool(_) | Matcher::Null => true,
        Matcher::Part(..) | Matcher::Exists(_) | Matcher::Numeric(_) | Matcher::AnythingBut(_) => false,
    }
}

fn equal(one: &Matcher, other: &Matcher) -> bool {
    match (one, other) {
        (Matcher::Text(one), Matcher::Text(other)) => one == other,
        (Matcher::Number(one), Matcher::Number(other)) => one == other,
        (Matcher::Bool(one), Matcher::Bool(other)) => one == other,
        (Matcher::Null, Matcher::Null) => true,
        _ => false,
    }
}
