//! Aggregates, which count an entity's items into rollups: `[[aggregates]]`.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::binding::{BindingSettings, KeyBinding};
use super::for_each::ForEach;
use super::load::compiler::EntityContext;
use super::load::problem::ProblemCode;
use super::load::reader::Located;
use super::load::scope::ResolvedName;
use super::measure::{Measure, MeasureDescription};
use super::named::named_values;
use super::named_list::NamedList;
use super::percentile::PercentileBinDescription;
use super::{BoundTemplate, LookupUse, Model, ModelNotation, Pattern, Term, TimeReading, ValueFormat};

/// Which measures an entity's items contribute to which rollups.
#[derive(Clone, Debug)]
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
    /// Whether it is a further part of the declared aggregate that the entity's aggregate before it is a part of: each distinct count is
    /// compiled to an aggregate of its own. An aggregate that skips an item in one part leaves the item out of all its parts.
    pub continues: bool,
    /// The rollups that are counted into.
    pub into: Vec<RollupDestination>,
    /// The variables of the rollups' keys that take the value of another name.
    pub bindings: Vec<KeyBinding>,
    /// The measures that are counted, in the order of the model file.
    pub measures: Vec<Measure>,
}

/// A rollup as an aggregate's items address it.
#[derive(Clone, Debug)]
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
    pub(super) fn key_terms(&self) -> impl Iterator<Item = &Term> {
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
#[derive(Clone, Debug)]
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
        self.measures.iter().for_each(|measure| measure.kind.each_term(visit));
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
        let measures = self.measures.iter();
        measures.for_each(|measure| measure.kind.each_term(&mut |term| is_measured |= is_output(term)));
        let is_key = |destination: &RollupDestination| {
            let expiry = destination.expires.iter().map(|expiry| &expiry.of);
            let mut needed =
                destination.key_terms().chain(expiry).filter(|term| !destination.optional.contains(term));
            needed.any(is_output)
        };
        is_measured || self.into.iter().any(is_key)
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
        let mut visit_formatted = |term: &Term, format: &ValueFormat| {
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
        for (term, format) in self.measures.iter().flat_map(|measure| measure.kind.ordered()) {
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

impl EntityContext<'_, '_, '_> {
    /// A rollup whose key's variables are bound to this entity's values.
    pub(super) fn destination(
        &mut self,
        rollup: usize,
        at: usize,
        bindings: &BindingSettings<'_>,
    ) -> RollupDestination {
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
        self.compiler.number_keys.extend(self.numbers.drain(..).map(|variable| (rollup, variable)));
        self.rollup = None;
        let expires = lifetime.and_then(|lifetime| {
            let Located { value: variable, at: named_at } = names.get(lifetime.variable)?;
            let declared_at = self.compiler.places.lifetimes.get(rollup).copied().unwrap_or(at);
            let variable = Located { value: &**variable, at: *named_at };
            self.expiry(&format!("{owner}: `expires`"), lifetime.after, (variable, declared_at))
        });
        RollupDestination { rollup, partition, sort, expires, optional: Vec::new() }
    }

    /// When the rollup expires, by the value that is bound to a variable of its key.
    fn expiry(
        &mut self,
        owner: &str,
        after: Duration,
        (variable, declared_at): (Located<&str>, usize),
    ) -> Option<RollupExpiry> {
        let resolved = self.resolve_bucket(owner, variable)?;
        if !resolved.value_type.is_ordered() {
            let (name, described) = (variable.value, resolved.value_type.described());
            let message = format!("{owner}: `{name}` is {described}, not a time; name text or a number");
            self.report(ProblemCode::UnfitMeasureValue, declared_at, message);
        }
        let ResolvedName { term: of, reading, format, .. } = resolved;
        Some(RollupExpiry { of, reading, format, after })
    }
}
