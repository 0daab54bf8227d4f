//! Keys that must be distinguishable: of entities, of rollups, and of both.

use std::collections::HashMap;

use super::compiler::{ModelCompiler, RollupMeasure};
use crate::table::rollup::STATE_KEY;
use crate::table::{Entity, KeyPattern, Rollup, Template};

/// The keys of two entities of one table must be distinguishable.
pub(super) fn check_entities(compiler: &mut ModelCompiler<'_, '_>) {
    let entities = &compiler.model.entities;
    for (index, (entity, at)) in entities.iter().zip(&compiler.entity_places).enumerate() {
        for other in entities.iter().take(index) {
            if entity.table == other.table && key_overlaps(&entity.key, &other.key) {
                let message = format!(
                    "entity `{}`: a key can match it and entity `{}` too; give their keys literal text that differs",
                    entity.name, other.name
                );
                compiler.findings.report(*at, message);
            }
        }
    }
}

fn key_overlaps(a: &KeyPattern, b: &KeyPattern) -> bool {
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
    let mut problems = duplicate_measures(compiler, &overlaps);
    problems.extend(incompatible_rollups(compiler, &overlaps));
    for (rollup, overlaps) in compiler.model.rollups.iter_mut().zip(overlaps) {
        rollup.overlaps = overlaps;
    }
    for (at, message) in problems {
        compiler.report(at, message);
    }
}

/// For each rollup, the others that can be the same items, ascending.
fn overlapping(rollups: &[Rollup]) -> Vec<Vec<usize>> {
    let keys: Vec<KeyPattern> = rollups.iter().map(stored_key).collect();
    let others = |index: usize, key: &KeyPattern| {
        let others = keys.iter().enumerate();
        let others = others.filter(|(other, their_key)| *other != index && key_overlaps(key, their_key));
        others.map(|(other, _)| other).collect()
    };
    keys.iter().enumerate().map(|(index, key)| others(index, key)).collect()
}

/// Measures of one name on rollups that can be one item. Only measures of one name are compared: a large model has many pairs.
fn duplicate_measures(compiler: &ModelCompiler<'_, '_>, overlaps: &[Vec<usize>]) -> Vec<(usize, String)> {
    let mut problems = Vec::new();
    let mut earlier: HashMap<(usize, &str), Vec<usize>> = HashMap::new();
    for (position, measure) in compiler.measures.iter().enumerate() {
        let rollups = overlaps.get(measure.rollup).into_iter().flatten().chain([&measure.rollup]);
        let others = rollups.filter_map(|rollup| earlier.get(&(*rollup, &*measure.attribute)));
        let mut others: Vec<usize> = others.flatten().copied().collect();
        others.sort_unstable();
        for other in others.into_iter().filter_map(|other| compiler.measures.get(other)) {
            // A rollup that one aggregate names twice was reported as that.
            if measure.at != other.at || measure.rollup != other.rollup {
                problems.push((measure.at, describe_duplicate(compiler, measure, other)));
            }
        }
        earlier.entry((measure.rollup, &*measure.attribute)).or_default().push(position);
    }
    problems
}

fn describe_duplicate(
    compiler: &ModelCompiler<'_, '_>,
    measure: &RollupMeasure,
    other: &RollupMeasure,
) -> String {
    let model = &compiler.model;
    let aggregate = |index: usize| model.aggregates.get(index).map_or("", |aggregate| &*aggregate.name);
    let rollup = |index: usize| model.rollups.get(index).map_or("", |rollup| &*rollup.name);
    let (mine, theirs) = (rollup(measure.rollup), rollup(other.rollup));
    let target = if measure.rollup == other.rollup {
        format!("rollup `{mine}`")
    } else {
        format!("rollup `{mine}`, whose key overlaps that of `{theirs}`,")
    };
    format!(
        "aggregate `{}`: {target} already has a measure `{}` from aggregate `{}` (line {}); rename one",
        aggregate(measure.aggregate),
        measure.attribute,
        aggregate(other.aggregate),
        compiler.findings.line_of(other.at)
    )
}

/// Rollups that can be one item, but are written in different ways.
fn incompatible_rollups(compiler: &ModelCompiler<'_, '_>, overlaps: &[Vec<usize>]) -> Vec<(usize, String)> {
    let mut problems = Vec::new();
    let rollups = &compiler.model.rollups;
    let after = |rollup: &Rollup| rollup.lifetime.map(|lifetime| lifetime.after);
    for (index, (rollup, overlaps)) in rollups.iter().zip(overlaps).enumerate() {
        let others = overlaps.iter().take_while(|other| **other < index);
        for other in others.filter_map(|other| rollups.get(*other)) {
            if rollup.shards != other.shards
                || rollup.is_computed()
                || other.is_computed()
                || after(rollup) != after(other)
            {
                let message = format!(
                    "rollup `{}`: its key overlaps that of rollup `{}`, but they differ in shards or expiry, or have `max`, `min` or `avg`; give one of them literal text that differs",
                    rollup.name, other.name
                );
                problems.push((compiler.rollup_places.get(index).copied().unwrap_or(0), message));
            }
        }
    }
    problems
}

/// Afterwrite's own items match no entity, even if the state table has a stream that is read.
pub(super) fn check_rollups_against_entities(compiler: &mut ModelCompiler<'_, '_>) {
    let keys: Vec<KeyPattern> = compiler.model.rollups.iter().map(stored_key).collect();
    for (entity, at) in compiler.model.entities.iter().zip(&compiler.entity_places) {
        if !has_state_key(compiler, entity) {
            continue;
        }
        for (rollup, key) in compiler.model.rollups.iter().zip(&keys) {
            if key_overlaps(&entity.key, key) {
                let message = format!(
                    "entity `{}`: its keys overlap those of rollup `{}`, so the rollup's own items could be counted; give them literal text that differs",
                    entity.name, rollup.name
                );
                compiler.findings.report(*at, message);
            }
        }
    }
}

/// Whether an entity's table has key attributes of the same names as the state table.
pub(super) fn has_state_key(compiler: &ModelCompiler<'_, '_>, entity: &Entity) -> bool {
    let table = compiler.model.tables.get(entity.table);
    table.is_some_and(|table| table.key().map(|key| &*key.name).eq(STATE_KEY))
}
