//! Evaluates conditions on stored items, by DynamoDB's rules for expressions.

use std::cmp::Ordering;

use super::WriteCondition;
use crate::record::{AttributePath, AttributeValue, Item};

/// Whether the condition compares by order with a value of a type that has no order. DynamoDB refuses such a condition.
#[must_use]
pub fn has_unordered_operand(condition: &WriteCondition) -> bool {
    match condition {
        WriteCondition::All(parts) | WriteCondition::Any(parts) => parts.iter().any(has_unordered_operand),
        WriteCondition::Less(_, value) => {
            !matches!(value, AttributeValue::S(_) | AttributeValue::N(_) | AttributeValue::B(_))
        }
        WriteCondition::Always
        | WriteCondition::ItemExists
        | WriteCondition::ItemAbsent
        | WriteCondition::Absent(_)
        | WriteCondition::Equals(..)
        | WriteCondition::Differs(..) => false,
    }
}

/// Whether `condition` holds of `stored`, which is `None` if the item does not exist.
#[must_use]
pub fn holds(condition: &WriteCondition, stored: Option<&Item>) -> bool {
    match condition {
        WriteCondition::Always => true,
        WriteCondition::All(parts) => parts.iter().all(|part| holds(part, stored)),
        WriteCondition::Any(parts) => parts.iter().any(|part| holds(part, stored)),
        WriteCondition::ItemExists => stored.is_some(),
        WriteCondition::ItemAbsent => stored.is_none(),
        WriteCondition::Absent(path) => attribute(stored, path).is_none(),
        WriteCondition::Equals(path, value) => {
            attribute(stored, path).is_some_and(|stored| equal(stored, value))
        }
        WriteCondition::Differs(path, value) => {
            attribute(stored, path).is_some_and(|stored| !equal(stored, value))
        }
        WriteCondition::Less(path, value) => {
            attribute(stored, path).and_then(|stored| order(stored, value)) == Some(Ordering::Less)
        }
    }
}

/// The value at a path, if every map along the path exists.
pub(super) fn attribute<'i>(
    item: Option<&'i Item>,
    path: &AttributePath,
) -> Option<&'i AttributeValue<'static>> {
    let mut value = item?.get(&**path.root())?;
    for name in path.within() {
        let AttributeValue::M(map) = value else { return None };
        value = map.get(&**name)?;
    }
    Some(value)
}

/// Whether two values are equal: same type, numbers by value, sets regardless of order.
#[must_use]
pub fn equal(a: &AttributeValue<'_>, b: &AttributeValue<'_>) -> bool {
    match (a, b) {
        (AttributeValue::Ss(a), AttributeValue::Ss(b)) => equal_sets(a, b),
        (AttributeValue::Ns(a), AttributeValue::Ns(b)) => equal_sets(a, b),
        (AttributeValue::Bs(a), AttributeValue::Bs(b)) => equal_sets(a, b),
        (AttributeValue::L(a), AttributeValue::L(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (AttributeValue::M(a), AttributeValue::M(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && equal(a.1, b.1))
        }
        _ => a == b,
    }
}

fn equal_sets<T: Ord>(a: &[T], b: &[T]) -> bool {
    fn sorted<T: Ord>(set: &[T]) -> Vec<&T> {
        let mut members: Vec<&T> = set.iter().collect();
        members.sort_unstable();
        members
    }
    a.len() == b.len() && sorted(a) == sorted(b)
}

fn order(a: &AttributeValue<'_>, b: &AttributeValue<'_>) -> Option<Ordering> {
    match (a, b) {
        // Strings are ordered by their UTF-8 bytes.
        (AttributeValue::S(a), AttributeValue::S(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
        (AttributeValue::N(a), AttributeValue::N(b)) => Some(a.cmp(b)),
        (AttributeValue::B(a), AttributeValue::B(b)) => Some(a.cmp(b)),
        _ => None,
    }
}
