//! Keys that must be distinguishable: of rollups, and of rollups and entities.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::compiler::{ModelCompiler, RollupMeasure};
use super::problem::{ProblemCode, ProblemCollector};
use super::suggestion::listed;
use crate::table::{Entity, KeyPattern, Model, Rollup, Table, Template};

pub(super) fn key_overlaps(a: &KeyPattern, b: &KeyPattern) -> bool {
    // A template that could not be read has no pieces and matches nothing.
    let overlap = |a: &Template, b: &Template| !a.pieces.is_empty() && !b.pieces.is_empty() && a.overlaps(b);
    overlap(&a.partition, &b.partition)
        && match (&a.sort, &b.sort) {
            (Some(a), Some(b)) => overlap(a, b),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
}

fn stored_key(rollup: &Rollup) -> KeyPattern {
    KeyPattern { partition: rollup.stored_partition(), sort: Some(rollup.sort.clone()) }
}

/// Two rollups that can be one item must hold measures of different names and have the same shards and expiry. Within one rollup
/// a name is used once as well.
pub(super) fn check_rollups(compiler: &mut ModelCompiler<'_, '_>) {
    let overlaps = overlapping(&compiler.model.rollups);
    let ModelCompiler { model, findings, measures, places, .. } = compiler;
    let shared = SharedMeasures::of(measures, &overlaps);
    report_taken_names(model, &shared, findings);
    report_overlapping_rollups(model, &places.rollups, (&overlaps, &shared), findings);
    for (rollup, overlaps) in compiler.model.rollups.iter_mut().zip(overlaps) {
        rollup.overlaps = overlaps;
    }
}

/// For each rollup, the indexes of the rollups that can be the same item, ascending.
fn overlapping(rollups: &[Rollup]) -> Vec<Vec<usize>> {
    let keys: Vec<KeyPattern> = rollups.iter().map(stored_key).collect();
    let others = |index: usize, key: &KeyPattern| {
        let others = keys.iter().enumerate();
        let others = others.filter(|(other, their_key)| *other != index && key_overlaps(key, their_key));
        others.map(|(other, _)| other).collect()
    };
    keys.iter().enumerate().map(|(index, key)| others(index, key)).collect()
}

/// Measures of one name that can be one attribute of an item.
#[derive(Default)]
struct SharedMeasures<'m> {
    /// Of one rollup: two measures, by their places in the file, and the rollups that both are in.
    taken: BTreeMap<(usize, usize), TakenName<'m>>,
    /// Of two rollups that overlap: the names.
    overlapping: BTreeMap<(usize, usize), BTreeSet<&'m str>>,
}

struct TakenName<'m> {
    measure: &'m RollupMeasure,
    /// The aggregate that has the other measure.
    other_aggregate: usize,
    rollups: BTreeSet<usize>,
}

impl<'m> SharedMeasures<'m> {
    /// Only measures of one name are compared: a large model has many pairs.
    fn of(measures: &'m [RollupMeasure], overlaps: &[Vec<usize>]) -> Self {
        let mut shared = Self::default();
        let mut earlier: HashMap<(usize, &str), Vec<&RollupMeasure>> = HashMap::new();
        for measure in measures {
            let others = earlier.get(&(measure.rollup, &*measure.attribute)).into_iter().flatten();
            // A rollup that one aggregate names twice was reported as that.
            for other in others.filter(|other| other.at != measure.at) {
                let taken = shared.taken.entry((measure.at, other.at)).or_insert_with(|| TakenName {
                    measure,
                    other_aggregate: other.aggregate,
                    rollups: BTreeSet::new(),
                });
                taken.rollups.insert(measure.rollup);
            }
            for rollup in overlaps.get(measure.rollup).into_iter().flatten() {
                if earlier.contains_key(&(*rollup, &*measure.attribute)) {
                    let pair = (measure.rollup.max(*rollup), measure.rollup.min(*rollup));
                    shared.overlapping.entry(pair).or_default().insert(&measure.attribute);
                }
            }
            earlier.entry((measure.rollup, &*measure.attribute)).or_default().push(measure);
        }
        shared
    }
}

/// Reports measures of one rollup that have the same name, each pair once.
fn report_taken_names(model: &Model, shared: &SharedMeasures<'_>, findings: &mut ProblemCollector<'_>) {
    let aggregate = |index: usize| model.aggregates.get(index).map_or("", |aggregate| &*aggregate.name);
    for ((at, other_at), TakenName { measure, other_aggregate, rollups }) in &shared.taken {
        let rollups = rollups.iter().filter_map(|index| model.rollups.get(*index));
        let rollups: Vec<&str> = rollups.map(|rollup| &*rollup.name).collect();
        let (plural, have) = if rollups.len() == 1 { ("", "has") } else { ("s", "have") };
        let message = format!(
            "aggregate `{}`: rollup{plural} {} already {have} a measure `{}` from aggregate `{}`; rename one",
            aggregate(measure.aggregate),
            listed(&rollups),
            measure.attribute,
            aggregate(*other_aggregate)
        );
        findings.report(ProblemCode::MeasureNameTaken, *at, message).related(*other_at, "the other measure");
    }
}

/// Reports rollups that can be one item, but hold measures of one name or are written in different ways. Each pair once.
fn report_overlapping_rollups(
    model: &Model,
    places: &[usize],
    (overlaps, shared): (&[Vec<usize>], &SharedMeasures<'_>),
    findings: &mut ProblemCollector<'_>,
) {
    let place = |index: usize| places.get(index).copied().unwrap_or(0);
    for (index, (rollup, overlaps)) in model.rollups.iter().zip(overlaps).enumerate() {
        for other_index in overlaps.iter().copied().take_while(|other| *other < index) {
            let Some(other) = model.rollups.get(other_index) else { continue };
            let mut reasons = differences(rollup, other);
            if [index, other_index].into_iter().all(|rollup| model.is_source(rollup)) {
                reasons.push("both are sources, and an item is counted as an item of one of them".to_owned());
            }
            let names = shared.overlapping.get(&(index, other_index));
            reasons.extend(names.map(|names| describe_names(names)));
            if reasons.is_empty() {
                continue;
            }
            let message = format!(
                "rollup `{}`: its key overlaps that of rollup `{}`, but {}; give one of the keys literal text that differs, or state `rollup_keys = \"escaped\"` if only values that contain `#` overlap",
                rollup.name,
                other.name,
                reasons.join(" and ")
            );
            let problem = findings.report(ProblemCode::OverlappingRollups, place(index), message);
            problem.related(place(other_index), "the other rollup");
        }
    }
}

/// How two rollups are written in different ways, or one in a way that only it can be.
fn differences(rollup: &Rollup, other: &Rollup) -> Vec<String> {
    let after = |rollup: &Rollup| rollup.lifetime.map(|lifetime| lifetime.after);
    let mut differences = Vec::new();
    if rollup.shards != other.shards {
        differences.push("they differ in `shards`".to_owned());
    }
    if after(rollup) != after(other) {
        differences.push("they differ in `expires`".to_owned());
    }
    if rollup.is_computed() || other.is_computed() {
        differences.push("one of them has `max`, `min`, `avg` or `percentile`".to_owned());
    }
    differences
}

/// "both have 5 measures of the same name, such as `books`".
fn describe_names(names: &BTreeSet<&str>) -> String {
    let first = names.first().copied().unwrap_or_default();
    match names.len() {
        1 => format!("both have a measure `{first}`"),
        count => format!("both have {count} measures of the same name, such as `{first}`"),
    }
}

/// Afterwrite's own items match no entity, even if the state table has a stream that is read.
pub(super) fn check_rollups_against_entities(compiler: &mut ModelCompiler<'_, '_>) {
    let keys: Vec<KeyPattern> = compiler.model.rollups.iter().map(stored_key).collect();
    for (entity, at) in compiler.model.entities.iter().zip(&compiler.places.entities) {
        if !has_state_key(compiler, entity) || entity.rollup.is_some() {
            continue;
        }
        let rollups = compiler.model.rollups.iter().zip(&compiler.places.rollups);
        for ((rollup, rollup_at), key) in rollups.zip(&keys) {
            if key_overlaps(&entity.key, key) {
                let message = format!(
                    "entity `{}`: its keys overlap those of rollup `{}`, so the rollup's own items could be counted; give them literal text that differs",
                    entity.name, rollup.name
                );
                let problem = compiler.findings.report(ProblemCode::EntityOverlapsRollup, *at, message);
                problem.related(*rollup_at, "the rollup");
            }
        }
    }
}

/// Whether an entity's table has key attributes of the same names as the state table.
pub(super) fn has_state_key(compiler: &ModelCompiler<'_, '_>, entity: &Entity) -> bool {
    let table = compiler.model.tables.get(entity.table);
    table.is_some_and(Table::has_state_key)
}
