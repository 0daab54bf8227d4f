//! The length of the update expression that writes a rollup.
//!
//! A transaction folds the changes of many items, so one update may change every measure of a rollup, and the settled
//! part of each. DynamoDB allows 4 KB. Names and values do not count, because the expression has a placeholder of its
//! own for each (`#12=:13`); so the number of attributes decides.

use std::collections::BTreeSet;

use super::compiler::{ModelCompiler, RollupMeasure};
use super::problem::ProblemCode;
use crate::table::{Model, OnExpiry};

/// The length of an expression: DynamoDB's limit, in bytes.
const MAX_EXPRESSION_BYTES: usize = 4096;

/// The attributes of a rollup next to its measures that an update sets: `EntityType`, `rev` and `updated_at`.
const OWN_ATTRIBUTES: usize = 3;

/// No update of a rollup is longer than DynamoDB allows.
pub(super) fn check_update_sizes(compiler: &mut ModelCompiler<'_, '_>) {
    for (index, (rollup, at)) in compiler.model.rollups.iter().zip(&compiler.places.rollups).enumerate() {
        // Rollups whose keys overlap may be one item.
        let same_item: BTreeSet<usize> = rollup.overlaps.iter().copied().chain([index]).collect();
        let ranks = same_item.iter().filter_map(|index| compiler.model.rollups.get(*index));
        let ranks: usize = ranks.map(|rollup| rollup.ranks.len()).sum();
        let own = OWN_ATTRIBUTES + usize::from(rollup.lifetime.is_some()) + ranks;
        let (mut measures, mut attributes, mut too_many) = (0, own, None);
        for measure in compiler.measures.iter().filter(|measure| same_item.contains(&measure.rollup)) {
            measures += 1;
            attributes += 1 + usize::from(has_settled_part(&compiler.model, measure));
            if too_many.is_none() && update_bytes(attributes) > MAX_EXPRESSION_BYTES {
                too_many = Some(measure.at);
            }
        }
        let Some(too_many) = too_many else { continue };
        let message = format!(
            "rollup `{}`: one update could change {attributes} attributes ({measures} measures, the parts of them that expired items settle, and {own} of its own), which takes an expression of {} bytes; DynamoDB allows {MAX_EXPRESSION_BYTES}: count some of the measures into another rollup, or use fewer bins",
            rollup.name,
            update_bytes(attributes)
        );
        let problem = compiler.findings.report(ProblemCode::UpdateTooLong, *at, message);
        problem.related(too_many, "the first measure beyond the limit");
    }
}

/// Whether expired items leave a part of the measure that is also added to `settled_<measure>`.
fn has_settled_part(model: &Model, measure: &RollupMeasure) -> bool {
    let aggregate = model.aggregates.get(measure.aggregate);
    let entity = aggregate.and_then(|aggregate| model.entities.get(aggregate.of));
    let is_computed =
        model.rollups.get(measure.rollup).is_some_and(|rollup| rollup.has_computed(&measure.attribute));
    !is_computed && entity.is_some_and(|entity| entity.on_expiry == OnExpiry::Keep)
}

/// The most bytes of an update expression that changes this many attributes.
fn update_bytes(attributes: usize) -> usize {
    // Each change has a name and a value: `#12=:13,` or `#12 :13,`. The condition on `rev` precedes the update, so every
    // number is at most one larger than the number of the change.
    let change = |number: usize| "#=:,".len() + 2 * digits(number + 1);
    "SET  ADD  REMOVE ".len() + (0..attributes).map(change).sum::<usize>()
}

fn digits(number: usize) -> usize {
    1 + number.checked_ilog10().map_or(0, |digits| usize::try_from(digits).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_follows_from_the_numbers_of_the_placeholders() {
        // Written out: the numbers from 1 to 12.
        let longest =
            "SET #1=:1,#2=:2,#3=:3,#4=:4,#5=:5,#6=:6,#7=:7,#8=:8,#9=:9, ADD #10 :10,#11 :11, REMOVE #12=:12,";
        assert_eq!(update_bytes(12), longest.len());
    }

    #[test]
    fn the_limit_is_429_attributes() {
        assert!(update_bytes(429) <= MAX_EXPRESSION_BYTES && update_bytes(430) > MAX_EXPRESSION_BYTES);
    }
}
