//! Keys that must be told apart: of entities, of rollups, and of both.

use std::collections::HashMap;
use std::sync::Arc;

use super::resolve::{HeldMeasure, ModelCompiler};
use crate::table::{Entity, KeyPattern, Rollup, Template, TemplatePiece, ValueFormat};

/// The key attributes of the state table.
const STATE_KEY: (&str, &str) = ("PK", "SK");

/// Two entities of one table must have keys that can be told apart.
pub(super) fn entities(compiler: &mut ModelCompiler<'_, '_, '_>) {
    let entities = &compiler.model.entities;
    for (index, entity) in entities.iter().enumerate() {
        for other in entities.iter().take(index) {
            if entity.table == other.table && key_overlaps(&entity.key, &other.key) {
                let at = compiler.document.entities.get(index).map_or(0, |settings| settings.name.at);
                let message = format!(
                    "entity `{}`: a key can match it and entity `{}` too; give them literal text that differs",
                    entity.name, other.name
                );
                compiler.problems.report(at, message);
            }
        }
    }
}

fn key_overlaps(a: &KeyPattern, b: &KeyPattern) -> bool {
    // A template that could not be read has no pieces, and says nothing.
    let overlap = |a: &Template, b: &Template| !a.pieces.is_empty() && !b.pieces.is_empty() && a.overlaps(b);
    overlap(&a.partition, &b.partition)
        && match (&a.sort, &b.sort) {
            (Some(a), Some(b)) => overlap(a, b),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
}

/// The key of a rollup's items; those of a sharded one have their shard's number appended.
fn stored_key(rollup: &Rollup) -> KeyPattern {
    let mut partition = rollup.partition.clone();
    if rollup.shards > 1 {
        partition.pieces.push(TemplatePiece::Literal(Arc::from("#SHARD#")));
        partition.pieces.push(TemplatePiece::Variable(rollup.variables.len(), ValueFormat::Plain));
    }
    KeyPattern { partition, sort: Some(rollup.sort.clone()) }
}

/// Two rollups that can be one item must not hold measures of one name, nor be kept in different ways. Within one rollup
/// a name is used once as well.
pub(super) fn rollups(compiler: &mut ModelCompiler<'_, '_, '_>) {
    let overlaps = overlapping(&compiler.model.rollups);
    let mut found = held_twice(compiler, &overlaps);
    found.extend(kept_differently(compiler, &overlaps));
    for (rollup, overlaps) in compiler.model.rollups.iter_mut().zip(overlaps) {
        rollup.overlaps = overlaps;
    }
    for (at, message) in found {
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

/// Measures of one name on rollups that can be one item. Only those of one name are compared: of a large model, all pairs are many.
fn held_twice(compiler: &ModelCompiler<'_, '_, '_>, overlaps: &[Vec<usize>]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut earlier: HashMap<(usize, &str), Vec<usize>> = HashMap::new();
    for (position, held) in compiler.held.iter().enumerate() {
        let rollups = overlaps.get(held.rollup).into_iter().flatten().chain([&held.rollup]);
        let others = rollups.filter_map(|rollup| earlier.get(&(*rollup, &*held.attribute)));
        let mut others: Vec<usize> = others.flatten().copied().collect();
        others.sort_unstable();
        for other in others.into_iter().filter_map(|other| compiler.held.get(other)) {
            // A rollup that one aggregate names twice was reported as that.
            if held.at != other.at || held.rollup != other.rollup {
                found.push((held.at, told_twice(compiler, held, other)));
            }
        }
        earlier.entry((held.rollup, &*held.attribute)).or_default().push(position);
    }
    found
}

fn told_twice(compiler: &ModelCompiler<'_, '_, '_>, held: &HeldMeasure, other: &HeldMeasure) -> String {
    let aggregate =
        |index: usize| compiler.model.aggregates.get(index).map_or("", |aggregate| &*aggregate.name);
    let rollup = |index: usize| compiler.model.rollups.get(index).map_or("", |rollup| &*rollup.name);
    let (mine, theirs) = (rollup(held.rollup), rollup(other.rollup));
    let target = if held.rollup == other.rollup {
        format!("rollup `{mine}`")
    } else {
        format!("rollup `{mine}`, whose key overlaps that of `{theirs}`,")
    };
    format!(
        "aggregate `{}`: {target} already has a measure `{}` from aggregate `{}` (line {}); rename one",
        aggregate(held.aggregate),
        held.attribute,
        aggregate(other.aggregate),
        compiler.problems.line_of(other.at)
    )
}

/// Rollups that can be one item, but are not kept in one way.
fn kept_differently(compiler: &ModelCompiler<'_, '_, '_>, overlaps: &[Vec<usize>]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let settings = |index: usize| compiler.document.rollups.get(index);
    let expiry = |index: usize| settings(index).and_then(|settings| settings.expires.map(|(after, _)| after));
    for (index, (rollup, overlaps)) in compiler.model.rollups.iter().zip(overlaps).enumerate() {
        for other_index in overlaps.iter().copied().take_while(|other| *other < index) {
            let Some(other) = compiler.model.rollups.get(other_index) else { continue };
            if rollup.shards != other.shards
                || rollup.is_computed()
                || other.is_computed()
                || expiry(index) != expiry(other_index)
            {
                let message = format!(
                    "rollup `{}`: its key overlaps that of rollup `{}`, but they differ in shards or expiry, or have `max`, `min` or `avg`; give one of them literal text that differs",
                    rollup.name, other.name
                );
                found.push((settings(index).map_or(0, |settings| settings.name.at), message));
            }
        }
    }
    found
}

/// Our own items, fed back by a state table that someone gave a stream, must match no entity.
pub(super) fn entities_from_rollups(compiler: &mut ModelCompiler<'_, '_, '_>) {
    let keys: Vec<KeyPattern> = compiler.model.rollups.iter().map(stored_key).collect();
    for (index, entity) in compiler.model.entities.iter().enumerate() {
        if !has_state_key(compiler, entity) {
            continue;
        }
        for (rollup, key) in compiler.model.rollups.iter().zip(&keys) {
            if key_overlaps(&entity.key, key) {
                let at = compiler.document.entities.get(index).map_or(0, |settings| settings.name.at);
                let message = format!(
                    "entity `{}`: its keys overlap those of rollup `{}`, so the rollup's own items could be counted; give them literal text that differs",
                    entity.name, rollup.name
                );
                compiler.problems.report(at, message);
            }
        }
    }
}

/// Whether an entity's table has key attributes of the same names as the state table.
pub(super) fn has_state_key(compiler: &ModelCompiler<'_, '_, '_>, entity: &Entity) -> bool {
    compiler.model.tables.get(entity.table).is_some_and(|table| {
        let sort_key = table.sort_key.as_ref().map(|key| &*key.name);
        *table.partition_key.name == *STATE_KEY.0 && sort_key == Some(STATE_KEY.1)
    })
}
