//! The measures of a changed aggregate that a backfill does not bring to their new value.

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite_model::table::{AggregateDescription, MeasureDescription, MeasureFunction, ModelDescription};

use super::Differences;

/// Why measures stay wrong whose attribute has the values of another measure, and what to do instead. A value that was seen is never taken
/// back, and a value that is to be seen does not replace a sum.
pub(super) fn extreme_problem(
    aggregate: &str,
    now: &AggregateDescription,
    old: &ModelDescription,
) -> Option<String> {
    let before: Vec<_> = old.aggregates.values().flat_map(stored_measures).collect();
    let is_taken = |measure: &StoredMeasure<'_>| {
        let function = measure.description.function;
        let known: Vec<_> = before.iter().filter(|known| known.place == measure.place).collect();
        let is_new = !known.is_empty() && !known.contains(&measure);
        let is_extreme = |measure: &StoredMeasure<'_>| measure.description.function.is_extreme();
        is_new
            && (function.is_contributed() || function == MeasureFunction::Distinct)
            && (is_extreme(measure) || known.into_iter().any(is_extreme))
    };
    let names: BTreeSet<&str> = stored_measures(now).filter(is_taken).map(|measure| measure.name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "aggregate {aggregate}: rollups have values of another meaning in the attributes of {}, and nothing takes these values back: the rollups would go on showing them. Give it another name.",
            names.into_iter().collect::<Vec<_>>().join(", ")
        )
    })
}

/// A measure in an attribute of a rollup.
#[derive(PartialEq)]
struct StoredMeasure<'d> {
    /// The rollup and the attribute.
    place: (&'d str, Arc<str>),
    name: &'d str,
    description: &'d MeasureDescription,
}

/// The measures of an aggregate, once for each attribute that they have in a rollup. Bins of histograms and percentiles are left out: only
/// additive measures have such attributes.
fn stored_measures(aggregate: &AggregateDescription) -> impl Iterator<Item = StoredMeasure<'_>> {
    aggregate.into.names().flat_map(move |rollup| {
        aggregate.measures.iter().flat_map(move |(name, description)| {
            description.function.attributes(name).into_iter().map(move |attribute| StoredMeasure {
                place: (rollup.as_str(), attribute),
                name: name.as_str(),
                description,
            })
        })
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
