//! Lookups, values that an item does not have itself, read from another item through an index: `[lookups.<name>]`.

use std::sync::Arc;

use serde::Serialize;

use super::load::compiler::ModelCompiler;
use super::load::problem::ProblemCode;
use super::load::reader::{Located, SettingsTable};
use super::template::split_format;
use super::{Model, Template, Term, ValueFormat};

/// Values of another item, found through an index.
#[derive(Debug)]
pub struct Lookup {
    /// Its name.
    pub name: Arc<str>,
    /// The entity that is looked up: an index into [`Model::entities`].
    pub of: usize,
    /// The index that finds it.
    pub index: Arc<str>,
    /// Name and template of the index's partition key. The variables are the lookup's inputs, in [`Lookup::inputs`]' order.
    pub partition: (Arc<str>, Template),
    /// Name and template of the index's sort key, if the query names one.
    pub sort: Option<(Arc<str>, Template)>,
    /// The names of its inputs.
    pub inputs: Vec<Arc<str>>,
    /// The names of its outputs.
    pub outputs: Vec<Arc<str>>,
}

/// A use of a lookup in the scope of one entity.
#[derive(Debug)]
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
    /// The index's name.
    pub index: String,
    /// The index's key.
    pub key: String,
    /// The names of the outputs.
    pub gives: Vec<String>,
}

impl Lookup {
    /// The lookup in words.
    #[must_use]
    pub fn describe(&self, model: &Model) -> LookupDescription {
        let key = std::iter::once(&self.partition).chain(&self.sort);
        let key: Vec<String> =
            key.map(|(name, template)| format!("{name} = {}", template.written(&self.inputs))).collect();
        LookupDescription {
            of: model.entity_name(self.of),
            index: self.index.to_string(),
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
    let index = settings.required_text("index", problems);
    let key = settings.required_pairs("key", problems);
    let gives = settings.required_texts("gives", problems);
    if settings.get("key").is_some() && !(1..=2).contains(&key.len()) {
        let message = format!(
            "{owner}: `key` holds the index's partition key and, if the query names one, its sort key"
        );
        problems.report(ProblemCode::KeyMismatch, *at, message);
    }
    if settings.is_empty_list("gives") {
        let message = format!("{owner}: `gives` is empty; name the values to look up");
        problems.report(ProblemCode::EmptySetting, *at, message);
        problems.mark_incomplete();
    }
    let (of, index) = (of?, index?);
    compiler.check_name("lookup", settings.located_name());
    let entity = compiler.entity_named(owner, of);
    let mut inputs = Vec::new();
    let mut templates = Vec::new();
    for (attribute, text) in &key {
        let template = compiler.template(owner, *text, &mut inputs).unwrap_or_default();
        templates.push((Arc::from(attribute.value), template));
    }
    let key_at = key.first().map_or(*at, |(_, text)| text.at);
    add_offer(compiler, owner, entity, (&inputs, key_at), &gives);
    let mut templates = templates.into_iter();
    compiler.places.lookups.push(*at);
    compiler.model.lookups.push(Lookup {
        name: Arc::from(settings.name),
        of: entity.unwrap_or(0),
        index: Arc::from(index.value),
        partition: templates.next().unwrap_or_else(|| (Arc::from(""), Template::default())),
        sort: templates.next(),
        inputs,
        outputs: gives.iter().map(|output| Arc::from(output.value)).collect(),
    });
    Some(())
}

/// The lookup in the scope of the entity that it looks up.
fn add_offer(
    compiler: &mut ModelCompiler<'_, '_>,
    owner: &str,
    entity: Option<usize>,
    (inputs, at): (&[Arc<str>], usize),
    gives: &[Located<&str>],
) {
    let lookup = compiler.model.lookups.len();
    let mut context = compiler.context(owner, entity);
    let (formatted, plain): (Vec<_>, Vec<_>) = inputs
        .iter()
        .cloned()
        .partition(|input| split_format(input).is_ok_and(|(_, format)| format != ValueFormat::Plain));
    for input in formatted {
        let message = format!("{owner}: `{{{input}}}`: the key of a lookup takes no formats");
        context.report(ProblemCode::UnusableFormat, at, message);
    }
    let terms = context.lookup_inputs(owner, &plain, at);
    let mut outputs = Vec::new();
    let mut types = Vec::new();
    for output in gives {
        let Some(resolved) = context.resolve(owner, *output) else { continue };
        if resolved.format != ValueFormat::Plain {
            let message =
                format!("{owner}: `{}`: the outputs of a lookup take no formats; leave it out", output.value);
            context.report(ProblemCode::UnusableFormat, output.at, message);
        } else if !resolved.value_type.fits_key(ValueFormat::Plain) {
            let described = resolved.value_type.described();
            let message = format!(
                "{owner}: `{}` is {described}; the output of a lookup is text, a number or a boolean",
                output.value
            );
            context.report(ProblemCode::UnfitKeyValue, output.at, message);
        }
        if !resolved.term.is_key() {
            let message = format!(
                "{owner}: `{}` is not in the key of its entity, so it may change, and the result of a lookup is read once and remembered: later values are not seen",
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
    // If an output is not defined, the types after it would be those of others.
    compiler.output_types.push(if types.len() == gives.len() { types } else { Vec::new() });
    if let Some(entity) = entity.and_then(|entity| compiler.model.entities.get_mut(entity)) {
        entity.offers.push(LookupUse { lookup, inputs: terms, outputs });
    }
}
