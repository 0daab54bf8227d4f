//! The measures of a changed aggregate that a backfill does not bring to their new value.

use afterwrite_model::table::{AggregateDescription, MeasureDescription};

use super::Differences;

/// Why a `max` or `min` that reads something else now stays wrong, and what to do instead.
pub(super) fn extreme_problem(
    aggregate: &str,
    before: &AggregateDescription,
    now: &AggregateDescription,
) -> Option<String> {
    let is_other = |name: &str, measure: &MeasureDescription| {
        let known = before.measures.get(name).filter(|known| known.function.is_extreme());
        measure.function.is_extreme() && known.is_some_and(|known| known != measure)
    };
    let others = now.measures.iter().filter(|(name, measure)| is_other(name, measure));
    let names: Vec<&str> = others.map(|(name, _)| name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "aggregate {aggregate}: {} keeps the values that it has seen, and nothing takes them back: rollups would go on showing values of the old meaning. Give it another name.",
            names.join(", ")
        )
    })
}

/// The way of averages and percentiles into rollups to which nothing is added.
pub(super) fn computed_consequence(before: &AggregateDescription, now: &AggregateDescription) -> String {
    let is_new = |name: &str, measure: &MeasureDescription| {
        !measure.function.is_contributed() && before.measures.get(name) != Some(measure)
    };
    let new = now.measures.iter().filter(|(name, measure)| is_new(name, measure));
    let names: Vec<&str> = new.map(|(name, _)| name.as_str()).collect();
    if names.is_empty() {
        return String::new();
    }
    format!(
        " A rollup shows {} when it changes next: after the backfill, `afterwrite verify --report FILE` names all other rollups, and `afterwrite repair FILE` writes it into them.",
        names.join(", ")
    )
}

/// Measures that an aggregate no longer counts: additive measures go down to 0, other measures keep their value.
pub(super) fn removed_measures(
    old: &AggregateDescription,
    new: &AggregateDescription,
    differences: &mut Differences,
) {
    let left = old.measures.iter().filter(|(name, _)| new.measures.get(name).is_none());
    for (name, measure) in left {
        let rollups = new.into.names().cloned().collect::<Vec<_>>().join(", ");
        let rest = if measure.function.is_additive() {
            "reconciling brings it to 0, except for what TTL has settled"
        } else {
            "it keeps its value"
        };
        differences.orphaned.push(format!("attribute {name} of {rollups}: {rest}"));
    }
}
