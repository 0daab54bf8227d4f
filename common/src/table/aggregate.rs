//! Aggregates, which count an entity's items into rollups: `[[aggregates]]`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::binding::{BindingSettings, KeyBinding};
use super::load::compiler::{EntityContext, ModelCompiler, RollupMeasure};
use super::load::problem::ProblemCode;
use super::load::reader::{self, Located, SettingsTable, entries};
use super::load::scope::ResolvedName;
use super::load::suggestion::suggestion;
use super::measure::{self, CompiledMeasure, Measure, MeasureDescription};
use super::named_list::NamedList;
use super::rollup::AverageMeasure;
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
        for destination in &self.into {
            destination.partition.terms().chain(destination.sort.terms()).for_each(&mut *visit);
            destination.expires.iter().for_each(|expiry| visit(&expiry.of));
        }
        self.measures.iter().flat_map(|measure| measure.kind.terms()).for_each(visit);
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
            when: self.when.as_ref().map(|when| notation.condition(when)),
            into: into.collect(),
            measures: self
                .measures
                .iter()
                .map(|measure| (&measure.name, measure.describe(&notation)))
                .collect(),
        }
    }
}

/// An aggregate in words.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AggregateDescription {
    /// The entity whose items are counted.
    pub of: String,
    /// The condition for an item to be counted.
    pub when: Option<String>,
    /// By rollup: its key, with this entity's values.
    pub into: NamedList<String>,
    /// The measures that are counted.
    pub measures: NamedList<MeasureDescription>,
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
pub(super) const KEYS: [&str; 7] = ["name", "of", "lookup", "when", "into", "bind", "measures"];

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
    let when = context.pattern(owner, settings.get("when"));
    let destinations =
        rollups.iter().map(|(rollup, at)| context.destination(*rollup, *at, &bindings)).collect();
    let mut compiled = Vec::new();
    for (name, value) in measures.map(entries).unwrap_or_default() {
        match measure::compile(&mut context, name, value) {
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
    /// A rollup whose key's variables are bound to this entity's values.
    fn destination(&mut self, rollup: usize, at: usize, bindings: &BindingSettings<'_>) -> RollupDestination {
        let Some(compiled) = self.compiler.model.rollups.get(rollup) else {
            let (partition, sort) = (BoundTemplate::default(), BoundTemplate::default());
            return RollupDestination { rollup, partition, sort, expires: None };
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
        RollupDestination { rollup, partition, sort, expires }
    }
}

/// Registers the measures with the rollups of their aggregate.
fn register_measures(
    compiler: &mut ModelCompiler<'_, '_>,
    owner: &str,
    measures: &[CompiledMeasure<'_>],
    rollups: &[(usize, usize)],
) {
    let aggregate = compiler.model.aggregates.len();
    let averaged = measure::averaged(measures);
    for CompiledMeasure { name, function, attributes, parts, .. } in measures {
        let owner = format!("{owner}: measure `{}`", name.value);
        for part in parts.iter().flatten().filter(|part| !averaged.contains(&part.value)) {
            let nearest = suggestion(part.value, averaged.iter().copied());
            let message =
                format!("{owner}: `{}` is not a count or sum of this aggregate{nearest}", part.value);
            compiler.report(ProblemCode::UnfitAverage, part.at, message);
        }
        for (rollup, _) in rollups.iter().copied() {
            compiler.measures.extend(attributes.iter().map(|attribute| RollupMeasure {
                rollup,
                attribute: Arc::clone(attribute),
                aggregate,
                at: name.at,
            }));
            let Some(rollup) = compiler.model.rollups.get_mut(rollup) else { continue };
            if function.is_extreme() {
                rollup.extremes.push(Arc::from(name.value));
            }
            rollup.averages.extend(parts.map(|[sum, count]| AverageMeasure {
                name: Arc::from(name.value),
                sum: Arc::from(sum.value),
                count: Arc::from(count.value),
            }));
            if !function.is_additive() && rollup.shards > 1 {
                let message = format!(
                    "{owner}: rollup `{}` is sharded, and a sharded rollup has no `max`, `min` or `avg`; count them into a rollup of their own",
                    rollup.name
                );
                compiler.findings.report(ProblemCode::ShardedMeasure, name.at, message);
            }
        }
    }
}
