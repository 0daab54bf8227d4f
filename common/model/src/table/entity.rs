//! Entities, the kinds of items: `[entities.<name>]`.

use std::iter;
use std::sync::Arc;

use serde::Serialize;

use super::derivation::{self, Derivation};
use super::load::compiler::ModelCompiler;
use super::load::problem::{ProblemCode, ProblemCollector};
use super::load::reader::{Located, LocatedPairs, SettingsTable};
use super::load::scope::EntityScope;
use super::load::suggestion::listed;
use super::named::{parse_named, read_named};
use super::named_list::NamedList;
use super::on_expiry::OnExpiry;
use super::value_type::DeclaredType;
use super::{
    Aggregate, InternedPath, LookupUse, Model, ModelNotation, Pattern, RollupKeys, Template, Term,
    TimeReading, number_keys, times,
};
use crate::record::{AttributeId, AttributePath};

/// A kind of item, recognized by its primary key.
#[derive(Debug, Default)]
pub struct Entity {
    /// Its name.
    pub name: Arc<str>,
    /// The table its items are in: an index into [`Model::tables`].
    pub table: usize,
    /// The pattern of its primary keys.
    pub key: KeyPattern,
    /// How values are written into its keys: as they are, except in the keys of rollups.
    pub key_values: RollupKeys,
    /// The rollup whose items these are, if they are of the state table: an index into [`Model::rollups`].
    pub rollup: Option<usize>,
    /// How many rollups lie between its items and the items of base tables. The items of base tables have level 0.
    pub level: u32,
    /// The condition that distinguishes its items from the items of other entities with the same keys.
    pub when: Option<Pattern>,
    /// The entities of its table that are preferred if a key matches both: indexes into [`Model::entities`]. If such an entity has a
    /// condition, it is preferred only for items that meet it.
    pub yields_to: Vec<usize>,
    /// The entities that its items can become by a change, because a condition decides: indexes into [`Model::entities`].
    pub rivals: Vec<usize>,
    /// The attributes that decide whether an item with such a key is of this entity; none if the key alone does.
    pub decided_by: Vec<AttributePath>,
    /// The names of the key's variables; [`Term::Key`] indexes them.
    pub variables: Vec<Arc<str>>,
    /// The attributes that the model declares, with their types.
    pub attributes: Vec<(AttributePath, DeclaredType)>,
    /// The values derived from its attributes; [`Term::Derived`] indexes them.
    pub derivations: Vec<Derivation>,
    /// How names (variables of the key, derived values, attributes) are read as times. The form of all other values decides.
    pub times: Vec<(Arc<str>, TimeReading)>,
    /// The effect on an item's contributions when TTL deletes it.
    pub on_expiry: OnExpiry,
    /// The attribute by which TTL deletes its items, if the model names it: a removal of an item that had expired by then is an expiry.
    pub ttl: Option<InternedPath>,
    /// The aggregates of this entity: indexes into [`Model::aggregates`].
    pub aggregates: Vec<usize>,
    /// The lookups of items of this entity, each with its key and outputs in this entity's own scope.
    pub offers: Vec<LookupUse>,
    /// The mirrors onto this entity: indexes into [`Model::mirrors`].
    pub mirrors: Vec<usize>,
    /// The cache rules of this entity: indexes into [`Model::caches`].
    pub caches: Vec<usize>,
    /// The event rules of this entity: indexes into [`Model::events`].
    pub events: Vec<usize>,
    /// The datasets of this entity: indexes into [`Model::datasets`].
    pub datasets: Vec<usize>,
    /// The attributes that must not leave the table: nothing of the model reads them, and the archive leaves them out.
    pub secrets: Vec<AttributePath>,
}

/// The pattern of a primary key.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct KeyPattern {
    /// Of the partition key.
    pub partition: Template,
    /// Of the sort key, if the table has one.
    pub sort: Option<Template>,
}

impl KeyPattern {
    /// Its templates, the partition key's first.
    pub(super) fn templates(&self) -> impl Iterator<Item = &Template> {
        iter::once(&self.partition).chain(&self.sort)
    }
}

impl Entity {
    /// The attributes that a term is read or derived from; a derived value is not derived from another.
    pub(super) fn attributes_of<'e>(&'e self, term: &'e Term) -> impl Iterator<Item = &'e InternedPath> {
        let derivation = term.derivation().and_then(|index| self.derivations.get(index));
        let terms = iter::once(term).chain(derivation.into_iter().flat_map(|derived| derived.kind.terms()));
        terms.filter_map(Term::attribute)
    }

    /// The attributes that a condition on its items reads, including the sources of derived values.
    pub(super) fn attributes_in(&self, when: Option<&Pattern>) -> Vec<InternedPath> {
        let mut attributes = Vec::new();
        if let Some(when) = when {
            when.each_term(&mut |term| attributes.extend(self.attributes_of(term).cloned()));
        }
        attributes
    }

    /// Whether anything is derived in the state table from such an item.
    #[must_use]
    pub fn is_used(&self) -> bool {
        !self.aggregates.is_empty() || !self.offers.is_empty() || !self.mirrors.is_empty()
    }

    /// Whether such an item stays counted when TTL deletes it.
    #[must_use]
    pub fn keeps_what_expired(&self) -> bool {
        self.on_expiry == OnExpiry::Keep && !self.aggregates.is_empty()
    }

    /// Whether such an item is a row of a dataset.
    #[must_use]
    pub fn has_datasets(&self) -> bool {
        !self.datasets.is_empty()
    }

    /// Whether the changes of such an item are archived, as far as its entity decides. Every change of an application's item is archived; a change
    /// of a rollup's item only if something besides counting follows from it, which a replay or an export can repeat.
    #[must_use]
    pub fn is_archived(&self) -> bool {
        self.rollup.is_none() || self.has_datasets() || !self.events.is_empty() || !self.caches.is_empty()
    }

    /// The most rollups that one state of an item counts into.
    #[must_use]
    pub fn most_rollups(&self, model: &Model) -> usize {
        let aggregates = self.aggregates.iter().filter_map(|index| model.aggregates.get(*index));
        aggregates.map(Aggregate::most_targets).sum()
    }

    /// The entity in words.
    #[must_use]
    pub fn describe(&self, model: &Model, index: usize) -> EntityDescription {
        let notation = ModelNotation::of(model, index, &[]);
        let key: Vec<String> = self.key.templates().map(|key| key.written(&self.variables)).collect();
        let derived = self.derivations.iter();
        EntityDescription {
            table: model.tables.get(self.table).map(|table| table.name.to_string()).unwrap_or_default(),
            key: key.join(" / "),
            when: self.when.as_ref().map(|when| notation.condition(when)),
            yields_to: self.yields_to.iter().map(|entity| model.entity_name(*entity)).collect(),
            on_expiry: self.on_expiry,
            ttl: self.ttl.as_ref().map(|ttl| notation.term(&Term::Attribute(ttl.clone()))),
            derived: derived.map(|value| (&value.name, value.kind.describe(&notation))).collect(),
            times: self.times.iter().map(|(name, reading)| (name, reading.to_string())).collect(),
            secret: self.secrets.iter().map(ToString::to_string).collect(),
            attributes: self
                .attributes
                .iter()
                .map(|(path, declared)| (path.to_string(), declared.name().to_owned()))
                .collect(),
        }
    }
}

/// An entity in words.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EntityDescription {
    /// The table's name.
    pub table: String,
    /// The templates of its key.
    pub key: String,
    /// The condition on its items, next to the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The entities that are preferred if a key matches both.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub yields_to: Vec<String>,
    /// The effect on an item's contributions when TTL deletes it.
    pub on_expiry: OnExpiry,
    /// The attribute by which TTL deletes its items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<String>,
    /// How its derived values are computed.
    pub derived: NamedList<String>,
    /// How names are read as times, where it is declared.
    #[serde(skip_serializing_if = "NamedList::is_empty")]
    pub times: NamedList<String>,
    /// The attributes that never leave the table.
    pub secret: Vec<String>,
    /// The types of the declared attributes.
    #[serde(skip)]
    pub attributes: NamedList<String>,
}

/// The attributes that decide which entity an item is of, next to its key, and whether its removal is an expiry.
pub(super) fn decisive_attributes(model: &Model) -> Vec<AttributeId> {
    let conditions = model.entities.iter().flat_map(|entity| entity.attributes_in(entity.when.as_ref()));
    let ttl = model.entities.iter().filter_map(|entity| entity.ttl.clone());
    conditions.chain(ttl).map(|path| path.root).collect()
}

/// The keys of an entity.
pub(super) const KEYS: [&str; 9] =
    ["table", "key", "when", "attributes", "derive", "times", "secret", "on_expiry", "ttl"];

/// Compiles an entity.
pub(super) fn compile(compiler: &mut ModelCompiler<'_, '_>, settings: &SettingsTable<'_>) -> Option<()> {
    let SettingsTable { owner, at, .. } = settings;
    let problems = &mut *compiler.problems;
    let key = settings.required_pairs("key", problems);
    let declared = read_attributes(settings, problems);
    let times = settings.pairs("times", problems);
    let on_expiry = read_named(settings, "on_expiry", problems).unwrap_or_default();
    let (table, secrets) = (settings.text("table", problems), settings.texts("secret", problems));
    compiler.check_name("entity", settings.located_name());
    let table = table_of(compiler, settings, table);
    let name: Arc<str> = Arc::from(settings.name);
    let mut scope = scope_of(&name, &declared);
    let templates = table.and_then(|table| {
        let table = compiler.model.tables.get(table)?;
        let wanted: Vec<Arc<str>> = table.key().map(|key| Arc::clone(&key.name)).collect();
        let wanted: Vec<&str> = wanted.iter().map(|name| &**name).collect();
        let table = format!("table `{}`", table.name);
        compiler.key(owner, &key, (&table, &wanted), *at, &mut scope.variables)
    });
    if let (Some(table), Some(templates)) = (table, &templates) {
        scope.numbers = check_key(compiler, owner, table, &key, templates);
    }
    scope.times = times::compile(compiler, settings, &times);
    let separator = table.and_then(|table| compiler.model.tables.get(table)?.separator);
    let templates = templates.map(|keys| keys.into_iter().map(|key| Template { separator, ..key }));
    // A wrong key may have more variables than could be read.
    scope.is_incomplete = templates.is_none();
    let mut templates = templates.into_iter().flatten();
    let variables = scope.variables.clone();
    let (derivations, scope) = derivation::compile(compiler, settings, scope);
    times::check(compiler, settings, &times, &scope);
    let (times, scope) = (scope.times.clone(), Arc::new(scope));
    let ttl = ttl_attribute(compiler, settings, &scope);
    let when = compiler.context_of(owner, Arc::clone(&scope)).pattern(owner, settings.get("when"));
    let index = compiler.model.entities.len();
    let secrets = secrets_of(compiler, owner, index, &secrets);
    compiler.scopes.push(scope);
    compiler.places.entities.push(*at);
    compiler.model.entities.push(Entity {
        name,
        table: table.unwrap_or(0),
        key: KeyPattern { partition: templates.next().unwrap_or_default(), sort: templates.next() },
        when,
        variables,
        attributes: declared,
        derivations,
        times,
        on_expiry,
        ttl,
        secrets,
        ..Entity::default()
    });
    Some(())
}

/// The scope of an entity with these attributes, without its key.
fn scope_of(name: &Arc<str>, declared: &[(AttributePath, DeclaredType)]) -> EntityScope {
    let attributes =
        declared.iter().map(|(path, declared)| (Arc::from(path.to_string()), declared.value_type()));
    EntityScope { name: Arc::clone(name), attributes: attributes.collect(), ..EntityScope::default() }
}

/// The attribute that `ttl` names: a top-level number, as DynamoDB's TTL reads it.
fn ttl_attribute(
    compiler: &mut ModelCompiler<'_, '_>,
    settings: &SettingsTable<'_>,
    scope: &Arc<EntityScope>,
) -> Option<InternedPath> {
    let name = settings.text("ttl", compiler.problems)?;
    let owner = format!("{}: `ttl`", settings.owner);
    let mut context = compiler.context_of(&owner, Arc::clone(scope));
    let resolved = context.resolve(&owner, name)?;
    let described = resolved.value_type.described();
    let problem = match resolved.term {
        Term::Attribute(path) if path.within.is_empty() && resolved.format.is_plain() => {
            if resolved.value_type.is_numeric() {
                return Some(path);
            }
            format!("`{}` is {described}; TTL reads a number (N): seconds since 1970", name.value)
        }
        Term::Attribute(_)
        | Term::Key(_)
        | Term::Derived(_)
        | Term::LookupOutput { .. }
        | Term::Element(_) => {
            format!("`{}` is not a top-level attribute; name the table's TTL attribute", name.value)
        }
    };
    context.report(ProblemCode::UnfitTime, name.at, format!("{owner}: {problem}"));
    None
}

/// Checks the templates of a key; returns the variables that are numbers.
fn check_key(
    compiler: &mut ModelCompiler<'_, '_>,
    owner: &str,
    table: usize,
    key: &LocatedPairs<'_>,
    templates: &[Template],
) -> Vec<usize> {
    times::check_key_zones(compiler, owner, key, templates);
    let Some(table) = compiler.model.tables.get(table) else { return Vec::new() };
    let attributes: Vec<_> = table.key().cloned().collect();
    if let Some((at, message)) = number_keys::problem(owner, (&table.name, &attributes), key, templates) {
        compiler.report(ProblemCode::UnfitKeyValue, at, message);
    }
    number_keys::variables(&attributes, templates)
}

fn read_attributes(
    settings: &SettingsTable<'_>,
    problems: &mut ProblemCollector<'_>,
) -> Vec<(AttributePath, DeclaredType)> {
    let mut attributes = Vec::new();
    for (name, written) in settings.pairs("attributes", problems) {
        let called = format!("{}: the type of attribute `{}`", settings.owner, name.value);
        let declared = parse_named(&called, written, problems).unwrap_or(DeclaredType::Any);
        match name.value.parse::<AttributePath>() {
            Ok(path) => attributes.push((path, declared)),
            Err(problem) => {
                let message = format!(
                    "{}: attribute `{}` is not an attribute path; {problem}",
                    settings.owner, name.value
                );
                problems.report(ProblemCode::InvalidPath, name.at, message);
                problems.mark_incomplete();
            }
        }
    }
    attributes
}

/// The attributes that never leave the table. A secret whose name cannot be read is reported: otherwise the secret would leave the table.
fn secrets_of(
    compiler: &mut ModelCompiler<'_, '_>,
    owner: &str,
    entity: usize,
    written: &[Located<&str>],
) -> Vec<AttributePath> {
    let mut secrets = Vec::new();
    for secret in written {
        match secret.value.parse::<AttributePath>() {
            Ok(path) => {
                compiler.secrets.push((entity, path.clone(), secret.at));
                secrets.push(path);
            }
            Err(problem) => {
                let message =
                    format!("{owner}: secret `{}` is not an attribute path; {problem}", secret.value);
                compiler.report(ProblemCode::InvalidPath, secret.at, message);
            }
        }
    }
    secrets
}

fn table_of(
    compiler: &mut ModelCompiler<'_, '_>,
    entity: &SettingsTable<'_>,
    table: Option<Located<&str>>,
) -> Option<usize> {
    let (tables, owner) = (&compiler.model.tables, &entity.owner);
    match (table, tables.len()) {
        (Some(name), _) => compiler.table_named(owner, name),
        (None, 1) => Some(0),
        (None, _) => {
            let known: Vec<&str> = tables.iter().map(|table| &*table.name).collect();
            let message =
                format!("{owner}: `table` is missing; the model has several tables: {}", listed(&known));
            compiler.report(ProblemCode::MissingKey, entity.at, message);
            None
        }
    }
}
