//! Mirrors: which rollup an item shows, and which items show a rollup.

use std::sync::Arc;

use super::document::MirrorSettings;
use super::problem::suggestion;
use super::reader::Located;
use super::resolve::{MirroredPath, ModelCompiler, position};
use super::scope::attribute_path;
use crate::effect::Path;
use crate::table::template::split_format;
use crate::table::{BoundPiece, LookupUse, Mirror, MirroredAttribute, Rollup, Term, ValueFormat};

/// Compiles a mirror.
pub(super) fn mirror(compiler: &mut ModelCompiler<'_, '_, '_>, settings: &MirrorSettings<'_>) {
    let owner = format!("mirror onto `{}`", settings.onto.value);
    let onto = compiler.entity_named(&owner, settings.onto);
    let from = compiler.rollup_named(&owner, settings.from);
    let (Some(onto), Some(from)) = (onto, from) else { return };
    refuse_unfit_rollup(compiler, &owner, from, settings);
    let attributes: Vec<MirroredAttribute> = settings
        .attributes
        .iter()
        .filter_map(|(path, measure)| attribute(compiler, &owner, (onto, from), *path, *measure))
        .collect();
    if settings.attributes.is_empty() {
        compiler.report(
            settings.at,
            format!("{owner}: `attributes` names nothing to show; name an attribute and a measure"),
        );
    }
    let (lookup, rollup_variables) = rollup_variables(compiler, &owner, onto, from, settings);
    let item_variables = item_variables(compiler, &owner, onto, from, settings);
    let index = compiler.model.mirrors.len();
    if let Some(entity) = compiler.model.entities.get_mut(onto) {
        entity.mirrors.push(index);
    }
    if let Some(rollup) = compiler.model.rollups.get_mut(from) {
        note_shown(rollup, index, &attributes);
    }
    compiler.model.mirrors.push(Mirror { onto, from, attributes, item_variables, rollup_variables, lookup });
}

/// Notes what a mirror shows of its rollup.
fn note_shown(rollup: &mut Rollup, mirror: usize, attributes: &[MirroredAttribute]) {
    rollup.mirrors.push(mirror);
    for MirroredAttribute { measure, .. } in attributes {
        rollup.shown.push(Arc::clone(measure));
        let parts = rollup.averages.iter().filter(|average| average.name == *measure);
        let parts = parts.flat_map(|average| [Arc::clone(&average.sum), Arc::clone(&average.count)]);
        rollup.shown.extend(parts);
    }
}

fn refuse_unfit_rollup(
    compiler: &mut ModelCompiler<'_, '_, '_>,
    owner: &str,
    from: usize,
    settings: &MirrorSettings<'_>,
) {
    let Some(rollup) = compiler.document.rollups.get(from) else { return };
    if rollup.shards > 1 {
        let message = format!(
            "{owner}: rollup `{}` is sharded, so no one item holds what is to be shown; count it into a rollup of its own",
            rollup.name.value
        );
        compiler.report(settings.from.at, message);
    }
    if rollup.expires.is_some() {
        let message = format!(
            "{owner}: rollup `{}` expires, and what is shown of it would stay; count it into a rollup that does not",
            rollup.name.value
        );
        compiler.report(settings.from.at, message);
    }
}

fn attribute(
    compiler: &mut ModelCompiler<'_, '_, '_>,
    owner: &str,
    (onto, from): (usize, usize),
    path: Located<&str>,
    measure: Located<&str>,
) -> Option<MirroredAttribute> {
    let held: Vec<Arc<str>> = compiler
        .held
        .iter()
        .filter(|held| held.rollup == from)
        .map(|held| Arc::clone(&held.attribute))
        .collect();
    if position(&held, measure.value).is_none() {
        let nearest = suggestion(measure.value, held.iter().map(|name| &**name));
        compiler
            .report(measure.at, format!("{owner}: its rollup has no measure `{}`{nearest}", measure.value));
    }
    if path.value.split('.').any(str::is_empty) {
        compiler.report(
            path.at,
            format!(
                "{owner}: `{}` is no path of an attribute; write names with single dots between them",
                path.value
            ),
        );
        return None;
    }
    let mirrored = MirroredPath { onto, path: path.value.split('.').map(Arc::from).collect(), at: path.at };
    let (shown, revision) = (path_of(&mirrored.path)?, path_of(&mirrored.revision())?);
    compiler.mirrored.push(mirrored);
    Some(MirroredAttribute {
        path: shown,
        revision_path: revision,
        image: attribute_path(path.value, &mut compiler.model.attributes),
        measure: Arc::from(measure.value),
    })
}

fn path_of(names: &[Arc<str>]) -> Option<Path> {
    names.split_first().map(|(root, within)| Path { root: Arc::clone(root), within: within.to_vec() })
}

/// From the rollup to the item: every variable of the item's key is one of the rollup's.
fn item_variables(
    compiler: &mut ModelCompiler<'_, '_, '_>,
    owner: &str,
    onto: usize,
    from: usize,
    settings: &MirrorSettings<'_>,
) -> Vec<usize> {
    let (Some(entity), Some(rollup)) = (compiler.model.entities.get(onto), compiler.model.rollups.get(from))
    else {
        return Vec::new();
    };
    let missing = entity.variables.iter().find(|variable| position(&rollup.variables, variable).is_none());
    if let Some(missing) = missing
        && can_be_judged(compiler, onto, rollup)
    {
        let message = format!(
            "{owner}: the item cannot be found from rollup `{}`: its key lacks `{{{missing}}}`, which the item's key needs; add it to the rollup's key",
            rollup.name
        );
        compiler.problems.report(settings.from.at, message);
        return Vec::new();
    }
    entity.variables.iter().filter_map(|variable| position(&rollup.variables, variable)).collect()
}

/// From the item to the rollup: every variable of the rollup's key is one of the item's, or is given by the one lookup of such
/// items that the aggregates use.
fn rollup_variables(
    compiler: &mut ModelCompiler<'_, '_, '_>,
    owner: &str,
    onto: usize,
    from: usize,
    settings: &MirrorSettings<'_>,
) -> (Option<LookupUse>, Vec<(Term, ValueFormat)>) {
    let given = given_by_lookups(compiler, onto, from, settings);
    let lookup = given.first().map(|(lookup, _, _)| *lookup);
    if given.iter().any(|(other, _, _)| Some(*other) != lookup) {
        let message = format!(
            "{owner}: its rollup's key comes from several lookups of `{}`; use one",
            settings.onto.value
        );
        compiler.report(settings.from.at, message);
    }
    let (Some(entity), Some(rollup)) = (compiler.model.entities.get(onto), compiler.model.rollups.get(from))
    else {
        return (None, Vec::new());
    };
    let mut terms = Vec::new();
    let mut problems = Vec::new();
    for (index, variable) in rollup.variables.iter().enumerate() {
        if let Some((_, output, _)) = given.iter().find(|(_, _, bound)| *bound == index) {
            let format = split_format(variable).map_or(ValueFormat::Plain, |(_, format)| format);
            terms.push((Term::LookupOutput { lookup: 0, output: *output }, format));
        } else if let Some(key) = position(&entity.variables, variable) {
            terms.push((Term::Key(key), ValueFormat::Plain));
        } else {
            problems.push(format!(
                "{owner}: rollup `{}` cannot be found from the item: `{{{variable}}}` is no variable of the item's key, and no lookup of `{}` gives it; take it out of the rollup's key, or bind it there",
                rollup.name, settings.onto.value
            ));
        }
    }
    let mut key = None;
    if let Some(lookup) = lookup
        && !compiler.broken_lookups.contains(&lookup)
        && let Some(found) = compiler.model.lookups.get(lookup)
    {
        let missing = found.inputs.iter().find(|input| position(&rollup.variables, input).is_none());
        if let Some(missing) = missing
            && problems.is_empty()
        {
            problems.push(format!(
                "{owner}: lookup `{}` cannot be asked from rollup `{}`: its key lacks `{{{missing}}}`; add it to the rollup's key",
                found.name, rollup.name
            ));
        }
        let answer = entity.answers.iter().find(|answer| answer.lookup == lookup);
        key = answer.map(|answer| LookupUse {
            lookup,
            inputs: answer.inputs.clone(),
            outputs: answer.outputs.clone(),
        });
    }
    if can_be_judged(compiler, onto, rollup) {
        for problem in problems {
            compiler.problems.report(settings.from.at, problem);
        }
    }
    (key, terms)
}

/// Whether both keys are known; otherwise enough was said of them before.
fn can_be_judged(compiler: &ModelCompiler<'_, '_, '_>, onto: usize, rollup: &Rollup) -> bool {
    !rollup.partition.pieces.is_empty()
        && !rollup.sort.pieces.is_empty()
        && !compiler.scopes.get(onto).is_some_and(|scope| scope.is_incomplete)
}

/// Which lookups of `onto` give which of the rollup's variables to the aggregates whose measures are shown: lookup, output,
/// variable.
fn given_by_lookups(
    compiler: &ModelCompiler<'_, '_, '_>,
    onto: usize,
    from: usize,
    settings: &MirrorSettings<'_>,
) -> Vec<(usize, usize, usize)> {
    let model = &compiler.model;
    let shown: Vec<&str> = settings.attributes.iter().map(|(_, measure)| measure.value).collect();
    let mut given = Vec::new();
    for held in compiler.held.iter().filter(|held| held.rollup == from && shown.contains(&&*held.attribute)) {
        let (Some(aggregate), Some(rollup)) = (model.aggregates.get(held.aggregate), model.rollups.get(from))
        else {
            continue;
        };
        for destination in aggregate.into.iter().filter(|destination| destination.rollup == from) {
            let pieces = [(&rollup.partition, &destination.partition), (&rollup.sort, &destination.sort)];
            for (piece, bound) in
                pieces.iter().flat_map(|(template, bound)| template.pieces.iter().zip(&bound.pieces))
            {
                let crate::table::TemplatePiece::Variable(variable, _) = piece else { continue };
                let BoundPiece::Value(Term::LookupOutput { lookup, output }, _) = bound else { continue };
                let Some(lookup) = aggregate.lookups.get(*lookup).map(|key| key.lookup) else { continue };
                let is_of_onto = model.lookups.get(lookup).is_some_and(|lookup| lookup.of == onto);
                if is_of_onto && !given.contains(&(lookup, *output, *variable)) {
                    given.push((lookup, *output, *variable));
                }
            }
        }
    }
    given
}
