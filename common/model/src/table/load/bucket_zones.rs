//! Rollups whose sources fill one part of the key in different time zones: one day or month of the key is then two different times.
//!
//! A rollup of days in local zones that counts into months is the example: its months are local, and the months of another source are in UTC.

use std::collections::BTreeSet;

use super::compiler::ModelCompiler;
use super::problem::ProblemCode;
use crate::table::bucket_format::filled_with;
use crate::table::{Aggregate, FormatZone, Model, RollupDestination, Term, TimeReading, ValueFormat};

/// The calendar that a part of a key lies in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum BucketZone {
    Utc,
    /// A zone of the database.
    Named(&'static str),
    /// The zone that each item states.
    OfItem,
}

impl BucketZone {
    fn described(&self) -> String {
        match self {
            Self::Utc => "UTC".to_owned(),
            Self::Named(name) => format!("`{name}`"),
            Self::OfItem => "the zone of each item".to_owned(),
        }
    }
}

/// Reports variables of rollups' keys that are in different zones, each once.
pub(super) fn report_mixed_zones(compiler: &mut ModelCompiler<'_, '_>) {
    let ModelCompiler { model, findings, places, .. } = compiler;
    for (index, rollup) in model.rollups.iter().enumerate() {
        for (variable, name) in rollup.variables.iter().enumerate() {
            let filled = zones_by_aggregate(model, index, variable);
            let Some((first, zones)) = filled.first() else { continue };
            let Some((other, others)) = filled.iter().find(|(_, others)| others != zones) else { continue };
            let described = |zones: &BTreeSet<BucketZone>| {
                zones.iter().map(BucketZone::described).collect::<Vec<_>>().join(" and ")
            };
            let named =
                |aggregate: usize| model.aggregates.get(aggregate).map_or("", |aggregate| &*aggregate.name);
            let message = format!(
                "rollup `{}`: `{{{name}}}` is in {} where aggregate `{}` counts, and in {} where `{}` counts, so that one value of it is two different times; write a variable without a format in the key, and let both aggregates fill it with `bind`, in the same zone",
                rollup.name,
                described(zones),
                named(*first),
                described(others),
                named(*other),
            );
            let place = |aggregate: usize| places.aggregates.get(aggregate).copied().unwrap_or_default();
            findings
                .report(ProblemCode::MixedZones, place(*other), message)
                .related(place(*first), "the other aggregate");
        }
    }
}

/// The zones in which each aggregate fills a variable of a rollup's key, in the order of the file. An aggregate that fills it with something else
/// than a part of the calendar is left out.
fn zones_by_aggregate(model: &Model, rollup: usize, variable: usize) -> Vec<(usize, BTreeSet<BucketZone>)> {
    let mut filled = Vec::new();
    for (index, aggregate) in model.aggregates.iter().enumerate() {
        let destinations = aggregate.into.iter().filter(|destination| destination.rollup == rollup);
        let zones: BTreeSet<BucketZone> =
            destinations.flat_map(|destination| zones_of(model, aggregate, destination, variable)).collect();
        if !zones.is_empty() {
            filled.push((index, zones));
        }
    }
    filled
}

/// The zones in which an aggregate fills a variable of a rollup's key.
fn zones_of(
    model: &Model,
    aggregate: &Aggregate,
    destination: &RollupDestination,
    variable: usize,
) -> BTreeSet<BucketZone> {
    let Some(rollup) = model.rollups.get(destination.rollup) else { return BTreeSet::new() };
    let values = filled_with(rollup, destination, variable);
    values.flat_map(|(term, format)| zones_of_value(model, aggregate, term, format)).collect()
}

fn zones_of_value(
    model: &Model,
    aggregate: &Aggregate,
    term: &Term,
    format: &ValueFormat,
) -> BTreeSet<BucketZone> {
    // A part of the calendar in the key of a rollup that is a source is in the zones of that rollup's own sources.
    let below = model.entities.get(aggregate.of).and_then(|entity| entity.rollup);
    if let Some((below, variable)) = below.zip(term.key_variable()) {
        let filled = zones_by_aggregate(model, below, variable);
        return filled.into_iter().flat_map(|(_, zones)| zones).collect();
    }
    let Some(format) = format.time() else { return BTreeSet::new() };
    match (&format.zone, format.reading) {
        (_, TimeReading::Bucket(_, Some(zone))) => BTreeSet::from([BucketZone::Named(zone.name())]),
        (FormatZone::Utc, _) => BTreeSet::from([BucketZone::Utc]),
        (FormatZone::Named(zone), _) => BTreeSet::from([BucketZone::Named(zone.name())]),
        (FormatZone::OfItem(_), _) => BTreeSet::from([BucketZone::OfItem]),
    }
}
