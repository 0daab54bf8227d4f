//! The checks of a whole model: names used twice, limits, and feedback of its own writes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::compiler::ModelCompiler;
use super::problem::ProblemCode;
use super::{entity_order, key_overlap, key_readings, update_size};
use crate::record::{AttributePath, AttributeSecrecy, secrecy};
use crate::table::rank;
use crate::table::state_key::{RESERVED_PREFIXES, can_hold_measure};
use crate::table::{
    Entity, InternedPath, ItemEvents, Model, OnExpiry, Template, TemplatePiece, Term, ValueFormat,
};

/// A transaction's actions: DynamoDB's limit.
const MAX_ACTIONS: usize = 100;

/// Checks everything that concerns more than one part of the model.
pub(super) fn check_model(compiler: &mut ModelCompiler<'_, '_>) {
    entity_order::order_entities(compiler);
    key_overlap::check_rollups(compiler);
    key_overlap::check_rollups_against_entities(compiler);
    key_readings::check_readings(compiler);
    check_reserved_keys(compiler);
    check_measure_names(compiler);
    rank::check(compiler);
    check_transaction_sizes(compiler);
    update_size::check_update_sizes(compiler);
    check_mirrored_paths(compiler);
    check_reads_of_mirrored(compiler);
    check_secrets(compiler);
    check_dataset_names(compiler);
}

fn check_reserved_keys(compiler: &mut ModelCompiler<'_, '_>) {
    let model = &compiler.model;
    let entities = model.entities.iter().zip(&compiler.places.entities);
    let entities = entities.filter(|(entity, _)| entity.rollup.is_none()).map(|(entity, at)| {
        let is_state_key = key_overlap::has_state_key(compiler, entity);
        let key = &entity.key.partition;
        let fix = match key.leading_literal().is_empty() {
            true => "begin them with literal text, or declare `separator = \"#\"` for the table",
            false => "begin them with other text",
        };
        let is_guarded = begins_with_variable_part(key);
        let prefix = reserved_prefix(key, is_state_key && !is_guarded);
        (format!("entity `{}`", entity.name), *at, prefix, fix)
    });
    let rollups = model.rollups.iter().zip(&compiler.places.rollups);
    let rollups = rollups.map(|(rollup, at)| {
        let prefix = reserved_prefix(&rollup.partition, true);
        (format!("rollup `{}`", rollup.name), *at, prefix, "begin them with other text")
    });
    let keys: Vec<_> = entities.chain(rollups).collect();
    for (owner, at, prefix, fix) in keys {
        if let Some(prefix) = prefix {
            let message = format!("{owner}: its keys can begin with `{prefix}`, which is reserved; {fix}");
            compiler.findings.report(ProblemCode::ReservedKey, at, message);
        }
    }
}

/// Whether a variable is the first part of an entity's key, and the separator of reserved keys ends it. Its value would have to be a
/// reserved word itself; such items match no entity ([`Table::is_reserved`](crate::table::Table::is_reserved)).
fn begins_with_variable_part(template: &Template) -> bool {
    let ends_reserved = |separator: char| RESERVED_PREFIXES.iter().all(|prefix| prefix.ends_with(separator));
    template.leading_literal().is_empty() && template.separator.is_some_and(ends_reserved)
}

/// The reserved beginning that a key has, or in the state table can have.
fn reserved_prefix(template: &Template, is_state_key: bool) -> Option<&'static str> {
    RESERVED_PREFIXES.into_iter().find(|prefix| {
        let pieces =
            vec![TemplatePiece::Literal(Arc::from(*prefix)), TemplatePiece::Variable(0, ValueFormat::Plain)];
        template.leading_literal().starts_with(prefix)
            || (is_state_key && template.overlaps(&Template { pieces, ..Template::default() }))
    })
}

fn check_measure_names(compiler: &mut ModelCompiler<'_, '_>) {
    for held in &compiler.measures {
        if !can_hold_measure(&held.attribute) {
            let aggregate = compiler.model.aggregates.get(held.aggregate);
            let message = format!(
                "aggregate `{}`: measure `{}`: every rollup has an attribute of this name; choose another",
                aggregate.map_or("", |aggregate| &*aggregate.name),
                held.attribute
            );
            compiler.findings.report(ProblemCode::ReservedName, held.at, message);
        }
    }
}

/// The old and new state of one item, and what its expiry settles, must fit into one transaction.
fn check_transaction_sizes(compiler: &mut ModelCompiler<'_, '_>) {
    for (entity, at) in compiler.model.entities.iter().zip(&compiler.places.entities) {
        // An item may have been of another entity before.
        let rivals = entity.rivals.iter().filter_map(|index| compiler.model.entities.get(*index));
        let states: Vec<(usize, OnExpiry)> = std::iter::once(entity)
            .chain(rivals)
            .map(|one| (one.most_rollups(&compiler.model), one.on_expiry))
            .collect();
        let targets = states.iter().map(|(targets, _)| *targets).max().unwrap_or(0);
        let settled = states.iter().filter_map(|(targets, on_expiry)| match on_expiry {
            OnExpiry::Keep => Some(1 + targets),
            OnExpiry::Subtract => None,
        });
        // The ledger's entry; the targets of the old state and of the new state; an expiry's marker, and the targets that it settles.
        let actions = 1 + 2 * targets + settled.max().unwrap_or(0);
        if actions > MAX_ACTIONS {
            let message = format!(
                "entity `{}`: its items count into {targets} rollups, so one change could need {actions} actions in a transaction, which holds {MAX_ACTIONS}; count into fewer",
                entity.name
            );
            compiler.findings.report(ProblemCode::TransactionTooLarge, *at, message);
        }
    }
}

/// No mirrored attribute lies within another, or is part of a key.
fn check_mirrored_paths(compiler: &mut ModelCompiler<'_, '_>) {
    for (index, mirrored) in compiler.mirrored.iter().enumerate() {
        let Some(entity) = compiler.model.entities.get(mirrored.onto) else { continue };
        let Some(table) = compiler.model.tables.get(entity.table) else { continue };
        let mut earlier = compiler.mirrored.iter().take(index).filter(|other| other.onto == mirrored.onto);
        let clash = earlier.find(|other| other.paths().any(|path| mirrored.writes(path)));
        if let Some(other) = clash {
            let message = format!(
                "mirror onto `{}`: `{}` and `{}`, or their `_rev` or `_of`, are the same or contain one another; choose another path",
                entity.name, mirrored.path, other.path
            );
            let problem = compiler.findings.report(ProblemCode::UnfitMirrorPath, mirrored.at, message);
            problem.related(other.at, "the other attribute");
        }
        if let Some(key) = table.key().find(|key| mirrored.paths().any(|path| key.name == *path.root())) {
            let message = format!(
                "mirror onto `{}`: `{}` is part of the item's key; choose another attribute",
                entity.name, key.name
            );
            compiler.findings.report(ProblemCode::UnfitMirrorPath, mirrored.at, message);
        }
    }
}

/// An item's contributions must not depend on the attributes that mirrors write onto it. Caches, events and datasets contribute nothing, and may.
fn check_reads_of_mirrored(compiler: &mut ModelCompiler<'_, '_>) {
    for mirrored in &compiler.mirrored {
        let Some(entity) = compiler.model.entities.get(mirrored.onto) else { continue };
        for AttributeRead { reader, path, place } in reads(compiler, mirrored.onto) {
            if mirrored.writes(&path) {
                let message = format!(
                    "mirror onto `{}`: `{}` is read by {reader}, and an item's contributions must not depend on what is mirrored onto it; mirror onto another attribute",
                    entity.name, mirrored.path
                );
                let problem = compiler.findings.report(ProblemCode::MirrorFeedback, mirrored.at, message);
                problem.related(place, "read here");
            }
        }
    }
}

/// A secret stays in its table: it is in no key, path, measure, condition or column.
fn check_secrets(compiler: &mut ModelCompiler<'_, '_>) {
    for (index, secret, at) in &compiler.secrets {
        let Some(entity) = compiler.model.entities.get(*index) else { continue };
        let owner = format!("entity `{}`: secret `{secret}`", entity.name);
        let table = compiler.model.tables.get(entity.table);
        let is_key = table.is_some_and(|table| table.key().any(|key| key.name == *secret.root()));
        let mut readers = derived_reads(compiler, *index, |_| true);
        readers.extend(reads(compiler, *index));
        readers.extend(cache_reads(compiler, entity));
        readers.extend(event_condition_reads(compiler, entity));
        // The other members of a map that holds the secret can be read; a column and an event's value take the whole map.
        readers.retain(|read| match secrecy(secret, &read.path) {
            AttributeSecrecy::Secret => true,
            AttributeSecrecy::Open | AttributeSecrecy::Within(_) => false,
        });
        let whole = [dataset_reads, element_reads, event_value_reads].map(|reads| reads(compiler, entity));
        let whole = whole.into_iter().flatten();
        readers.extend(whole.filter(|read| match secrecy(secret, &read.path) {
            AttributeSecrecy::Secret | AttributeSecrecy::Within(_) => true,
            AttributeSecrecy::Open => false,
        }));
        let findings = &mut compiler.findings;
        let is_variable = entity.variables.iter().any(|name| *secret == AttributePath::from(name));
        if is_key || is_variable {
            let part = if is_key { "part" } else { "a variable" };
            let message = format!("{owner} is {part} of the item's key, which every record carries");
            findings.report(ProblemCode::ExposedSecret, *at, message);
        } else if let Some(read) = readers.first() {
            let message =
                format!("{owner} is read by {}, and a secret must not leave the table", read.reader);
            findings.report(ProblemCode::ExposedSecret, *at, message).related(read.place, "read here");
        }
    }
}

/// A dataset's rows are in a table `<name>_log`, which is not the name of another dataset.
fn check_dataset_names(compiler: &mut ModelCompiler<'_, '_>) {
    let datasets = &compiler.model.datasets;
    for (dataset, at) in datasets.iter().zip(&compiler.places.datasets) {
        let Some(view) = dataset.name.strip_suffix("_log") else { continue };
        if let Some(other) = datasets.iter().position(|other| *other.name == *view) {
            let message = format!(
                "dataset `{}`: dataset `{view}` has its rows in a table of this name; choose another",
                dataset.name
            );
            let problem = compiler.findings.report(ProblemCode::ReservedName, *at, message);
            if let Some(other) = compiler.places.datasets.get(other) {
                problem.related(*other, "the other dataset");
            }
        }
    }
}

/// An attribute that a part of the model reads.
struct AttributeRead {
    reader: String,
    path: AttributePath,
    /// Where the reader is declared.
    place: usize,
}

impl AttributeRead {
    fn of(model: &Model, reader: &str, path: &InternedPath, place: Option<&usize>) -> Self {
        let path = path.named(&model.row_attributes);
        Self { reader: reader.to_owned(), path, place: place.copied().unwrap_or(0) }
    }
}

/// The attributes that decide what an entity's items contribute.
fn reads(compiler: &ModelCompiler<'_, '_>, entity: usize) -> Vec<AttributeRead> {
    let ModelCompiler { model, places, .. } = compiler;
    let Some(compiled) = model.entities.get(entity) else { return Vec::new() };
    let (mut reads, mut derived) = (Vec::new(), BTreeSet::new());
    let mut read = |reader: &str, place: Option<&usize>, term: &Term| {
        derived.extend(term.derivation());
        reads.extend(term.attribute().map(|path| AttributeRead::of(model, reader, path, place)));
    };
    for offer in &compiled.offers {
        let name = model.lookups.get(offer.lookup).map_or("", |lookup| &*lookup.name);
        let reader = format!("lookup `{name}`");
        offer.terms().for_each(|term| read(&reader, places.lookups.get(offer.lookup), term));
    }
    for index in &compiled.aggregates {
        let Some(aggregate) = model.aggregates.get(*index) else { continue };
        let reader = format!("aggregate `{}`", aggregate.name);
        aggregate.each_term(&mut |term| read(&reader, places.aggregates.get(*index), term));
    }
    reads.extend(derived_reads(compiler, entity, |derivation| derived.contains(&derivation)));
    let ttl = compiled.ttl.iter();
    reads.extend(ttl.map(|path| AttributeRead::of(model, "`ttl`", path, places.entities.get(entity))));
    // The conditions of its rivals decide as well which entity an item is of.
    for index in std::iter::once(&entity).chain(&compiled.rivals) {
        let Some(rival) = model.entities.get(*index) else { continue };
        let reader = format!("the condition of entity `{}`", rival.name);
        let attributes = rival.attributes_in(rival.when.as_ref());
        reads.extend(
            attributes
                .iter()
                .map(|path| AttributeRead::of(model, &reader, path, places.entities.get(*index))),
        );
    }
    reads
}

/// The attributes that derived values of an entity are computed from; `is_read` selects them by their indexes.
fn derived_reads(
    compiler: &ModelCompiler<'_, '_>,
    entity: usize,
    is_read: impl Fn(usize) -> bool,
) -> Vec<AttributeRead> {
    let ModelCompiler { model, places, .. } = compiler;
    let (derivations, places) = (model.entities.get(entity), places.derivations.get(entity));
    let derivations = derivations.into_iter().flat_map(|entity| &entity.derivations);
    let mut reads = Vec::new();
    for (index, (derivation, at)) in derivations.zip(places.into_iter().flatten()).enumerate() {
        if is_read(index) {
            let reader = format!("derived value `{}`", derivation.name);
            let attributes = derivation.kind.terms().filter_map(Term::attribute);
            reads.extend(attributes.map(|path| AttributeRead::of(model, &reader, path, Some(at))));
        }
    }
    reads
}

/// The attributes that an entity's cache rules read.
fn cache_reads(compiler: &ModelCompiler<'_, '_>, entity: &Entity) -> Vec<AttributeRead> {
    let ModelCompiler { model, places, .. } = compiler;
    let (reader, mut reads) = (format!("cache of `{}`", entity.name), Vec::new());
    for index in &entity.caches {
        let mut read =
            |path: &_| reads.push(AttributeRead::of(model, &reader, path, places.caches.get(*index)));
        model.caches.get(*index).into_iter().for_each(|rule| rule.each_attribute(entity, &mut read));
    }
    reads
}

/// The attributes that the conditions of an entity's event rules read.
fn event_condition_reads(compiler: &ModelCompiler<'_, '_>, entity: &Entity) -> Vec<AttributeRead> {
    event_reads(compiler, entity, |items| entity.attributes_in(items.when.as_ref()))
}

/// The attributes whose values an entity's events state: with all that is in them.
fn event_value_reads(compiler: &ModelCompiler<'_, '_>, entity: &Entity) -> Vec<AttributeRead> {
    event_reads(compiler, entity, |items| items.stated_attributes(entity).cloned().collect())
}

fn event_reads(
    compiler: &ModelCompiler<'_, '_>,
    entity: &Entity,
    attributes: impl Fn(&ItemEvents) -> Vec<InternedPath>,
) -> Vec<AttributeRead> {
    let ModelCompiler { model, places, .. } = compiler;
    let mut reads = Vec::new();
    for index in &entity.events {
        let Some(rule) = model.events.get(*index) else { continue };
        let reader = format!("event `{}`", rule.name);
        let read = rule.items().map(&attributes).unwrap_or_default();
        reads.extend(
            read.iter().map(|path| AttributeRead::of(model, &reader, path, places.events.get(*index))),
        );
    }
    reads
}

/// The attributes whose elements aggregates count: with all that is in them.
fn element_reads(compiler: &ModelCompiler<'_, '_>, entity: &Entity) -> Vec<AttributeRead> {
    let ModelCompiler { model, places, .. } = compiler;
    let mut reads = Vec::new();
    for index in &entity.aggregates {
        let Some(aggregate) = model.aggregates.get(*index) else { continue };
        let of = aggregate.for_each.iter().flat_map(|elements| entity.attributes_of(&elements.of));
        let reader = format!("aggregate `{}`", aggregate.name);
        reads.extend(of.map(|path| AttributeRead::of(model, &reader, path, places.aggregates.get(*index))));
    }
    reads
}

/// The attributes that an entity's datasets read.
fn dataset_reads(compiler: &ModelCompiler<'_, '_>, entity: &Entity) -> Vec<AttributeRead> {
    let ModelCompiler { model, places, .. } = compiler;
    let mut reads = Vec::new();
    for (index, dataset) in model.datasets_of(entity) {
        let (reader, place) = (format!("dataset `{}`", dataset.name), places.datasets.get(index));
        dataset
            .each_attribute(entity, &mut |path| reads.push(AttributeRead::of(model, &reader, path, place)));
    }
    reads
}
