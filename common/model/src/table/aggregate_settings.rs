//! How a model writes aggregates: `[[aggregates]]`.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::aggregate::{Aggregate, RollupDestination};
use super::binding::BindingSettings;
use super::computed::register_measures;
use super::for_each::written_at_most;
use super::load::compiler::{EntityContext, ModelCompiler};
use super::load::problem::ProblemCode;
use super::load::reader::{self, Located, RawValue, SettingsTable, entries};
use super::named::read_named;
use super::{distinct, measure_settings};

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
    let owner = &settings.owner;
    let problems = &mut *compiler.problems;
    let name = settings.required_text("name", problems);
    let of = settings.required_text("of", problems);
    let into = settings.required_texts("into", problems);
    let measures = settings.require("measures", problems);
    check_empty(compiler, settings, measures);
    let problems = &mut *compiler.problems;
    let measures = measures.and_then(|value| reader::table(&settings.called("measures"), value, problems));
    let lookups = settings.texts("lookup", problems);
    let on_misfit = read_named(settings, "on_misfit", problems).unwrap_or_default();
    let optional = settings.texts("optional", problems);
    let (elements, at_most) = (settings.pairs("for_each", problems), written_at_most(settings, problems));
    let bindings = BindingSettings::read(settings, problems);
    if let Some(name) = name {
        check_names(compiler, name, &into);
    }
    let entity = of.and_then(|of| compiler.source_named(owner, of));
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
    let mut distinct = distinct::taken_from(&mut compiled);
    distinct.iter_mut().for_each(|measure| context.add_members(measure, &destinations, &bindings));
    let (name, _) = (name?, of?);
    let aggregate = Aggregate {
        name: Arc::from(name.value),
        // An unknown source is reported; nothing is of it.
        of: entity.unwrap_or(usize::MAX),
        when,
        lookups: uses,
        for_each,
        on_misfit,
        continues: false,
        into: Vec::new(),
        bindings: bindings.bindings(),
        measures: Vec::new(),
    };
    let first = compiler.model.aggregates.len();
    // The aggregate itself is left out if all of its measures are distinct counts.
    if !compiled.is_empty() || distinct.is_empty() {
        register_measures(compiler, owner, &compiled, &rollups);
        let measures = compiled.into_iter().filter_map(|measure| measure.measure).collect();
        compiler.push_aggregate(Aggregate { into: destinations, measures, ..aggregate.clone() }, name.at);
    }
    for measure in distinct {
        compiler.add_distinct(owner, measure, aggregate.clone(), (first, &rollups));
    }
    check_outputs_from(compiler, owner, first, &lookups);
    Some(())
}

/// Reports the lookups of an aggregate that none of the aggregates from `first` on uses.
fn check_outputs_from(
    compiler: &mut ModelCompiler<'_, '_>,
    owner: &str,
    first: usize,
    lookups: &[Located<&str>],
) {
    let mut used = BTreeSet::new();
    for aggregate in compiler.model.aggregates.iter().skip(first) {
        aggregate.each_term(&mut |term| used.extend(term.output_lookup()));
    }
    compiler.check_outputs(owner, lookups, &used);
}

/// Reports an aggregate that counts into nothing, or counts nothing.
fn check_empty(
    compiler: &mut ModelCompiler<'_, '_>,
    settings: &SettingsTable<'_>,
    measures: Option<RawValue<'_>>,
) {
    let SettingsTable { owner, at, .. } = settings;
    let problems = &mut *compiler.problems;
    if settings.is_empty_list("into") {
        problems.report(ProblemCode::EmptySetting, *at, format!("{owner}: `into` is empty; name a rollup"));
        problems.mark_incomplete();
    }
    if measures.and_then(|value| value.get_ref().as_table()).is_some_and(|table| table.is_empty()) {
        let message = format!("{owner}: `measures` is empty; declare what to count");
        problems.report(ProblemCode::EmptySetting, *at, message);
    }
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
}
