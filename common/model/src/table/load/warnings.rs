//! Warnings that need the whole model: parts that nothing uses, and parts that no item meets.

use super::compiler::{ModelCompiler, PartPlaces};
use super::problem::{ProblemCode, ProblemCollector};
use crate::table::pattern::contradiction;
use crate::table::{LookupUse, Model, ModelNotation, Pattern, Term};

/// Reports parts that are declared and not used.
pub(super) fn report_unused(compiler: &mut ModelCompiler<'_, '_>) {
    let ModelCompiler { model, findings, places, .. } = compiler;
    report_unused_separators(model, &places.separators, findings);
    report_unused_rollups(model, &places.rollups, findings);
    report_unused_lookups(model, &places.lookups, findings);
    report_unused_derivations(model, &places.derivations, findings);
    report_contradictions(model, places, findings);
}

/// Reports parts whose conditions no item meets.
fn report_contradictions(model: &Model, places: &PartPlaces, findings: &mut ProblemCollector<'_>) {
    let of_entity = |of: usize| model.entities.get(of).and_then(|entity| entity.when.as_ref());
    let mut check = |conditions: &[Option<&Pattern>],
                     part: String,
                     notation: ModelNotation<'_>,
                     at: usize| {
        let conditions: Vec<&Pattern> = conditions.iter().copied().flatten().collect();
        let Some(term) = contradiction(&conditions) else { return false };
        let message = format!(
            "{part}: no item meets all of its conditions: those on `{}` exclude each other; a missing attribute meets only `{{ exists = false }}`",
            notation.term(term)
        );
        findings.report(ProblemCode::ContradictoryConditions, at, message);
        true
    };
    for (aggregate, at) in model.aggregates.iter().zip(&places.aggregates) {
        let notation = ModelNotation::of(model, aggregate.of, &aggregate.lookups);
        let (entity, when) = (of_entity(aggregate.of), aggregate.when.as_ref());
        let part = format!("aggregate `{}`", aggregate.name);
        if check(&[entity, when], part.clone(), notation, *at) {
            continue;
        }
        for measure in aggregate.measures.iter().filter(|measure| measure.when.is_some()) {
            let part = format!("{part}: measure `{}`", measure.name);
            check(&[entity, when, measure.when.as_ref()], part, notation, *at);
        }
    }
    for (of, when, part, at) in conditions_of_readers(model, places) {
        check(&[of_entity(of), when], part, ModelNotation::of(model, of, &[]), at);
    }
}

/// The parts that contribute nothing: the entity, the condition, the name and the place of each. No output of a lookup is in these conditions.
fn conditions_of_readers<'m>(
    model: &'m Model,
    places: &PartPlaces,
) -> Vec<(usize, Option<&'m Pattern>, String, usize)> {
    let datasets =
        model.datasets.iter().zip(&places.datasets).map(|(dataset, at)| {
            (dataset.of, dataset.when.as_ref(), format!("dataset `{}`", dataset.name), *at)
        });
    let caches = model.caches.iter().zip(&places.caches).map(|(rule, at)| {
        (rule.of, rule.when.as_ref(), format!("cache of `{}`", model.entity_name(rule.of)), *at)
    });
    let events = model.events.iter().zip(&places.events).filter_map(|(rule, at)| {
        let items = rule.items()?;
        Some((items.of, items.when.as_ref(), format!("event `{}`", rule.name), *at))
    });
    datasets.chain(caches).chain(events).collect()
}

fn report_unused_separators(model: &Model, places: &[usize], findings: &mut ProblemCollector<'_>) {
    for (index, (table, at)) in model.tables.iter().zip(places).enumerate() {
        let Some(separator) = table.separator else { continue };
        let entities = model.entities.iter().filter(|entity| entity.table == index);
        let mut templates = entities.flat_map(|entity| entity.key.templates());
        if !templates.any(|template| template.has_literal(separator)) {
            let message = format!(
                "table `{}`: no key template of its entities contains the separator `{separator}`, so it tells no keys apart; correct it, or remove it",
                table.name
            );
            findings.report(ProblemCode::UnusedSeparator, *at, message);
        }
    }
}

fn report_unused_rollups(model: &Model, places: &[usize], findings: &mut ProblemCollector<'_>) {
    for (index, (rollup, at)) in model.rollups.iter().zip(places).enumerate() {
        let mut destinations = model.aggregates.iter().flat_map(|aggregate| &aggregate.into);
        if !destinations.any(|destination| destination.rollup == index) {
            let message = format!(
                "rollup `{}`: no aggregate counts into it; name it in `into`, or remove it",
                rollup.name
            );
            findings.report(ProblemCode::UnusedRollup, *at, message);
        }
    }
}

fn report_unused_lookups(model: &Model, places: &[usize], findings: &mut ProblemCollector<'_>) {
    for (index, (lookup, at)) in model.lookups.iter().zip(places).enumerate() {
        let of_aggregates = model.aggregates.iter().flat_map(|aggregate| &aggregate.lookups);
        let mut uses = of_aggregates.chain(model.datasets.iter().flat_map(|dataset| &dataset.lookups));
        if !uses.any(|used| used.lookup == index) {
            let message = format!(
                "lookup `{}`: no aggregate or dataset uses it; name it in `lookup`, or remove it",
                lookup.name
            );
            findings.report(ProblemCode::UnusedLookup, *at, message);
        }
    }
}

fn report_unused_derivations(model: &Model, places: &[Vec<usize>], findings: &mut ProblemCollector<'_>) {
    for (entity, places) in model.entities.iter().zip(places) {
        let mut is_used = vec![false; entity.derivations.len()];
        let mut note = |term: &Term| {
            if let Some(index) = term.derivation() {
                is_used.get_mut(index).into_iter().for_each(|used| *used = true);
            }
        };
        entity.when.iter().for_each(|when| when.each_term(&mut note));
        entity.offers.iter().flat_map(LookupUse::terms).for_each(&mut note);
        let aggregates = entity.aggregates.iter().filter_map(|index| model.aggregates.get(*index));
        aggregates.for_each(|aggregate| aggregate.each_term(&mut note));
        let caches = entity.caches.iter().filter_map(|index| model.caches.get(*index));
        caches.for_each(|rule| rule.each_term(&mut note));
        let events = entity.events.iter().filter_map(|index| model.events.get(*index)?.items());
        events.for_each(|items| items.each_term(&mut note));
        model.datasets_of(entity).for_each(|(_, dataset)| {
            dataset.terms().for_each(&mut note);
            dataset.when.iter().for_each(|when| when.each_term(&mut note));
        });
        let all = entity.derivations.iter().zip(places).zip(is_used);
        for ((derivation, at), _) in all.filter(|(_, is_used)| !is_used) {
            let message = format!(
                "entity `{}`: derived value `{}`: nothing uses it; use it, or remove it",
                entity.name, derivation.name
            );
            findings.report(ProblemCode::UnusedDerivation, *at, message);
        }
    }
}
