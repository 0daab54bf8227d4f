//! Levels: rollups whose items are counted, cached or exported themselves, because `of` names them.
//!
//! The items of such a rollup are an entity of the state table, which is read by its own stream. An item of base tables is of level 0, an
//! item of a rollup is one level above the highest that counts into the rollup. Levels are acyclic, so a change ends.

use std::sync::Arc;

use super::entity::{Entity, KeyPattern};
use super::load::compiler::{ModelCompiler, RollupMeasure};
use super::load::problem::ProblemCode;
use super::load::reader::{Located, RawValue, place};
use super::load::scope::{EntityScope, interned_path};
use super::pattern::Pattern;
use super::source_table::STATE_TABLE;
use super::state_key::{EXPIRES_AT, STATE_KEY};
use super::value_type::{DeclaredType, ValueType};
use super::{KeySchema, KeyType, Model, Rollup, Table, Term, TimeFormat};
use crate::record::AttributePath;

/// The entries of `[[aggregates]]`, each after the aggregates that count into the rollup whose items it counts. Aggregates in a circle are
/// reported and left out.
pub(super) fn in_levels<'v>(
    compiler: &mut ModelCompiler<'_, '_>,
    aggregates: impl Iterator<Item = RawValue<'v>>,
) -> Vec<RawValue<'v>> {
    let mut waiting: Vec<RawValue<'v>> = aggregates.collect();
    let is_entity = |name: &str| compiler.model.entities.iter().any(|entity| *entity.name == *name);
    let mut ordered = Vec::with_capacity(waiting.len());
    loop {
        let is_fed = |source: &str| waiting.iter().any(|other| counts_into(other, source));
        let is_next = |entry: &RawValue<'_>| {
            source_of(entry).is_none_or(|source| is_entity(source.value) || !is_fed(source.value))
        };
        let Some(next) = waiting.iter().position(is_next) else { break };
        ordered.push(waiting.remove(next));
    }
    if let Some(circle) = waiting.first().map(|first| circle(&waiting, first)) {
        report_circle(compiler, &circle);
    }
    ordered
}

/// The rollup or entity that an aggregate counts, as it is written.
fn source_of<'v>(aggregate: RawValue<'v>) -> Option<Located<&'v str>> {
    let of = aggregate.get_ref().get("of")?;
    Some(Located { value: of.get_ref().as_str()?, at: place(of) })
}

fn counts_into(aggregate: RawValue<'_>, rollup: &str) -> bool {
    let is_named = |value: RawValue<'_>| value.get_ref().as_str() == Some(rollup);
    let Some(into) = aggregate.get_ref().get("into") else { return false };
    is_named(into) || into.get_ref().as_array().is_some_and(|names| names.iter().any(is_named))
}

/// Aggregates that count each other's rollups, beginning anywhere below `first`.
fn circle<'v>(waiting: &[RawValue<'v>], first: RawValue<'v>) -> Vec<RawValue<'v>> {
    let mut path = vec![first];
    loop {
        let source = path.last().and_then(|last| source_of(last));
        let below = source.and_then(|source| waiting.iter().find(|other| counts_into(other, source.value)));
        let Some(below) = below.copied() else { return path };
        if let Some(begin) = path.iter().position(|known| std::ptr::eq(*known, below)) {
            return path.split_off(begin);
        }
        path.push(below);
    }
}

fn report_circle(compiler: &mut ModelCompiler<'_, '_>, circle: &[RawValue<'_>]) {
    let name = |value: &RawValue<'_>| {
        let name = value.get_ref().get("name").and_then(|name| name.get_ref().as_str());
        format!("`{}`", name.unwrap_or_default())
    };
    let names: Vec<String> = circle.iter().rev().map(name).collect();
    let at = circle.first().and_then(|first| source_of(first)).map_or(0, |source| source.at);
    let message = format!(
        "aggregates: {} count each other's rollups in a circle, so that a change would never end; let one of them count an entity",
        names.join(", ")
    );
    compiler.problems.report(ProblemCode::CircularLevels, at, message);
    compiler.problems.mark_incomplete();
}

/// Adds the entities of the rollups that datasets name as sources. Every function decodes the attributes by which it recognises their items; those
/// of the columns it does not.
pub(super) fn add_sources_of_datasets(compiler: &mut ModelCompiler<'_, '_>, datasets: Option<RawValue<'_>>) {
    let datasets = datasets.and_then(|datasets| datasets.get_ref().as_table());
    for source in datasets.into_iter().flatten().filter_map(|(_, dataset)| source_of(dataset)) {
        let Some(index) = compiler.new_source(source.value) else { continue };
        // A rollup that cannot be a source is reported with its dataset.
        if compiler.model.rollups.get(index).is_some_and(|rollup| source_problem(rollup).is_none()) {
            compiler.rollup_entity("", index, source.at);
        }
    }
}

impl ModelCompiler<'_, '_> {
    /// The entity that `of` names, or the entity of the items of the rollup that it names. An unknown name is reported.
    pub(crate) fn source_named(&mut self, owner: &str, name: Located<&str>) -> Option<usize> {
        match self.new_source(name.value) {
            Some(rollup) => self.rollup_entity(owner, rollup, name.at),
            None => self.entity_named(owner, name),
        }
    }

    /// The rollup that `of` names, unless an entity has this name: one that the application declares, or that of the rollup's own items.
    fn new_source(&self, name: &str) -> Option<usize> {
        let is_entity = self.model.entities.iter().any(|entity| *entity.name == *name);
        let rollup = self.model.rollups.iter().position(|rollup| *rollup.name == *name);
        rollup.filter(|_| !is_entity)
    }

    /// The entity of a rollup's items. A rollup that cannot be a source is reported.
    pub(super) fn rollup_entity(&mut self, owner: &str, rollup: usize, at: usize) -> Option<usize> {
        let declared_at = self.places.rollups.get(rollup).copied().unwrap_or(at);
        if let Some((code, problem)) = source_problem(self.model.rollups.get(rollup)?) {
            self.report(code, at, format!("{owner}: {problem}")).related(declared_at, "the rollup");
            return None;
        }
        let table = self.state_table();
        let measures = self.source_measures(rollup);
        let level = self.level_above(rollup);
        let (scope, entity) = self.items_of(rollup, table, &measures)?;
        let numbers = self.number_keys.iter().filter(|(of, _)| *of == rollup).map(|(_, variable)| *variable);
        let scope = EntityScope { buckets: self.key_buckets(rollup), numbers: numbers.collect(), ..scope };
        self.scopes.push(Arc::new(scope));
        self.places.entities.push(declared_at);
        self.places.derivations.push(Vec::new());
        self.model.entities.push(Entity { level, ..entity });
        Some(self.model.entities.len() - 1)
    }

    /// The buckets of time in the key of a rollup, aligned with its variables.
    fn key_buckets(&self, rollup: usize) -> Vec<Option<TimeFormat>> {
        let variables = self.model.rollups.get(rollup).map_or(0, |rollup| rollup.variables.len());
        (0..variables).map(|variable| self.model.bucket_format(rollup, variable)).collect()
    }

    /// The state table among the model's tables.
    fn state_table(&mut self) -> usize {
        self.model.state_source().unwrap_or_else(|| {
            let [partition, sort] =
                STATE_KEY.map(|name| KeySchema { name: Arc::from(name), key_type: KeyType::Text });
            self.places.separators.push(0);
            self.model.tables.push(Table {
                name: Arc::from(STATE_TABLE),
                former_names: Vec::new(),
                partition_key: partition,
                sort_key: Some(sort),
                separator: None,
                indexes: Vec::new(),
            });
            self.model.tables.len() - 1
        })
    }

    /// The measures of a rollup, each once, in the order of the file.
    fn source_measures(&self, rollup: usize) -> Vec<Arc<str>> {
        let mut names: Vec<Arc<str>> = Vec::new();
        for measure in self.measures.iter().filter(|measure| measure.rollup == rollup) {
            if !names.contains(&measure.attribute) {
                names.push(Arc::clone(&measure.attribute));
            }
        }
        names
    }

    fn level_above(&self, rollup: usize) -> u32 {
        let counts = |aggregate: &&super::Aggregate| aggregate.into.iter().any(|into| into.rollup == rollup);
        let sources = self.model.aggregates.iter().filter(counts);
        let levels = sources.filter_map(|aggregate| self.model.entities.get(aggregate.of));
        1 + levels.map(|entity| entity.level).max().unwrap_or(0)
    }

    /// The entity of a rollup's items, and the names that it gives.
    fn items_of(
        &mut self,
        rollup: usize,
        table: usize,
        measures: &[Arc<str>],
    ) -> Option<(EntityScope, Entity)> {
        let Model { rollups, attributes: interner, .. } = &mut self.model;
        let index = rollup;
        let rollup = rollups.get(index)?;
        let attributes = declared_measures(&self.measures, index, measures);
        let additive: Vec<Arc<str>> =
            measures.iter().filter(|name| !rollup.has_computed(name)).cloned().collect();
        let mut term = |name: &Arc<str>| {
            let path = interned_path(&AttributePath::from(&**name), interner);
            Term::Attribute(super::InternedPath { declared: ValueType::Number.stored(), ..path })
        };
        let when = Pattern::any_nonzero(additive.iter().map(&mut term).collect());
        let ttl = rollup.lifetime.map(|_| {
            let path = interned_path(&AttributePath::from(EXPIRES_AT), interner);
            super::InternedPath { declared: ValueType::Number.stored(), ..path }
        });
        let scope = EntityScope { sums: additive, ..scope_of(rollup, &attributes) };
        let entity = Entity {
            name: Arc::clone(&rollup.name),
            table,
            key: KeyPattern { partition: rollup.partition.clone(), sort: Some(rollup.sort.clone()) },
            key_values: rollup.keys,
            when,
            variables: rollup.variables.clone(),
            attributes: attributes
                .into_iter()
                .map(|(name, declared)| (AttributePath::from(&*name), declared))
                .collect(),
            on_expiry: rollup.on_expiry,
            ttl,
            rollup: Some(index),
            ..Entity::default()
        };
        Some((scope, entity))
    }
}

/// The measures of a rollup with the types of their attributes.
fn declared_measures(
    measures: &[RollupMeasure],
    rollup: usize,
    names: &[Arc<str>],
) -> Vec<(Arc<str>, DeclaredType)> {
    let may_be_text = |name: &Arc<str>| {
        let mut measures = measures.iter().filter(|measure| measure.rollup == rollup);
        measures.any(|measure| measure.attribute == *name && !measure.is_number)
    };
    let declared = |name: &Arc<str>| if may_be_text(name) { DeclaredType::Any } else { DeclaredType::Number };
    names.iter().map(|name| (Arc::clone(name), declared(name))).collect()
}

/// Why a rollup cannot be a source.
fn source_problem(rollup: &Rollup) -> Option<(ProblemCode, String)> {
    let Rollup { name, shards, partition, .. } = rollup;
    if *shards > 1 {
        let problem = format!(
            "rollup `{name}` is sharded, and a part of a sum is not an item that can be counted; remove its `shards`, or count its sources"
        );
        return Some((ProblemCode::ShardedSource, problem));
    }
    let has_beginning = partition.pieces.is_empty() || !partition.leading_literal().is_empty();
    (!has_beginning).then(|| {
        let problem = format!(
            "the `PK` of rollup `{name}` begins with a variable, so that no filter could keep Afterwrite's own items out of its stream; begin it with literal text"
        );
        (ProblemCode::UnfilteredSource, problem)
    })
}

/// The names that the items of a rollup give: the variables of its key, and its measures.
fn scope_of(rollup: &Rollup, measures: &[(Arc<str>, DeclaredType)]) -> EntityScope {
    let attributes = measures.iter().map(|(name, declared)| (Arc::clone(name), declared.value_type()));
    EntityScope {
        name: Arc::clone(&rollup.name),
        variables: rollup.variables.clone(),
        attributes: attributes.collect(),
        ..EntityScope::default()
    }
}

#[cfg(test)]
mod tests;
