//! Measures of one rollup that are equal in every item of it: the usual sign that one of them was meant for another item.
//!
//! Followers and following are the example: both count the same items, and only `bind` states that one of them is counted on the followed
//! user.

use std::collections::{BTreeMap, BTreeSet};

use super::compiler::ModelCompiler;
use super::problem::ProblemCode;
use crate::table::{Aggregate, Measure, Model, ModelNotation, RollupDestination};

/// Everything that decides the value of a measure in the items of one rollup.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct MeasureValue {
    rollup: usize,
    entity: usize,
    /// The rollup's key with the entity's values.
    key: [String; 2],
    lookups: BTreeSet<usize>,
    /// The elements that are counted, if not the items themselves.
    elements: Option<String>,
    conditions: BTreeSet<String>,
    amount: String,
}

/// A measure of a rollup, by its aggregate and its name.
#[derive(Clone, Copy)]
struct NamedMeasure<'m> {
    aggregate: usize,
    measure: &'m Measure,
}

/// Reports pairs of measures that are always equal, each once.
pub(super) fn report_equal_measures(compiler: &mut ModelCompiler<'_, '_>) {
    let ModelCompiler { model, findings, measures, .. } = compiler;
    let place = |named: NamedMeasure<'_>| {
        let attributes = named.measure.attributes();
        let is_it = |attribute: &str| attributes.iter().any(|known| **known == *attribute);
        let known = measures.iter().find(|held| held.aggregate == named.aggregate && is_it(&held.attribute));
        known.map_or(0, |held| held.at)
    };
    let mut reported = BTreeSet::new();
    for (value, (first, others)) in equal_measures(model) {
        let rollup = model.rollups.get(value.rollup).map_or("", |rollup| &*rollup.name);
        for other in others {
            let (at, first_at) = (place(other), place(first));
            if at == first_at || !reported.insert((at, first_at)) {
                continue;
            }
            let aggregate = model.aggregates.get(other.aggregate).map_or("", |aggregate| &*aggregate.name);
            let message = format!(
                "aggregate `{aggregate}`: measure `{}` is always equal to `{}` in rollup `{rollup}`: both count the same items in the same way; if one of them belongs to another item, count it in an aggregate with `bind`, otherwise remove one",
                other.measure.name, first.measure.name
            );
            findings.report(ProblemCode::EqualMeasures, at, message).related(first_at, "the other measure");
        }
    }
}

/// A value that several measures have: the first measure in the file's order, and the remaining ones.
fn equal_measures(
    model: &Model,
) -> impl Iterator<Item = (MeasureValue, (NamedMeasure<'_>, Vec<NamedMeasure<'_>>))> {
    let mut by_value: BTreeMap<MeasureValue, (NamedMeasure<'_>, Vec<NamedMeasure<'_>>)> = BTreeMap::new();
    for (index, aggregate) in model.aggregates.iter().enumerate() {
        for destination in &aggregate.into {
            for measure in &aggregate.measures {
                let named = NamedMeasure { aggregate: index, measure };
                let value = measure_value(model, aggregate, destination, measure);
                by_value
                    .entry(value)
                    .and_modify(|(_, others)| others.push(named))
                    .or_insert_with(|| (named, Vec::new()));
            }
        }
    }
    by_value.into_iter().filter(|(_, (_, others))| !others.is_empty())
}

fn measure_value(
    model: &Model,
    aggregate: &Aggregate,
    destination: &RollupDestination,
    measure: &Measure,
) -> MeasureValue {
    let notation = ModelNotation::of(model, aggregate.of, &aggregate.lookups);
    let conditions = [&aggregate.when, &measure.when].into_iter().flatten();
    MeasureValue {
        rollup: destination.rollup,
        entity: aggregate.of,
        key: [&destination.partition, &destination.sort].map(|key| notation.template(key)),
        lookups: aggregate.lookups.iter().map(|used| used.lookup).collect(),
        elements: aggregate.for_each.as_ref().map(|elements| elements.describe(&notation)),
        conditions: conditions.map(|condition| notation.condition(condition)).collect(),
        amount: measure.kind.describe(&notation),
    }
}
