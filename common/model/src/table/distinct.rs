//! Distinct counts: `{ distinct = "customer_id" }`.
//!
//! The measure is exact and retracts, because it is made of two counts:
//!
//! ```text
//! items ─▶ member rollup: how many items have this value     PK = <PK of the rollup>#DISTINCT#<measure>, SK = <SK>#<value>
//!          member items ─▶ the rollup: how many values there are
//! ```
//!
//! The member rollup is a source like any other: an item of it whose count is 0 counts as absent.

use std::sync::Arc;

use super::aggregate::{Aggregate, RollupDestination};
use super::binding::BindingSettings;
use super::computed::register_measures;
use super::load::compiler::{EntityContext, ModelCompiler};
use super::load::problem::ProblemCode;
use super::load::reader::Located;
use super::load::scope::position;
use super::measure::{CompiledMeasure, ComputedParts, MeasureFunction, MeasureKind};
use super::template::{known_name, split_format};
use super::value_type::ValueType;
use super::{OnMisfit, Rollup, Template, TemplatePiece, ValueFormat};

/// The measure of a member rollup.
const COUNT: &str = "count";
/// Words in the names of values that are often longer than a sort key can be.
const LONG_WORDS: [&str; 18] = [
    "agent",
    "body",
    "comment",
    "content",
    "description",
    "href",
    "html",
    "json",
    "link",
    "message",
    "payload",
    "prompt",
    "query",
    "referer",
    "referrer",
    "text",
    "uri",
    "url",
];

/// A distinct count of an aggregate, with its member rollups.
pub(super) struct DistinctMeasure<'d> {
    /// The measure's name.
    name: Located<&'d str>,
    /// The name whose values are counted.
    of: Located<&'d str>,
    /// How many items have a value.
    count: CompiledMeasure<'d>,
    /// For each rollup of the aggregate: the member rollup, and its key in the entity's scope.
    members: Vec<RollupDestination>,
}

/// Takes the distinct counts out of an aggregate's measures.
pub(super) fn taken_from<'d>(measures: &mut Vec<CompiledMeasure<'d>>) -> Vec<DistinctMeasure<'d>> {
    let (distinct, others): (Vec<_>, Vec<_>) =
        std::mem::take(measures).into_iter().partition(|one| one.function == MeasureFunction::Distinct);
    *measures = others;
    let distinct = distinct.into_iter().filter_map(|measure| {
        let ComputedParts::Distinct(of) = measure.parts else { return None };
        let when = measure.measure.and_then(|measure| measure.when);
        let name = Located { value: COUNT, at: measure.name.at };
        let count = CompiledMeasure::new(name, MeasureFunction::Count, Some(MeasureKind::Count), when);
        Some(DistinctMeasure { name: measure.name, of, count, members: Vec::new() })
    });
    distinct.collect()
}

impl EntityContext<'_, '_, '_> {
    /// Makes the member rollups of a distinct count, one for each rollup of its aggregate.
    pub(super) fn add_members(
        &mut self,
        distinct: &mut DistinctMeasure<'_>,
        into: &[RollupDestination],
        bindings: &BindingSettings<'_>,
    ) {
        let owner = format!("{}: measure `{}`", self.owner, distinct.name.value);
        // A name that means nothing is reported once, not for each rollup.
        let Some(value) = self.resolve(&owner, distinct.of) else { return };
        self.warn_of_long_members(&owner, distinct.of, value.value_type);
        for destination in into {
            let Some(rollup) = self.compiler.model.rollups.get(destination.rollup) else { continue };
            let Some(member) = member_of(rollup, distinct) else { continue };
            let index = self.compiler.model.rollups.len();
            self.compiler.places.rollups.push(distinct.name.at);
            self.compiler.places.lifetimes.push(distinct.name.at);
            self.compiler.model.rollups.push(member);
            let mut member = self.destination(index, distinct.name.at, bindings);
            // No member counts an item that lacks the value, or an item that the rollup leaves out.
            member.optional.clone_from(&destination.optional);
            member.optional.push(value.term.clone());
            distinct.members.push(member);
        }
    }
}

impl EntityContext<'_, '_, '_> {
    /// No model says how long a text can be, but a name can. The variables of an item's key are as short as keys are.
    fn warn_of_long_members(&mut self, owner: &str, of: Located<&str>, value_type: ValueType) {
        let name = known_name(of.value);
        let is_formatted = split_format(&name).is_ok_and(|(_, format)| !format.is_plain());
        let last = name.rsplit('.').next().unwrap_or_default().to_lowercase();
        let is_long = last.rsplit(['_', '-']).next().is_some_and(|word| LONG_WORDS.contains(&word));
        let may_be_text = match value_type {
            ValueType::Text | ValueType::Any | ValueType::Mixed(_) => true,
            ValueType::Number | ValueType::Bool | ValueType::Map | ValueType::Other(_) | ValueType::Ratio => {
                false
            }
        };
        if !may_be_text
            || is_formatted
            || !is_long
            || self.scope.variables.iter().any(|variable| **variable == *name)
        {
            return;
        }
        let message = format!(
            "{owner}: the value of `{name}` is the end of a sort key, which has at most 1,024 bytes; an item with a longer value is a misfit. Count a hash of it that the application writes, or set `on_misfit = \"skip\"`"
        );
        self.report(ProblemCode::LongMembers, of.at, message);
    }
}

/// The member rollup of a rollup; `None` if the rollup's key could not be read.
fn member_of(rollup: &Rollup, distinct: &DistinctMeasure<'_>) -> Option<Rollup> {
    if rollup.partition.pieces.is_empty() || rollup.sort.pieces.is_empty() {
        return None;
    }
    let name = known_name(distinct.of.value);
    let mut variables = rollup.variables.clone();
    let value = position(&variables, &name).unwrap_or_else(|| {
        variables.push(Arc::from(&*name));
        variables.len() - 1
    });
    let format = split_format(&name).map_or(ValueFormat::Plain, |(_, format)| format);
    let name = distinct.name.value;
    Some(Rollup {
        name: Arc::from(format!("{}.{name}", rollup.name)),
        partition: continued(&rollup.partition, &format!("#DISTINCT#{name}"), None),
        sort: continued(&rollup.sort, "#", Some(TemplatePiece::Variable(value, format))),
        variables,
        keys: rollup.keys,
        shards: 1,
        lifetime: rollup.lifetime,
        on_expiry: rollup.on_expiry,
        ..Rollup::default()
    })
}

/// A template that continues another one. Its last literal is continued, too: filters of the stream test the first literal, by which the
/// members differ from the items of the rollup.
fn continued(template: &Template, literal: &str, variable: Option<TemplatePiece>) -> Template {
    let mut continued = template.clone();
    let last = continued.pieces.pop_if(|piece| piece.literal().is_some());
    let last = last.as_ref().and_then(TemplatePiece::literal).unwrap_or_default();
    continued.pieces.push(TemplatePiece::Literal(Arc::from(format!("{last}{literal}"))));
    continued.pieces.extend(variable);
    continued
}

impl Rollup {
    /// Whether its items are the members of a distinct count. No declared rollup has a name like that of members.
    #[must_use]
    pub fn has_members(&self) -> bool {
        self.name.contains('.')
    }
}

impl ModelCompiler<'_, '_> {
    /// Adds the aggregates of a distinct count: of the items into the member rollups, and of the member items into the rollups. `of` is the
    /// aggregate that has the measure, without its measures and rollups; its other measures are in the model's aggregates from `first` on.
    pub(super) fn add_distinct(
        &mut self,
        owner: &str,
        distinct: DistinctMeasure<'_>,
        of: Aggregate,
        (first, rollups): (usize, &[(usize, usize)]),
    ) {
        let DistinctMeasure { name, count, members, .. } = distinct;
        let owner = format!("{owner}: measure `{}`", name.value);
        let aggregate_name = format!("{}.{}", of.name, name.value);
        let sources: Vec<usize> = members.iter().map(|member| member.rollup).collect();
        let places: Vec<(usize, usize)> = sources.iter().map(|member| (*member, name.at)).collect();
        let counts = [count];
        register_measures(self, &owner, &counts, &places);
        let measures = counts.into_iter().filter_map(|count| count.measure).collect();
        let name_of_members = Arc::from(&*aggregate_name);
        let continues = self.model.aggregates.len() > first;
        let counting = Aggregate { name: name_of_members, continues, into: members, measures, ..of };
        self.push_aggregate(counting, name.at);
        for (member, (rollup, _)) in sources.into_iter().zip(rollups) {
            let Some(entity) = self.rollup_entity(&owner, member, name.at) else { continue };
            let rollup_name = self.model.rollups.get(*rollup).map(|rollup| Arc::clone(&rollup.name));
            let into =
                self.context(&owner, Some(entity)).destination(*rollup, name.at, &BindingSettings::NONE);
            let values = CompiledMeasure::new(name, MeasureFunction::Count, Some(MeasureKind::Count), None);
            let values = [values];
            register_measures(self, &owner, &values, &[(*rollup, name.at)]);
            let aggregate = Aggregate {
                name: Arc::from(format!("{aggregate_name}.{}", rollup_name.unwrap_or_default())),
                of: entity,
                when: None,
                lookups: Vec::new(),
                for_each: None,
                on_misfit: OnMisfit::default(),
                continues: false,
                into: vec![into],
                bindings: Vec::new(),
                measures: values.into_iter().filter_map(|values| values.measure).collect(),
            };
            self.push_aggregate(aggregate, name.at);
        }
    }

    /// Adds an aggregate, which is declared at this place.
    pub(super) fn push_aggregate(&mut self, aggregate: Aggregate, at: usize) {
        let index = self.model.aggregates.len();
        if let Some(entity) = self.model.entities.get_mut(aggregate.of) {
            entity.aggregates.push(index);
        }
        self.places.aggregates.push(at);
        self.model.aggregates.push(aggregate);
    }
}
