//! Names become indexes: tables, entities, lookups and rollups; then aggregates, mirrors and the checks of the whole.

use std::sync::Arc;

use super::document::{
    DeriveSettings, EntitySettings, KeySettings, ModelDocument, RollupSettings, ValueType,
};
use super::problem::{ProblemCollector, suggestion};
use super::reader::Located;
use super::scope::{EntityScope, NameScope, ResolvedName};
use super::{aggregates, caches, check, datasets, mirrors};
use crate::effect::Path;
use crate::record::AttributeInterner;
use crate::table::{
    Derivation, DerivationKind, Entity, KeyPattern, KeySchema, KeyType, LookupUse, Model, Rollup, Table,
    Template, Term, ValueFormat,
};

/// A model in the making. Its parts are in the order of the document's, one for one.
pub(super) struct ModelCompiler<'c, 'd, 's> {
    pub(super) document: &'c ModelDocument<'d>,
    pub(super) problems: &'c mut ProblemCollector<'s>,
    pub(super) model: Model,
    /// For each entity.
    pub(super) scopes: Vec<EntityScope>,
    /// What each rollup holds, averages and the bins of histograms included.
    pub(super) held: Vec<HeldMeasure>,
    /// Lookups whose inputs are wrong: the uses of one are not reported as well.
    pub(super) broken_lookups: Vec<usize>,
    /// For each lookup, the types of what it gives.
    pub(super) output_types: Vec<Vec<ValueType>>,
    /// What mirrors write onto items.
    pub(super) mirrored: Vec<MirroredPath>,
}

/// An attribute that a mirror writes.
pub(super) struct MirroredPath {
    pub(super) onto: usize,
    pub(super) path: Vec<Arc<str>>,
    /// Where the mirror names it.
    pub(super) at: usize,
}

impl MirroredPath {
    /// Where the rollup's `rev` is kept: `<attribute>_rev` beside the attribute.
    pub(super) fn revision(&self) -> Vec<Arc<str>> {
        let mut path = self.path.clone();
        if let Some(last) = path.last_mut() {
            *last = Arc::from(format!("{last}_rev"));
        }
        path
    }
}

/// A measure as an attribute of one rollup.
pub(super) struct HeldMeasure {
    pub(super) rollup: usize,
    pub(super) attribute: Arc<str>,
    /// An index into the model's aggregates.
    pub(super) aggregate: usize,
    /// Where the measure is declared.
    pub(super) at: usize,
}

/// Compiles a document. What comes out is a model only if no problem was reported.
pub(super) fn compile(document: &ModelDocument<'_>, problems: &mut ProblemCollector<'_>) -> Model {
    let model = Model {
        name: Arc::from(document.name.value),
        generation: document.generation,
        tables: Vec::new(),
        entities: Vec::new(),
        lookups: Vec::new(),
        rollups: Vec::new(),
        aggregates: Vec::new(),
        mirrors: Vec::new(),
        caches: Vec::new(),
        archive: document.archive,
        datasets: Vec::new(),
        queries: Vec::new(),
        attributes: AttributeInterner::default(),
        row_attributes: AttributeInterner::default(),
    };
    let mut compiler = ModelCompiler {
        document,
        problems,
        model,
        scopes: Vec::new(),
        held: Vec::new(),
        broken_lookups: Vec::new(),
        output_types: Vec::new(),
        mirrored: Vec::new(),
    };
    check::names(document, compiler.problems);
    compiler.tables();
    for entity in &document.entities {
        compiler.entity(entity);
    }
    for (index, lookup) in document.lookups.iter().enumerate() {
        compiler.lookup(index, lookup);
    }
    for rollup in &document.rollups {
        compiler.rollup(rollup);
    }
    for (index, aggregate) in document.aggregates.iter().enumerate() {
        aggregates::aggregate(&mut compiler, index, aggregate);
    }
    for mirror in &document.mirrors {
        mirrors::mirror(&mut compiler, mirror);
    }
    for cache in &document.caches {
        caches::cache(&mut compiler, cache);
    }
    // Datasets read attributes that nothing else does; whoever makes no rows need not decode them.
    let counted = compiler.model.attributes.clone();
    for dataset in &document.datasets {
        datasets::dataset(&mut compiler, dataset);
    }
    let read = std::mem::replace(&mut compiler.model.attributes, counted);
    compiler.model.row_attributes = read.with_eager_fields(datasets::attributes_of_days(&compiler.model));
    for query in &document.queries {
        datasets::query(&mut compiler, query);
    }
    check::whole(&mut compiler);
    compiler.model
}

impl ModelCompiler<'_, '_, '_> {
    pub(super) fn report(&mut self, at: usize, message: impl Into<String>) {
        self.problems.report(at, message);
    }

    /// The index of a name among those of one kind; an unknown name is reported.
    fn index_of(&mut self, owner: &str, kind: &str, name: Located<&str>, known: &[&str]) -> Option<usize> {
        let index = known.iter().position(|known| *known == name.value);
        if index.is_none() {
            let nearest = suggestion(name.value, known.iter().copied());
            self.report(name.at, format!("{owner}: unknown {kind} `{}`{nearest}", name.value));
        }
        index
    }

    pub(super) fn entity_named(&mut self, owner: &str, name: Located<&str>) -> Option<usize> {
        let known: Vec<&str> = self.document.entities.iter().map(|entity| entity.name.value).collect();
        self.index_of(owner, "entity", name, &known)
    }

    pub(super) fn lookup_named(&mut self, owner: &str, name: Located<&str>) -> Option<usize> {
        let known: Vec<&str> = self.document.lookups.iter().map(|lookup| lookup.name.value).collect();
        self.index_of(owner, "lookup", name, &known)
    }

    pub(super) fn rollup_named(&mut self, owner: &str, name: Located<&str>) -> Option<usize> {
        let known: Vec<&str> = self.document.rollups.iter().map(|rollup| rollup.name.value).collect();
        self.index_of(owner, "rollup", name, &known)
    }

    /// Resolves a name in a scope; one that means nothing there is reported.
    pub(super) fn resolve(
        problems: &mut ProblemCollector<'_>,
        vocabulary: &mut AttributeInterner,
        owner: &str,
        scope: NameScope<'_>,
        name: Located<&str>,
    ) -> Option<ResolvedName> {
        match scope.resolve(name.value, vocabulary) {
            Ok(resolved) => Some(resolved),
            Err(problem) => {
                if !problem.is_empty() {
                    problems.report(name.at, format!("{owner}: {problem}"));
                }
                None
            }
        }
    }

    /// Compiles a template; what is wrong with it is reported. The variables of a wrong one are known all the same.
    pub(super) fn template(
        &mut self,
        owner: &str,
        text: Located<&str>,
        variables: &mut Vec<Arc<str>>,
    ) -> Option<Template> {
        match Template::compile(text.value, variables) {
            Ok(template) => Some(template),
            Err(problem) => {
                self.report(text.at, format!("{owner}: {problem}"));
                let names = text.value.split('{').skip(1);
                for name in names.filter_map(|rest| rest.split('}').next()) {
                    if position(variables, name).is_none() {
                        variables.push(Arc::from(name));
                    }
                }
                None
            }
        }
    }

    fn tables(&mut self) {
        let document = self.document;
        for table in &document.tables {
            let mut key = table.key.iter().map(|attribute| {
                let declared = table.types.iter().find(|(name, _)| name.value == attribute.value);
                let key_type = declared.map_or(KeyType::default(), |(_, key_type)| *key_type);
                KeySchema { name: Arc::from(attribute.value), key_type }
            });
            let nameless = || KeySchema { name: Arc::from(""), key_type: KeyType::default() };
            self.model.tables.push(Table {
                name: Arc::from(table.name.value),
                partition_key: key.next().unwrap_or_else(nameless),
                sort_key: key.next(),
            });
        }
    }

    fn entity(&mut self, settings: &EntitySettings<'_>) {
        let owner = format!("entity `{}`", settings.name.value);
        let mut scope = EntityScope::default();
        let table = self.table_of(&owner, settings);
        let key = table.and_then(|table| self.entity_key(&owner, table, settings, &mut scope.variables));
        // A template that is wrong still tells its variables; one that is missing, or of an attribute too many, does not.
        let wanted = table.and_then(|table| self.document.tables.get(table)).map(|table| &table.key);
        scope.is_incomplete = wanted.is_none_or(|wanted| {
            let is_given = |name: &str| settings.key.iter().any(|(attribute, _)| attribute.value == name);
            let is_wanted = |name: &str| wanted.iter().any(|attribute| attribute.value == name);
            !wanted.iter().all(|name| is_given(name.value))
                || !settings.key.iter().all(|(attribute, _)| is_wanted(attribute.value))
        });
        scope.attributes = settings
            .attributes
            .iter()
            .map(|(name, value_type)| (Arc::from(name.value), *value_type))
            .collect();
        let (derivations, derived) = self.derivations(&owner, settings, &scope);
        scope.derived = derived;
        self.model.entities.push(Entity {
            name: Arc::from(settings.name.value),
            table: table.unwrap_or(0),
            key: key.unwrap_or_else(|| KeyPattern { partition: Template { pieces: Vec::new() }, sort: None }),
            variables: scope.variables.clone(),
            derivations,
            on_expiry: settings.on_expiry,
            aggregates: Vec::new(),
            answers: Vec::new(),
            mirrors: Vec::new(),
            caches: Vec::new(),
            datasets: Vec::new(),
            secrets: settings.secrets.iter().map(|secret| Path::dotted(secret.value)).collect(),
        });
        self.scopes.push(scope);
    }

    fn table_of(&mut self, owner: &str, settings: &EntitySettings<'_>) -> Option<usize> {
        let known: Vec<&str> = self.document.tables.iter().map(|table| table.name.value).collect();
        match (settings.table, known.len()) {
            (Some(name), _) => self.index_of(owner, "table", name, &known),
            (None, 1) => Some(0),
            (None, _) => {
                let nearest = super::problem::listed(&known);
                self.report(
                    settings.name.at,
                    format!("{owner}: `table` is missing; the model has several tables: {nearest}"),
                );
                None
            }
        }
    }

    /// The pattern of an entity's key; it names just the key attributes of the table.
    fn entity_key(
        &mut self,
        owner: &str,
        table: usize,
        settings: &EntitySettings<'_>,
        variables: &mut Vec<Arc<str>>,
    ) -> Option<KeyPattern> {
        let document = self.document;
        let wanted: Vec<&str> =
            document.tables.get(table)?.key.iter().map(|attribute| attribute.value).collect();
        let templates = self.key(owner, &settings.key, &wanted, settings.name.at, variables);
        let mut templates = templates.into_iter();
        let partition = templates.next()??;
        let sort = match templates.next() {
            Some(template) => Some(template?),
            None => None,
        };
        Some(KeyPattern { partition, sort })
    }

    /// The templates of a key, in the order of the attributes that it must have.
    fn key(
        &mut self,
        owner: &str,
        key: &KeySettings<'_>,
        wanted: &[&str],
        at: usize,
        variables: &mut Vec<Arc<str>>,
    ) -> Vec<Option<Template>> {
        for (name, _) in key {
            if !wanted.contains(&name.value) {
                let wanted = super::problem::listed(wanted);
                self.report(
                    name.at,
                    format!("{owner}: `{}` is no key attribute here; the key is {wanted}", name.value),
                );
            }
        }
        let mut templates = Vec::new();
        for attribute in wanted {
            let template = key.iter().find(|(name, _)| name.value == *attribute);
            if template.is_none() && !key.is_empty() {
                self.report(at, format!("{owner}: the key lacks `{attribute}`"));
            }
            templates.push(template.and_then(|(_, text)| self.template(owner, *text, variables)));
        }
        templates
    }

    fn derivations(
        &mut self,
        entity: &str,
        settings: &EntitySettings<'_>,
        scope: &EntityScope,
    ) -> (Vec<Derivation>, Vec<(Arc<str>, ValueType)>) {
        let mut derivations = Vec::new();
        let mut derived = Vec::new();
        let scope = NameScope { entity: scope, entity_name: settings.name.value, outputs: &[] };
        for (name, derive) in &settings.derive {
            let owner = format!("{entity}: derived value `{}`", name.value);
            let (problems, vocabulary) = (&mut *self.problems, &mut self.model.attributes);
            let mut value = |written: Located<&str>| {
                let resolved = Self::resolve(problems, vocabulary, &owner, scope, written)?;
                if resolved.format != ValueFormat::Plain {
                    problems
                        .report(written.at, format!("{owner}: derived values take no formats; leave it out"));
                }
                if let DeriveSettings::Percent { .. } = derive
                    && !resolved.value_type.is_numeric()
                {
                    problems.report(
                        written.at,
                        format!(
                            "{owner}: `{}` is {}; a percentage is of numbers",
                            written.value,
                            resolved.value_type.described()
                        ),
                    );
                }
                Some(resolved)
            };
            let (kind, value_type) = match derive {
                DeriveSettings::Percent { part, whole } => {
                    let (part, whole) = (value(*part), value(*whole));
                    let kind = part
                        .zip(whole)
                        .map(|(part, whole)| DerivationKind::Percent { part: part.term, whole: whole.term });
                    (kind, ValueType::Ratio)
                }
                DeriveSettings::First(names) => {
                    let values: Vec<ResolvedName> = names.iter().filter_map(|name| value(*name)).collect();
                    let first = values.first().map_or(ValueType::Any, |value| value.value_type);
                    let is_alike = values.iter().all(|value| value.value_type == first);
                    let terms = values.into_iter().map(|value| value.term).collect();
                    (Some(DerivationKind::First(terms)), if is_alike { first } else { ValueType::Any })
                }
                DeriveSettings::Part { of, key } => {
                    let kind = value(*of).and_then(|of| part(problems, &owner, *name, of, *key));
                    (kind, ValueType::Text)
                }
            };
            // A wrong one keeps its name, lest every use of it be reported too.
            let name: Arc<str> = Arc::from(name.value);
            derived.push((Arc::clone(&name), value_type));
            derivations
                .push(Derivation { name, kind: kind.unwrap_or_else(|| DerivationKind::First(Vec::new())) });
        }
        (derivations, derived)
    }

    fn rollup(&mut self, settings: &RollupSettings<'_>) {
        let owner = format!("rollup `{}`", settings.name.value);
        let mut variables = Vec::new();
        let mut templates = self
            .key(&owner, &settings.key, &["PK", "SK"], settings.name.at, &mut variables)
            .into_iter()
            .map(|template| template.unwrap_or(Template { pieces: Vec::new() }));
        let empty = || Template { pieces: Vec::new() };
        let (partition, sort) =
            (templates.next().unwrap_or_else(empty), templates.next().unwrap_or_else(empty));
        self.model.rollups.push(Rollup {
            name: Arc::from(settings.name.value),
            partition,
            sort,
            variables,
            shards: settings.shards,
            averages: Vec::new(),
            extremes: Vec::new(),
            mirrors: Vec::new(),
            shown: Vec::new(),
            overlaps: Vec::new(),
        });
    }
}

/// A derived value that is what stands in a key, at the variable of its name.
fn part(
    problems: &mut ProblemCollector<'_>,
    owner: &str,
    name: Located<&str>,
    of: ResolvedName,
    key: Located<&str>,
) -> Option<DerivationKind> {
    let mut variables = Vec::new();
    let problem = match Template::compile(key.value, &mut variables) {
        Err(problem) => problem.to_string(),
        Ok(_) if !matches!(of.value_type, ValueType::Text | ValueType::Any) => {
            format!("what is {} is no key; name a text", of.value_type.described())
        }
        Ok(key) => match position(&variables, name.value) {
            Some(variable) => {
                return Some(DerivationKind::Part { of: of.term, key, variables: variables.len(), variable });
            }
            None => format!(
                "the key has no variable `{{{0}}}`; write `{{{0}}}` where the value stands in it",
                name.value
            ),
        },
    };
    problems.report(key.at, format!("{owner}: {problem}"));
    None
}

/// The index of a variable among names.
pub(super) fn position(names: &[Arc<str>], name: &str) -> Option<usize> {
    names.iter().position(|known| **known == *name)
}

/// Every term in a lookup's use.
pub(super) fn terms_of(key: &LookupUse) -> impl Iterator<Item = &Term> {
    key.inputs.iter().chain(&key.outputs)
}
