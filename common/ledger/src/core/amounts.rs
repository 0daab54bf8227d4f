//! Sums of measures.

use std::sync::Arc;

use afterwrite_model::projection::MeasureAmounts;
use afterwrite_model::record::Decimal;

/// Adds to a measure, exactly. The sum may exceed what DynamoDB stores: see `ItemPlan::exceeding`.
pub(super) fn add(sums: &mut MeasureAmounts, name: &Arc<str>, number: &Decimal) {
    match amount_of(sums, name) {
        None => sums.push((Arc::clone(name), number.clone())),
        Some(sum) => *sum = sum.plus_unlimited(number),
    }
}

/// The amount of a measure.
pub(super) fn amount_of<'s>(sums: &'s mut MeasureAmounts, name: &Arc<str>) -> Option<&'s mut Decimal> {
    // Nearly all names are shared with the model, so that comparing pointers is enough.
    let same = sums.iter().position(|(known, _)| Arc::ptr_eq(known, name));
    let index = same.or_else(|| sums.iter().position(|(known, _)| known == name));
    index.and_then(|index| sums.get_mut(index)).map(|(_, sum)| sum)
}
