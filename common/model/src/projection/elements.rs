//! Aggregates that count each element of a list, set or map: `for_each`.
//!
//! The elements of one item make one contribution to each rollup. Contributions are in the order of the rollups' keys, and sums are exact
//! until the last element is added, so that they do not depend on the order of a set, or on the order of equal elements of a list.

use std::borrow::Cow;
use std::sync::Arc;

use super::element::ItemElements;
use super::measures::{destinations, holds, measured};
use super::{
    Contribution, ExtremeValue, ImageProjection, ImageScope, MeasureAmounts, RollupTargets, ShardAssignment,
    TargetId, TargetIds,
};
use crate::record::{AttributeValue, NotADecimal};
use crate::table::{Aggregate, ForEach, Operand, Pattern};
use crate::{Error, ErrorKind, Result};

impl<'s, 'a: 's> ImageScope<'s, 'a> {
    /// The elements that an aggregate counts; none if the attribute is absent or `NULL`.
    ///
    /// # Errors
    /// [`ErrorKind::Record`] if the value has no elements, or more than the model allows.
    pub(super) fn elements(&self, for_each: &ForEach) -> Result<ItemElements<'s>> {
        let elements = match self.read_unless_null(&for_each.of)? {
            None => ItemElements::List(&[]),
            Some(Operand::Value(AttributeValue::L(list))) => ItemElements::List(list),
            Some(Operand::Value(AttributeValue::M(map))) => ItemElements::Map(map),
            Some(Operand::Value(AttributeValue::Ss(set))) => {
                ItemElements::Set(set.iter().map(|text| AttributeValue::S(Cow::Borrowed(text))).collect())
            }
            Some(Operand::Value(AttributeValue::Ns(set))) => {
                ItemElements::Set(set.iter().cloned().map(AttributeValue::N).collect())
            }
            Some(Operand::Value(AttributeValue::Bs(set))) => {
                ItemElements::Set(set.iter().map(|bytes| AttributeValue::B(Cow::Borrowed(bytes))).collect())
            }
            Some(Operand::Value(_) | Operand::Text(_) | Operand::Number(_) | Operand::Ratio { .. }) => {
                return Err(self.term_error(&for_each.of, "has no elements: it is not a list, set or map"));
            }
        };
        if elements.len() > for_each.at_most {
            let problem = format!("has more than the {} elements of `at_most`", for_each.at_most);
            return Err(self.term_error(&for_each.of, &problem));
        }
        Ok(elements)
    }
}

/// The sums over elements in one rollup.
struct ElementSum {
    target: TargetId,
    measures: MeasureAmounts,
}

/// Adds what the elements of an item contribute to an aggregate. `when` is the condition that each must meet.
pub(super) fn project_elements(
    (aggregate, for_each): (&Aggregate, &ForEach),
    when: Option<&Pattern>,
    scope: &ImageScope<'_, '_>,
    sharding: ShardAssignment<'_>,
    targets: &mut RollupTargets,
    projection: &mut ImageProjection,
) -> Result<()> {
    let elements = scope.elements(for_each)?;
    let (mut sums, mut extremes) = (Vec::<ElementSum>::new(), Vec::<ExtremeValue>::new());
    for element in elements.iter() {
        let scope = ImageScope { element: Some(element), ..*scope };
        if !holds(when, &scope)? {
            continue;
        }
        let (measures, offered) = measured(aggregate, &scope)?;
        if measures.is_empty() && offered.is_empty() {
            continue;
        }
        for target in destinations(aggregate, &scope, sharding, targets)? {
            for (measure, rule, value) in &offered {
                let measure = Arc::clone(measure);
                offer(&mut extremes, ExtremeValue { target, measure, rule: *rule, value: value.clone() });
            }
            add_sum(&mut sums, target, &measures);
        }
    }
    for sum in &mut sums {
        sum.measures.retain(|(_, number)| !number.is_zero());
        if let Some((name, _)) = sum.measures.iter().find(|(_, number)| !number.is_storable()) {
            return Err(too_long(name));
        }
    }
    sums.retain(|sum| !sum.measures.is_empty());
    let key = |target: TargetId| {
        let target = targets.get(target);
        (&*target.partition, &*target.sort, target.shard)
    };
    sums.sort_by(|one, other| key(one.target).cmp(&key(other.target)));
    projection.contributions.by_aggregate.extend(sums.into_iter().map(|ElementSum { target, measures }| {
        let targets = TargetIds::from_slice(&[target]);
        Contribution { aggregate: Arc::clone(&aggregate.name), targets, measures }
    }));
    projection.extremes.append(&mut extremes);
    Ok(())
}

/// Keeps the better one of two values for the same extreme.
fn offer(extremes: &mut Vec<ExtremeValue>, offered: ExtremeValue) {
    let known =
        extremes.iter_mut().find(|known| known.target == offered.target && known.measure == offered.measure);
    match known {
        None => extremes.push(offered),
        Some(known) if offered.rule.prefers(&offered.value, &known.value) => *known = offered,
        Some(_) => {}
    }
}

/// Adds exactly. Only the sum over all elements must be a number of DynamoDB: a set is delivered in any order, so what is exceeded in between
/// must not decide.
fn add_sum(sums: &mut Vec<ElementSum>, target: TargetId, measures: &MeasureAmounts) {
    let sum = match sums.iter_mut().find(|sum| sum.target == target) {
        Some(sum) => sum,
        None => sums.push_mut(ElementSum { target, measures: Vec::new() }),
    };
    for (name, number) in measures {
        match sum.measures.iter_mut().find(|(known, _)| known == name) {
            None => sum.measures.push((Arc::clone(name), number.clone())),
            Some((_, known)) => *known = known.plus_unlimited(number),
        }
    }
}

fn too_long(name: &str) -> Error {
    let message = format!("the sum of measure `{name}` over the item's elements exceeds 38 digits");
    Error::new(ErrorKind::Record, message).caused_by(NotADecimal::Range)
}

#[cfg(test)]
mod tests;
