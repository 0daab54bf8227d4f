//! Lookups, values that an item does not have itself, read from another item by its primary key or through an index: `[lookups.<name>]`.

use std::sync::Arc;

use serde::Serialize;

use super::key_attribute::key_attribute;
use super::key_schema::KeyType;
use super::load::compiler::ModelCompiler;
use super::load::problem::ProblemCode;
use super::load::reader::{Located, SettingsTable};
use super::secondary_index::{MAX_ATTRIBUTES, SecondaryIndex};
use super::template::{known_name, split_format};
use super::{Entity, Model, Template, TemplatePiece, Term, ValueFormat};

/// Values of another item.
#[derive(Debug)]
pub struct Lookup {
    /// Its name.
    pub name: Arc<str>,
    /// The entity that is looked up: an index into [`Model::entities`].
    pub of: usize,
    /// How it is found.
    pub source: LookupSource,
    /// Names and templates of the attributes by which the item is found, the partition key first: the attributes of the index that the query
    /// states, or the item's primary key. The variables are the lookup's inputs, in [`Lookup::inputs`]' order.
    pub key: Vec<(Arc<str>, Template)>,
    /// The names of its inputs.
    pub inputs: Vec<Arc<str>>,
    /// The names of its outputs.
    pub outputs: Vec<Arc<str>>,
}

/// How a looked-up item is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupSource {
    /// By a query of this global secondary index, eventually consistent.
    Index(Arc<str>),
    /// By its primary key, strongly consistent.
    PrimaryKey,
}

impl Lookup {
    /// The index that finds the item; `None` if it is read by its primary key.
    #[must_use]
    pub fn index(&self) -> Option<&Arc<str>> {
        match &self.source {
            LookupSource::Index(name) => Some(name),
            LookupSource::PrimaryKey => None,
        }
    }
}

impl Lookup {
    /// The type of an attribute of the index's key: text, unless the model declares the index.
    #[must_use]
    pub fn key_type(&self, model: &Model, attribute: &str) -> KeyType {
        let table = model.entities.get(self.of).and_then(|entity| model.tables.get(entity.table));
        let indexes = table.into_iter().flat_map(|table| &table.indexes);
        let declared = self.index().and_then(|index| indexes.into_iter().find(|known| known.name == *index));
        let key = declared.into_iter().flat_map(SecondaryIndex::key).find(|key| *key.name == *attribute);
        key.map(|key| key.key_type).unwrap_or_default()
    }
}

/// A use of a lookup in the scope of one entity.
#[derive(Clone, Debug)]
pub struct LookupUse {
    /// Which lookup: an index into [`Model::lookups`].
    pub lookup: usize,
    /// Where its inputs come from, aligned with [`Lookup::inputs`].
    pub inputs: Vec<Term>,
    /// In the scope of the looked-up entity itself: where its outputs come from, aligned with [`Lookup::outputs`]. Empty elsewhere.
    pub outputs: Vec<Term>,
}

impl LookupUse {
    /// Every term in it.
    pub(super) fn terms(&self) -> impl Iterator<Item = &Term> {
        self.inputs.iter().chain(&self.outputs)
    }
}

/// A lookup in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LookupDescription {
    /// The entity that is looked up.
    pub of: String,
    /// The index's name; absent if the item is read by its primary key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// The key of the index, or of the item.
    pub key: String,
    /// The names of the outputs.
    pub gives: Vec<String>,
}

impl Lookup {
    /// The lookup in words.
    #[must_use]
    pub fn describe(&self, model: &Model) -> LookupDescription {
        let key: Vec<String> = self
            .key
            .iter()
            .map(|(name, template)| format!("{name} = {}", template.written(&self.inputs)))
            .collect();
        LookupDescription {
            of: model.entity_name(self.of),
            index: self.index().map(ToString::to_string),
            key: key.join(", "),
            gives: self.outputs.iter().map(ToString::to_string).collect(),
        }
    }
}

/// The keys of a lookup.
pub(super) const KEYS: [&str; 4] = ["of", "index", "key", "gives"];

/// Compiles a lookup.
pub(super) fn compile(compiler: &mut ModelCompiler<'_, '_>, settings: &SettingsTable<'_>) -> Option<()> {
    let SettingsTable { owner, at, .. } = settings;
    let problems = &mut *compiler.problems;
    let of = settings.required_text("of", problems);
    let index = settings.text("index", problems);
    let is_indexed = settings.get("index").is_some();
    let key =
        if is_indexed { settings.required_pairs("key", problems) } else { settings.pairs("key", problems) };
    let gives = settings.required_texts("gives", problems);
    if is_indexed && settings.get("key").is_some() && !(1..=2 * MAX_ATTRIBUTES).contains(&key.len()) {
        let message = format!(
            "{owner}: `key` holds the index's partition key and, if the query names one, its sort key; each has up to {MAX_ATTRIBUTES} attributes"
        );
        problems.report(ProblemCode::KeyMismatch, *at, message);
    }
    if settings.is_empty_list("gives") {
        let message = format!("{owner}: `gives` is empty; name the values to look up");
        problems.report(ProblemCode::EmptySetting, *at, message);
        problems.mark_incomplete();
    }
    let of = of?;
    if is_indexed {
        index?;
    }
    compiler.check_name("lookup", settings.located_name());
    let entity = compiler.entity_named(owner, of);
    let key_at = key.first().map_or(*at, |(_, text)| text.at);
    let (source, found) = match index {
        Some(index) => by_index(compiler, owner, (entity, index), &key),
        None => (LookupSource::PrimaryKey, primary_key(compiler, settings, entity, &key)),
    };
    let LookedUpKey { inputs, templates, terms } = found;
    add_offer(compiler, owner, entity, (&inputs, key_at), (terms, &gives));
    compiler.places.lookups.push(*at);
    compiler.model.lookups.push(Lookup {
        name: Arc::from(settings.name),
        of: entity.unwrap_or(0),
        source,
        key: templates,
        inputs,
        outputs: gives.iter().map(|output| Arc::from(known_name(output.value))).collect(),
    });
    Some(())
}

/// Reports a lookup by an index that its table declares with other key attributes. A query states the whole partition key, and the sort
/// key from the left. Of more than two attributes, only the declaration of the index says which key they belong to.
fn check_declared_index(
    compiler: &mut ModelCompiler<'_, '_>,
    owner: &str,
    (entity, index): (Option<usize>, Located<&str>),
    key: &[(Located<&str>, Located<&str>)],
) {
    let model = &compiler.model;
    let Some(table) = entity.and_then(|entity| model.tables.get(model.entities.get(entity)?.table)) else {
        return;
    };
    let message = match table.indexes.iter().find(|declared| *declared.name == *index.value) {
        None if key.len() > 2 => format!(
            "{owner}: an index with several attributes of a key is declared by its table: `[tables.{}.indexes.{}]`, with `key = [[\"…\", \"…\"], \"…\"]`",
            table.name, index.value
        ),
        None => return,
        Some(declared) => {
            let mut pairs = declared.key().zip(key);
            let is_equal =
                pairs.all(|(declared, (written, _))| *declared.name == *key_attribute(written.value));
            if is_equal && (declared.partition.len()..=declared.key().count()).contains(&key.len()) {
                return;
            }
            format!(
                "{owner}: the index `{}` of table `{}` is declared on {}; write `key` with these attributes, the partition key first",
                index.value,
                table.name,
                declared.key_text()
            )
        }
    };
    compiler.report(ProblemCode::KeyMismatch, index.at, message);
}

/// The key by which an item is looked up.
#[derive(Default)]
struct LookedUpKey {
    inputs: Vec<Arc<str>>,
    /// The key's attributes.
    templates: Vec<(Arc<str>, Template)>,
    /// Where the inputs come from in the looked-up item, if its primary key has them.
    terms: Option<Vec<Term>>,
}

/// An index of the looked-up entity's table, and its key.
fn by_index(
    compiler: &mut ModelCompiler<'_, '_>,
    owner: &str,
    (entity, index): (Option<usize>, Located<&str>),
    key: &[(Located<&str>, Located<&str>)],
) -> (LookupSource, LookedUpKey) {
    check_declared_index(compiler, owner, (entity, index), key);
    let (mut inputs, mut templates) = (Vec::new(), Vec::new());
    for (attribute, text) in key {
        let template = compiler.template(owner, *text, &mut inputs).unwrap_or_default();
        templates.push((Arc::from(key_attribute(attribute.value)), template));
    }
    let source = LookupSource::Index(Arc::from(index.value));
    (source, LookedUpKey { inputs, templates, terms: None })
}

/// The primary key of the looked-up entity. A `key` has the same text between its variables. The variables may have other names, which the
/// items that use the lookup have.
fn primary_key(
    compiler: &mut ModelCompiler<'_, '_>,
    settings: &SettingsTable<'_>,
    entity: Option<usize>,
    key: &[(Located<&str>, Located<&str>)],
) -> LookedUpKey {
    let SettingsTable { owner, at, .. } = settings;
    let model = &compiler.model;
    let Some(known) = entity.and_then(|entity| model.entities.get(entity)) else {
        return LookedUpKey::default();
    };
    let Some(table) = model.tables.get(known.table) else { return LookedUpKey::default() };
    let own: Vec<Template> = known.key.templates().cloned().collect();
    let names: Vec<Arc<str>> = table.key().map(|key| Arc::clone(&key.name)).collect();
    if own.iter().any(|template| template.pieces.is_empty()) {
        return LookedUpKey::default();
    }
    let templates = |own: Vec<Template>| names.iter().cloned().zip(own).collect();
    if settings.get("key").is_none() {
        let terms = (0..known.variables.len()).map(Term::Key).collect();
        return LookedUpKey {
            inputs: known.variables.clone(),
            templates: templates(own),
            terms: Some(terms),
        };
    }
    let (table, entity_name, written) =
        (format!("table `{}`", table.name), known.name.clone(), written_key(known));
    let attributes: Vec<&str> = names.iter().map(|name| &**name).collect();
    let mut inputs = Vec::new();
    let Some(given) = compiler.key(owner, key, (&table, &attributes), *at, &mut inputs) else {
        return LookedUpKey::default();
    };
    let Some(terms) = corresponding(&given, &own, inputs.len()) else {
        let at = key.first().map_or(*at, |(_, text)| text.at);
        let message = format!(
            "{owner}: `key` differs from the key of entity `{entity_name}`, {written}, in more than the names of variables; write it like that, with the names that the items using the lookup have, or name an `index`"
        );
        compiler.report(ProblemCode::UnfitLookupKey, at, message);
        return LookedUpKey::default();
    };
    LookedUpKey { inputs, templates: templates(given), terms: Some(terms) }
}

fn written_key(entity: &Entity) -> String {
    let written = entity.key.templates().map(|template| format!("`{}`", template.written(&entity.variables)));
    written.collect::<Vec<_>>().join(" / ")
}

/// For each of `inputs` variables of a key, the variable of another key in its place; `None` if the keys differ in more than the names of
/// their variables.
fn corresponding(given: &[Template], own: &[Template], inputs: usize) -> Option<Vec<Term>> {
    let mut places: Vec<Option<usize>> = vec![None; inputs];
    for (given, own) in given.iter().zip(own) {
        if given.pieces.len() != own.pieces.len() {
            return None;
        }
        for pieces in given.pieces.iter().zip(&own.pieces) {
            match pieces {
                (TemplatePiece::Literal(given), TemplatePiece::Literal(own)) if given == own => {}
                (TemplatePiece::Variable(given, format), TemplatePiece::Variable(own, own_format))
                    if format == own_format =>
                {
                    let place = places.get_mut(*given)?;
                    if place.is_some_and(|known| known != *own) {
                        return None;
                    }
                    *place = Some(*own);
                }
                (TemplatePiece::Literal(_) | TemplatePiece::Variable(..), _) => return None,
            }
        }
    }
    let mut distinct: Vec<usize> = places.iter().copied().collect::<Option<_>>()?;
    let terms = distinct.iter().copied().map(Term::Key).collect();
    distinct.sort_unstable();
    distinct.dedup();
    (distinct.len() == inputs).then_some(terms)
}

/// The lookup in the scope of the entity that it looks up.
fn add_offer(
    compiler: &mut ModelCompiler<'_, '_>,
    owner: &str,
    entity: Option<usize>,
    (inputs, at): (&[Arc<str>], usize),
    (terms, gives): (Option<Vec<Term>>, &[Located<&str>]),
) {
    let lookup = compiler.model.lookups.len();
    let mut context = compiler.context(owner, entity);
    let (formatted, plain): (Vec<_>, Vec<_>) = inputs
        .iter()
        .cloned()
        .partition(|input| split_format(input).is_ok_and(|(_, format)| !format.is_plain()));
    for input in formatted {
        let message = format!("{owner}: `{{{input}}}`: the key of a lookup takes no formats");
        context.report(ProblemCode::UnusableFormat, at, message);
    }
    let terms = match terms {
        Some(terms) => terms,
        None => context.lookup_inputs(owner, (&plain, at), true),
    };
    let mut outputs = Vec::new();
    let mut types = Vec::new();
    for output in gives {
        let Some(resolved) = context.resolve(owner, *output) else { continue };
        if !resolved.format.is_plain() {
            let message =
                format!("{owner}: `{}`: the outputs of a lookup take no formats; leave it out", output.value);
            context.report(ProblemCode::UnusableFormat, output.at, message);
        } else if !resolved.value_type.fits_key(&ValueFormat::Plain) {
            let described = resolved.value_type.described();
            let message = format!(
                "{owner}: `{}` is {described}; the output of a lookup is text, a number or a boolean",
                output.value
            );
            context.report(ProblemCode::UnfitKeyValue, output.at, message);
        }
        if !resolved.term.is_key() {
            let message = format!(
                "{owner}: `{}` is not in the key of its entity, so it may change, and the result of a lookup is read once and remembered: later values are not seen until `afterwrite backfill --reattribute` counts the items by the values of that moment",
                output.value
            );
            context.report(ProblemCode::ChangeableOutput, output.at, message);
        }
        outputs.push(resolved.term);
        types.push((resolved.value_type, resolved.reading));
    }
    if entity.is_some() && terms.len() < inputs.len() {
        compiler.broken_lookups.push(lookup);
    }
    // If an output is not defined, the types after it would belong to other outputs.
    compiler.output_types.push(if types.len() == gives.len() { types } else { Vec::new() });
    if let Some(entity) = entity.and_then(|entity| compiler.model.entities.get_mut(entity)) {
        entity.offers.push(LookupUse { lookup, inputs: terms, outputs });
    }
}
