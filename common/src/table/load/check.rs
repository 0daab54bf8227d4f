//! What only the whole model can tell: names used twice, limits, and what would feed on itself.

use std::collections::HashMap;
use std::sync::Arc;

use super::apart::{self, has_state_key};
use super::document::ModelDocument;
use super::problem::ProblemCollector;
use super::reader::Located;
use super::resolve::{ModelCompiler, terms_of};
use crate::table::{
    Aggregate, AttributePath, BoundPiece, Entity, MeasureKind, OnExpiry, Template, TemplatePiece, Term,
    ValueFormat,
};

/// A transaction's actions: DynamoDB's limit.
const MAX_ACTIONS: usize = 100;

/// The beginnings of partition keys that are Afterwrite's own, in the state table.
const RESERVED: [&str; 2] = ["LEDGER#", "LOOKUP#"];

/// The attributes of a rollup that are not measures, beside `settled_<measure>`.
const ROLLUP_ATTRIBUTES: [&str; 6] = ["PK", "SK", "EntityType", "rev", "updated_at", "expires_at"];

/// Names are plain, and each is given once.
pub(super) fn names(document: &ModelDocument<'_>, problems: &mut ProblemCollector<'_>) {
    let plain = |kind: &str, name: &Located<&str>, problems: &mut ProblemCollector<'_>| {
        let is_plain = !name.value.is_empty()
            && name
                .value
                .chars()
                .all(|character| character.is_ascii_alphanumeric() || "_-".contains(character));
        if !is_plain {
            let message = format!("{kind} `{}`: a name is made of letters, digits, `_` and `-`", name.value);
            problems.report(name.at, message);
        }
    };
    plain("model", &document.name, problems);
    document.entities.iter().for_each(|entity| plain("entity", &entity.name, problems));
    document.lookups.iter().for_each(|lookup| plain("lookup", &lookup.name, problems));
    document.rollups.iter().for_each(|rollup| plain("rollup", &rollup.name, problems));
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for aggregate in &document.aggregates {
        plain("aggregate", &aggregate.name, problems);
        if let Some(first) = seen.insert(aggregate.name.value, aggregate.name.at) {
            let line = problems.line_of(first);
            let message = format!(
                "aggregate `{}`: the name is taken by the one in line {line}; choose another",
                aggregate.name.value
            );
            problems.report(aggregate.name.at, message);
        }
        for measure in &aggregate.measures {
            plain(&format!("aggregate `{}`: measure", aggregate.name.value), &measure.name, problems);
        }
        for (position, name) in aggregate.into.iter().enumerate() {
            if aggregate.into.iter().take(position).any(|other| other.value == name.value) {
                let message = format!(
                    "aggregate `{}`: rollup `{}` is named twice; name it once",
                    aggregate.name.value, name.value
                );
                problems.report(name.at, message);
            }
        }
    }
}

/// Everything that concerns more than one part of the model.
pub(super) fn whole(compiler: &mut ModelCompiler<'_, '_, '_>) {
    apart::entities(compiler);
    apart::rollups(compiler);
    apart::entities_from_rollups(compiler);
    reserved_keys(compiler);
    measure_names(compiler);
    transaction_size(compiler);
    mirrored_paths(compiler);
    nothing_reads_mirrored(compiler);
    nothing_reads_secrets(compiler);
}

fn reserved_keys(compiler: &mut ModelCompiler<'_, '_, '_>) {
    let reserved = |template: &Template, whole: bool| {
        RESERVED.into_iter().find(|prefix| {
            let own = Template {
                pieces: vec![
                    TemplatePiece::Literal(Arc::from(*prefix)),
                    TemplatePiece::Variable(0, ValueFormat::Plain),
                ],
            };
            template.leading_literal().starts_with(prefix) || (whole && template.overlaps(&own))
        })
    };
    for (index, entity) in compiler.model.entities.iter().enumerate() {
        if let Some(prefix) = reserved(&entity.key.partition, has_state_key(compiler, entity)) {
            let at = compiler.document.entities.get(index).map_or(0, |settings| settings.name.at);
            let message = format!(
                "entity `{}`: its keys can begin with `{prefix}`, which is reserved; let them begin with other text",
                entity.name
            );
            compiler.problems.report(at, message);
        }
    }
    for (index, rollup) in compiler.model.rollups.iter().enumerate() {
        if let Some(prefix) = reserved(&rollup.partition, true) {
            let at = compiler.document.rollups.get(index).map_or(0, |settings| settings.name.at);
            let message = format!(
                "rollup `{}`: its keys can begin with `{prefix}`, which is reserved; let them begin with other text",
                rollup.name
            );
            compiler.problems.report(at, message);
        }
    }
}

fn measure_names(compiler: &mut ModelCompiler<'_, '_, '_>) {
    for held in &compiler.held {
        if ROLLUP_ATTRIBUTES.contains(&&*held.attribute) || held.attribute.starts_with("settled_") {
            let aggregate =
                compiler.model.aggregates.get(held.aggregate).map_or("", |aggregate| &*aggregate.name);
            let message = format!(
                "aggregate `{aggregate}`: measure `{}`: every rollup has an attribute of this name; choose another",
                held.attribute
            );
            compiler.problems.report(held.at, message);
        }
    }
}

/// Old and new state of one item, and what its expiry settles, must fit into one transaction.
fn transaction_size(compiler: &mut ModelCompiler<'_, '_, '_>) {
    for (index, entity) in compiler.model.entities.iter().enumerate() {
        let aggregates = entity.aggregates.iter().filter_map(|index| compiler.model.aggregates.get(*index));
        let targets: usize = aggregates.map(|aggregate| aggregate.into.len()).sum();
        // The ledger's entry; the targets of the old state and of the new; an expiry's marker, and what it settles.
        let actions = match entity.on_expiry {
            OnExpiry::Keep => 2 + 3 * targets,
            OnExpiry::Subtract => 1 + 2 * targets,
        };
        if actions > MAX_ACTIONS {
            let at = compiler.document.entities.get(index).map_or(0, |settings| settings.name.at);
            let message = format!(
                "entity `{}`: its items count into {targets} rollups, so one change could need {actions} actions in a transaction, which holds {MAX_ACTIONS}; count into fewer",
                entity.name
            );
            compiler.problems.report(at, message);
        }
    }
}

/// No mirrored attribute lies within another, or is part of a key.
fn mirrored_paths(compiler: &mut ModelCompiler<'_, '_, '_>) {
    for (index, mirrored) in compiler.mirrored.iter().enumerate() {
        let Some(entity) = compiler.model.entities.get(mirrored.onto) else { continue };
        let Some(table) = compiler.model.tables.get(entity.table) else { continue };
        let shown = mirrored.path.join(".");
        let earlier = compiler.mirrored.iter().take(index).filter(|other| other.onto == mirrored.onto);
        let clash = earlier.into_iter().find(|other| {
            let paths = [(&mirrored.path, &other.path), (&mirrored.path, &other.revision())];
            let revisions = [(&mirrored.revision(), &other.path), (&mirrored.revision(), &other.revision())];
            paths.iter().chain(&revisions).any(|(a, b)| within(a, b))
        });
        if let Some(other) = clash {
            let other = other.path.join(".");
            let message = format!(
                "mirror onto `{}`: `{shown}` and `{other}`, or their `_rev`, are or contain one another; choose another path",
                entity.name
            );
            compiler.problems.report(mirrored.at, message);
        }
        let root = mirrored.path.first().map_or("", |name| &**name);
        if table.key().any(|key| *key.name == *root) {
            let message = format!(
                "mirror onto `{}`: `{root}` is part of the item's key; choose another attribute",
                entity.name
            );
            compiler.problems.report(mirrored.at, message);
        }
    }
}

/// Whether one path is the other, or lies within it.
fn within(a: &[Arc<str>], b: &[Arc<str>]) -> bool {
    a.iter().zip(b).all(|(a, b)| a == b)
}

/// What an item contributes must not depend on what we write onto it.
fn nothing_reads_mirrored(compiler: &mut ModelCompiler<'_, '_, '_>) {
    for mirrored in &compiler.mirrored {
        let Some(entity) = compiler.model.entities.get(mirrored.onto) else { continue };
        for (reader, path) in reads(compiler, entity) {
            let root = compiler.model.attributes.name(path.root);
            let read: Vec<Arc<str>> = std::iter::once(root).chain(&path.within).cloned().collect();
            if within(&read, &mirrored.path) || within(&read, &mirrored.revision()) {
                let message = format!(
                    "mirror onto `{}`: `{}` is read by {reader}; what an item contributes must not depend on what is mirrored onto it; mirror onto another attribute",
                    entity.name,
                    mirrored.path.join(".")
                );
                compiler.problems.report(mirrored.at, message);
            }
        }
    }
}

/// What is secret stays in its table: it is in no key, path, measure or condition.
fn nothing_reads_secrets(compiler: &mut ModelCompiler<'_, '_, '_>) {
    let all = compiler.document.entities.iter().enumerate();
    for (index, settings) in all.filter(|(_, settings)| !settings.secrets.is_empty()) {
        let Some(entity) = compiler.model.entities.get(index) else { continue };
        let table = compiler.model.tables.get(entity.table);
        let mut readers = reads(compiler, entity);
        readers.extend(cache_reads(compiler, entity));
        let columns = dataset_reads(compiler, entity);
        for secret in &settings.secrets {
            let path: Vec<Arc<str>> = secret.value.split('.').map(Arc::from).collect();
            let root = path.first().map_or("", |name| &**name);
            let mut key = table.into_iter().flat_map(|table| table.key());
            let is_key = key.any(|key| *key.name == *root);
            let is_on_the_way = |read: &AttributePath| {
                let name = compiler.model.row_attributes.name(read.root);
                within(&path, &std::iter::once(name).chain(&read.within).cloned().collect::<Vec<_>>())
            };
            let mut readers = readers.iter().filter(|(_, read)| path.len() <= 1 + read.within.len());
            // A column takes all that a map holds, the secret too.
            let reader = readers
                .find(|(_, read)| is_on_the_way(read))
                .or_else(|| columns.iter().find(|(_, read)| is_on_the_way(read)));
            let problem = if path.iter().any(|name| name.is_empty()) {
                "is no path of an attribute".to_owned()
            } else if is_key {
                "is part of the item's key, which every record carries".to_owned()
            } else if let Some((reader, _)) = reader {
                format!("is read by {reader}, and what is secret must not leave the table")
            } else {
                continue;
            };
            let message = format!("entity `{}`: secret `{}` {problem}", settings.name.value, secret.value);
            compiler.problems.report(secret.at, message);
        }
    }
}

/// Every attribute that an entity's caches read.
fn cache_reads(compiler: &ModelCompiler<'_, '_, '_>, entity: &Entity) -> Vec<(String, AttributePath)> {
    let mut reads = Vec::new();
    for rule in entity.caches.iter().filter_map(|index| compiler.model.caches.get(*index)) {
        let reader = format!("cache of `{}`", entity.name);
        let mut read = |term: &Term| {
            if let Term::Attribute(path) = term {
                reads.push((reader.clone(), path.clone()));
            }
        };
        for piece in rule.keys.iter().chain(&rule.paths).flat_map(|template| &template.pieces) {
            if let BoundPiece::Value(term, _) = piece {
                read(term);
            }
        }
        rule.when.iter().for_each(|condition| condition.each_term(&mut read));
        rule.depends_on.iter().for_each(|path| read(&Term::Attribute(path.clone())));
    }
    reads
}

/// Every attribute that an entity's datasets read.
fn dataset_reads(compiler: &ModelCompiler<'_, '_, '_>, entity: &Entity) -> Vec<(String, AttributePath)> {
    let mut reads = Vec::new();
    for (_, dataset) in compiler.model.datasets_of(entity) {
        let reader = format!("dataset `{}`", dataset.name);
        let columns = dataset.columns.iter().map(|column| &column.from);
        for term in columns.chain([&dataset.partition.0]).chain(dataset.lookups.iter().flat_map(terms_of)) {
            if let Term::Attribute(path) = term {
                reads.push((reader.clone(), path.clone()));
            }
        }
    }
    reads
}

/// Every attribute of an entity's items that decides what they contribute, and who reads it.
fn reads<'m>(compiler: &'m ModelCompiler<'_, '_, '_>, entity: &'m Entity) -> Vec<(String, AttributePath)> {
    let mut reads = Vec::new();
    let mut read = |reader: &str, term: &Term| {
        if let Term::Attribute(path) = term {
            reads.push((reader.to_owned(), path.clone()));
        }
    };
    for derivation in &entity.derivations {
        let reader = format!("derived value `{}`", derivation.name);
        derivation.kind.terms().for_each(|term| read(&reader, term));
    }
    for answer in &entity.answers {
        let name = compiler.model.lookups.get(answer.lookup).map_or("", |lookup| &*lookup.name);
        terms_of(answer).for_each(|term| read(&format!("lookup `{name}`"), term));
    }
    for aggregate in entity.aggregates.iter().filter_map(|index| compiler.model.aggregates.get(*index)) {
        let reader = format!("aggregate `{}`", aggregate.name);
        aggregate_terms(aggregate, &mut |term| read(&reader, term));
    }
    reads
}

/// Calls `visit` with every term of an aggregate.
fn aggregate_terms(aggregate: &Aggregate, visit: &mut impl FnMut(&Term)) {
    aggregate.lookups.iter().flat_map(terms_of).for_each(&mut *visit);
    let conditions =
        aggregate.when.iter().chain(aggregate.measures.iter().filter_map(|measure| measure.when.as_ref()));
    conditions.for_each(|condition| condition.each_term(visit));
    for destination in &aggregate.into {
        for piece in destination.partition.pieces.iter().chain(&destination.sort.pieces) {
            if let BoundPiece::Value(term, _) = piece {
                visit(term);
            }
        }
        destination.expires.iter().for_each(|expiry| visit(&expiry.of));
    }
    for measure in &aggregate.measures {
        match &measure.kind {
            MeasureKind::Count => {}
            MeasureKind::Sum(terms) => terms.iter().for_each(&mut *visit),
            MeasureKind::Max(term, _)
            | MeasureKind::Min(term, _)
            | MeasureKind::Histogram { of: term, .. } => visit(term),
        }
    }
}
