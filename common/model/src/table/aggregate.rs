//! Aggregates, which count an entity's items into rollups: `[[aggregates]]`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::binding::{BindingSettings, KeyBinding};
use super::computed::register_measures;
use super::for_each::{ForEach, written_at_most};
use super::load::compiler::{EntityContext, ModelCompiler};
use super::load::problem::ProblemCode;
use super::load::reader::{self, Located, SettingsTable, entries};
use super::load::scope::ResolvedName;
use super::measure::{Measure, MeasureDescription};
use super::measure_settings;
use super::named::{named_values, read_named};
use super::named_list::NamedList;
use super::percentile::PercentileBinDescription;
use super::{BoundTemplate, LookupUse, Model, ModelNotation, Pattern, Term, TimeReading, ValueFormat};

/// Which measures an entity's items contribute to which rollups.
#[derive(Debug)]
pub struct Aggregate {
    /// Its name, which ledger entries know it by.
    pub name: Arc<str>,
    /// Whose items are counted: an index into [`Model::entities`].
    pub of: usize,
    /// The condition for an item to be counted at all.
    pub when: Option<Pattern>,
    /// The lookups its templates and measures use; [`Term::LookupOutput`] indexes them.
    pub lookups: Vec<LookupUse>,
    /// The elements that are counted, if not the item itself.
    pub for_each: Option<ForEach>,
    /// The treatment of items that do not fit: a value is missing or of a wrong type.
    pub on_misfit: OnMisfit,
    /// The rollups that are counted into.
    pub into: Vec<RollupDestination>,
    /// The variables of the rollups' keys that take the value of another name.
    pub bindings: Vec<KeyBinding>,
    /// The measures that are counted, in the order of the model file.
    pub measures: Vec<Measure>,
}

/// A rollup as an aggregate's items address it.
#[derive(Debug)]
pub struct RollupDestination {
    /// Which rollup: an index into [`Model::rollups`].
    pub rollup: usize,
    /// Its `PK`.
    pub partition: BoundTemplate,
    /// Its `SK`.
    pub sort: BoundTemplate,
    /// When the rollup expires, if it does.
    pub expires: Option<RollupExpiry>,
    /// The values of the key without which an item does not count in this rollup.
    pub optional: Vec<Term>,
}

impl RollupDestination {
    /// The values that the key is rendered from.
    fn key_terms(&self) -> impl Iterator<Item = &Term> {
        self.partition.terms().chain(self.sort.terms())
    }
}

named_values! {
    /// The treatment of an item that does not fit an aggregate: a value is missing or of a wrong type, for example.
    #[derive(Default)]
    pub enum OnMisfit {
        /// The record is parked, or fails, as the function is configured.
        #[default]
        Park = "park",
        /// The item does not count in this aggregate.
        Skip = "skip",
        /// The record fails, however the function is configured.
        Fail = "fail",
    }
}

impl OnMisfit {
    /// Whether it is the default, which descriptions leave out.
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The time at which a rollup expires.
#[derive(Debug)]
pub struct RollupExpiry {
    /// The moment that it counts from, a variable of the rollup's key.
    pub of: Term,
    /// How it is read.
    pub reading: TimeReading,
    /// How the key holds it: what all items that count into the rollup agree on.
    pub format: ValueFormat,
    /// How long after it.
    pub after: Duration,
}

impl Aggregate {
    /// Calls `visit` with every term in it.
    pub(super) fn each_term(&self, visit: &mut impl FnMut(&Term)) {
        self.lookups.iter().flat_map(LookupUse::terms).for_each(&mut *visit);
        let conditions =
            self.when.iter().chain(self.measures.iter().filter_map(|measure| measure.when.as_ref()));
        conditions.for_each(|condition| condition.each_term(visit));
        self.for_each.iter().for_each(|elements| visit(&elements.of));
        for destination in &self.into {
            destination.key_terms().for_each(&mut *visit);
            destination.expires.iter().for_each(|expiry| visit(&expiry.of));
        }
        self.measures.iter().flat_map(|measure| measure.kind.terms()).for_each(visit);
    }

    /// How many rollups one item can count into.
    #[must_use]
    pub fn most_targets(&self) -> usize {
        let most = self.for_each.as_ref().map_or(1, |elements| elements.at_most);
        let most_of = |destination: &RollupDestination| {
            if destination.key_terms().any(Term::is_of_element) { most } else { 1 }
        };
        self.into.iter().map(most_of).sum()
    }

    /// Whether an item is a misfit if this lookup (an index into [`Aggregate::lookups`]) finds nothing: its outputs are used elsewhere
    /// than for the values of rollup keys that may be absent.
    #[must_use]
    pub fn needs_outputs(&self, lookup: usize) -> bool {
        let is_output = |term: &Term| term.output_lookup() == Some(lookup);
        let mut is_measured = false;
        let conditions =
            self.when.iter().chain(self.measures.iter().filter_map(|measure| measure.when.as_ref()));
        conditions.for_each(|condition| condition.each_term(&mut |term| is_measured |= is_output(term)));
        let is_key = |destination: &RollupDestination| {
            let expiry = destination.expires.iter().map(|expiry| &expiry.of);
            let mut needed =
                destination.key_terms().chain(expiry).filter(|term| !destination.optional.contains(term));
            needed.any(is_output)
        };
        is_measured
            || self.measures.iter().flat_map(|measure| measure.kind.terms()).any(is_output)
            || self.into.iter().any(is_key)
    }

    /// The values of rollup keys that may be absent, each once.
    fn optional_names(&self, notation: &ModelNotation<'_>) -> Vec<String> {
        let mut names = Vec::new();
        for term in self.into.iter().flat_map(|destination| &destination.optional) {
            let name = notation.term(term);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Calls `visit` with every term that is read as a time, and how.
    pub(super) fn each_time(&self, visit: &mut impl FnMut(&Term, TimeReading)) {
        let mut visit_formatted = |term: &Term, format: ValueFormat| {
            if let Some(format) = format.time() {
                visit(term, format.reading);
            }
        };
        for destination in &self.into {
            let templates = [&destination.partition, &destination.sort].into_iter();
            templates
                .flat_map(BoundTemplate::values)
                .for_each(|(term, format)| visit_formatted(term, format));
        }
        for (term, format) in self.measures.iter().filter_map(|measure| measure.kind.ordered()) {
            visit_formatted(term, format);
        }
        for expiry in self.into.iter().filter_map(|destination| destination.expires.as_ref()) {
            visit(&expiry.of, expiry.reading);
        }
    }

    /// The aggregate in words.
    #[must_use]
    pub fn describe(&self, model: &Model) -> AggregateDescription {
        let notation = ModelNotation::of(model, self.of, &self.lookups);
        let into = self.into.iter().filter_map(|destination| {
            let rollup = model.rollups.get(destination.rollup)?;
            let [partition, sort] =
                [&destination.partition, &destination.sort].map(|key| notation.template(key));
            Some((&rollup.name, format!("{partition} / {sort}")))
        });
        AggregateDescription {
            of: model.entity_name(self.of),
            for_each: self.for_each.as_ref().map(|elements| elements.describe(&notation)),
            when: self.when.as_ref().map(|when| notation.condition(when)),
            on_misfit: self.on_misfit,
            optional: self.optional_names(&notation),
            into: into.collect(),
            measures: self
                .measures
                .iter()
                .map(|measure| (&measure.name, measure.describe(&notation)))
                .collect(),
            bins: self
                .measures
                .iter()
                .filter_map(|measure| Some((&measure.name, measure.percentile_bins()?.describe())))
                .collect(),
        }
    }
}

/// An aggregate in words.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AggregateDescription {
    /// The entity whose items are counted.
    pub of: String,
    /// The elements that are counted, if not the items themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub for_each: Option<String>,
    /// The condition for an item to be counted.
    pub when: Option<String>,
    /// The treatment of items that do not fit.
    #[serde(skip_serializing_if = "OnMisfit::is_default")]
    pub on_misfit: OnMisfit,
    /// The values of rollup keys without which an item does not count in the rollup.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub optional: Vec<String>,
    /// By rollup: its key, with this entity's values.
    pub into: NamedList<String>,
    /// The measures that are counted.
    pub measures: NamedList<MeasureDescription>,
    /// By measure: the bins of percentiles.
    #[serde(skip_serializing_if = "NamedList::is_empty")]
    pub bins: NamedList<Vec<PercentileBinDescription>>,
}

impl AggregateDescription {
    /// Every measure of every rollup: rollup and measure.
    pub fn counts(&self) -> impl Iterator<Item = (&String, &String)> {
        self.into.names().flat_map(|rollup| self.measures.names().map(move |measure| (rollup, measure)))
    }

    /// Whether one of its measures is an extreme.
    #[must_use]
    pub fn has_extremes(&self) -> bool {
        self.measures.values().any(|measure| measure.function.is_extreme())
    }
}

/// The keys of an aggregate.
pub(super) const KEYS: [&str; 11] = [
    "name",
    "of",
    "lookup",
    "for_each",
    "at_most",
    "when",
    "into",
    "bind",
    "optional",
    "on_misfit",
    "measures",
];

/// Compiles an aggregate.
pub(super) fn compile(compiler: &mut ModelCompiler<'_, '_>, settings: &SettingsTable<'_>) -> Option<()> {
    let SettingsTable { owner, at, .. } = settings;
    let problems = &mut *compiler.problems;
    let name = settings.required_text("name", problems);
    let of = settings.required_text("of", problems);
    let into = settings.required_texts("into", problems);
    let measures = settings.require("measures", problems);
    if settings.is_empty_list("into") {
        problems.report(ProblemCode::EmptySetting, *at, format!("{owner}: `into` is empty; name a rollup"));
        problems.mark_incomplete();
    }
    if measures.and_then(|value| value.get_ref().as_table()).is_some_and(|table| table.is_empty()) {
        let message = format!("{owner}: `measures` is empty; declare what to count");
        problems.report(ProblemCode::EmptySetting, *at, message);
    }
    let measures = measures.and_then(|value| reader::table(&settings.called("measures"), value, problems));
    let lookups = settings.texts("lookup", problems);
    let on_misfit = read_named(settings, "on_misfit", problems).unwrap_or_default();
    let optional = settings.texts("optional", problems);
    let (elements, at_most) = (settings.pairs("for_each", problems), written_at_most(settings, problems));
    let bindings = BindingSettings::read(settings, problems);
    if let Some(name) = name {
        check_names(compiler, name, &into);
    }
    let entity = of.and_then(|of| compiler.entity_named(owner, of));
    let rollups: Vec<(usize, usize)> =
        into.iter().filter_map(|name| Some((compiler.rollup_named(owner, *name)?, name.at))).collect();
    check_bindings(compiler, owner, &bindings, &rollups);
    let mut context = compiler.context(owner, entity);
    let uses = context.lookups(&lookups);
    let for_each = context.for_each(&elements, at_most);
    let when = context.pattern(owner, settings.get("when"));
    let mut destinations: Vec<RollupDestination> =
        rollups.iter().map(|(rollup, at)| context.destination(*rollup, *at, &bindings)).collect();
    context.make_optional(&optional, &mut destinations);
    let mut compiled = Vec::new();
    for (name, value) in measures.map(entries).unwrap_or_default() {
        match measure_settings::compile(&mut context, name, value) {
            Some(measure) => compiled.push(measure),
            None => context.compiler.problems.mark_incomplete(),
        }
    }
    let (name, _) = (name?, of?);
    register_measures(compiler, owner, &compiled, &rollups);
    let index = compiler.model.aggregates.len();
    if let Some(entity) = entity.and_then(|entity| compiler.model.entities.get_mut(entity)) {
        entity.aggregates.push(index);
    }
    let aggregate = Aggregate {
        name: Arc::from(name.value),
        of: entity.unwrap_or(0),
        when,
        lookups: uses,
        for_each,
        on_misfit,
        into: destinations,
        bindings: bindings.bindings(),
        measures: compiled.into_iter().filter_map(|measure| measure.measure).collect(),
    };
    let mut used = BTreeSet::new();
    aggregate.each_term(&mut |term| used.extend(term.output_lookup()));
    compiler.check_outputs(owner, &lookups, &used);
    compiler.places.aggregates.push(name.at);
    compiler.model.aggregates.push(aggregate);
    Some(())
}

/// The aggregate's name and the rollups that it names are used once.
fn check_names(compiler: &mut ModelCompiler<'_, '_>, name: Located<&str>, into: &[Located<&str>]) {
    compiler.check_name("aggregate", name);
    let known = compiler.model.aggregates.iter().position(|known| *known.name == *name.value);
    if let Some(first) = known.and_then(|known| compiler.places.aggregates.get(known)).copied() {
        let message = format!("aggregate `{}`: another aggregate has this name; choose another", name.value);
        compiler.report(ProblemCode::DuplicateName, name.at, message).related(first, "first used here");
    }
    for (position, rollup) in into.iter().enumerate() {
        if let Some(first) = into.iter().take(position).find(|other| other.value == rollup.value) {
            let message =
                format!("aggregate `{}`: rollup `{}` is named twice; name it once", name.value, rollup.value);
            compiler
                .report(ProblemCode::DuplicateName, rollup.at, message)
                .related(first.at, "first named here");
        }
    }
}

/// Every binding is of a variable of the rollups' keys, in its format.
fn check_bindings(
    compiler: &mut ModelCompiler<'_, '_>,
    owner: &str,
    bindings: &BindingSettings<'_>,
    rollups: &[(usize, usize)],
) {
    let known = rollups.iter().filter_map(|(rollup, _)| compiler.model.rollups.get(*rollup));
    // The variables of a key that could not be read are not known.
    if known.clone().any(|rollup| rollup.partition.pieces.is_empty() || rollup.sort.pieces.is_empty()) {
        return;
    }
    let variables: Vec<Arc<str>> = known.flat_map(|rollup| rollup.variables.iter().cloned()).collect();
    if !rollups.is_empty() {
        let keys = if rollups.len() == 1 { "the key of its rollup" } else { "the keys of its rollups" };
        bindings.check_variables(compiler, owner, (keys, &variables));
        bindings.check_formats(compiler, owner, &variables);
    }
}

impl EntityContext<'_, '_, '_> {
    /// Notes the values that may be absent with the rollups whose keys need them.
    fn make_optional(&mut self, names: &[Located<&str>], destinations: &mut [RollupDestination]) {
        let owner = format!("{}: `optional`", self.owner);
        for (place, name) in names.iter().enumerate() {
            if names.iter().take(place).any(|known| known.value == name.value) {
                let message = format!("{owner}: `{}` is listed twice; remove one", name.value);
                self.report(ProblemCode::DuplicateName, name.at, message);
                continue;
            }
            let Some(resolved) = self.resolve(&owner, *name) else { continue };
            let mut is_used = false;
            for destination in &mut *destinations {
                if destination.key_terms().any(|term| *term == resolved.term) {
                    is_used = true;
                    destination.optional.push(resolved.term.clone());
                }
            }
            if !is_used {
                let message = format!(
                    "{owner}: no key of the aggregate's rollups has `{}`; name a value of a key, or remove it",
                    name.value
                );
                self.report(ProblemCode::UnusedOptional, name.at, message);
            }
        }
    }

    /// A rollup whose key's variables are bound to this entity's values.
    fn destination(&mut self, rollup: usize, at: usize, bindings: &BindingSettings<'_>) -> RollupDestination {
        let Some(compiled) = self.compiler.model.rollups.get(rollup) else {
            let (partition, sort) = (BoundTemplate::default(), BoundTemplate::default());
            return RollupDestination { rollup, partition, sort, expires: None, optional: Vec::new() };
        };
        let (partition, sort) = (compiled.partition.clone(), compiled.sort.clone());
        let (variables, lifetime) = (compiled.variables.clone(), compiled.lifetime);
        let owner = format!("{}: rollup `{}`", self.owner, compiled.name);
        self.rollup = self.compiler.places.rollups.get(rollup).copied();
        let names: Vec<Located<Arc<str>>> =
            variables.iter().map(|variable| bindings.formatted_source(variable, at)).collect();
        let [partition, sort] = [&partition, &sort].map(|template| self.bind(&owner, template, &names));
        self.rollup = None;
        let expires = lifetime.and_then(|lifetime| {
            let Located { value: variable, at: named_at } = names.get(lifetime.variable)?;
            let owner = format!("{owner}: `expires`");
            let resolved = self.resolve(&owner, Located { value: &**variable, at: *named_at })?;
            if !resolved.value_type.is_ordered() {
                let described = resolved.value_type.described();
                let message =
                    format!("{owner}: `{variable}` is {described}, not a time; name text or a number");
                let at = self.compiler.places.lifetimes.get(rollup).copied().unwrap_or(at);
                self.report(ProblemCode::UnfitMeasureValue, at, message);
            }
            let ResolvedName { term: of, reading, format, .. } = resolved;
            Some(RollupExpiry { of, reading, format, after: lifetime.after })
        });
        RollupDestination { rollup, partition, sort, expires, optional: Vec::new() }
    }
}
