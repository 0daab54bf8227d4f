//! A model file's sections, compiled in order: each part refers only to parts of earlier sections.

use std::sync::Arc;

use toml::de::DeTable;

use super::compiler::ModelCompiler;
use super::problem::{ProblemCode, ProblemCollector};
use super::reader::{self, Located, RawValue, SettingsTable, entries, place};
use super::{check, warnings};
use crate::table::fingerprint::fingerprint;
use crate::table::named::read_named;
use crate::table::{Model, aggregate, cache, dataset, entity, lookup, mirror, rollup, source_table};

/// The sections of a model file, in the order in which they are documented, and how each is written.
const SECTIONS: [(&str, &str); 12] = [
    ("name", "name"),
    ("generation", "generation"),
    ("tables", "[tables.<name>]"),
    ("entities", "[entities.<name>]"),
    ("lookups", "[lookups.<name>]"),
    ("rollups", "[rollups.<name>]"),
    ("aggregates", "[[aggregates]]"),
    ("mirrors", "[[mirrors]]"),
    ("caches", "[[caches]]"),
    ("datasets", "[datasets.<name>]"),
    ("queries", "[queries.<name>]"),
    ("archive", "archive"),
];

/// Compiles a model; `None` if it cannot be read. The result is a model only if no problem was reported.
pub(super) fn compile<'s>(
    root: &DeTable<'_>,
    source: &'s str,
    problems: &mut ProblemCollector<'s>,
) -> Option<Model> {
    let known: Vec<&str> = SECTIONS.iter().map(|(name, _)| *name).collect();
    let form = |name: &str| SECTIONS.iter().find(|(known, _)| *known == name).map_or("", |(_, form)| *form);
    let settings = SettingsTable::with_forms("model".to_owned(), 0, root, &known, form, problems);
    let name = settings.required_text("name", problems).unwrap_or(Located { value: "", at: 0 });
    settings.require("generation", problems);
    let generation = settings.integer("generation", 1..=i64::MAX, problems);
    let model = Model {
        name: Arc::from(name.value),
        generation: generation.and_then(|generation| u64::try_from(generation).ok()).unwrap_or(1),
        archive: read_named(&settings, "archive", problems).unwrap_or_default(),
        ..Model::default()
    };
    let mut compiler = ModelCompiler::new(problems, source, model);
    compiler.check_name("model", name);
    each_named(&mut compiler, &settings, "tables", source_table::compile);
    if settings.get("tables").is_none_or(|tables| tables.get_ref().as_table().is_some_and(DeTable::is_empty))
    {
        let message = "model: no source table; declare one: `[tables.<name>]` with `key = [\"PK\", \"SK\"]`";
        compiler.problems.report(ProblemCode::MissingKey, 0, message);
        compiler.problems.mark_incomplete();
    }
    each_named(&mut compiler, &settings, "entities", entity::compile);
    each_named(&mut compiler, &settings, "lookups", lookup::compile);
    each_named(&mut compiler, &settings, "rollups", rollup::compile);
    each_listed(&mut compiler, &settings, "aggregates", aggregate::compile);
    each_listed(&mut compiler, &settings, "mirrors", mirror::compile);
    each_listed(&mut compiler, &settings, "caches", cache::compile);
    // Datasets read attributes that nothing else does; a function that makes no rows need not decode them.
    let interner = compiler.model.attributes.clone();
    each_named(&mut compiler, &settings, "datasets", dataset::compile);
    let row_attributes = std::mem::replace(&mut compiler.model.attributes, interner);
    compiler.model.row_attributes =
        row_attributes.with_eager_fields(dataset::attributes_of_days(&compiler.model));
    each_named(&mut compiler, &settings, "queries", dataset::compile_query);
    check::check_model(&mut compiler);
    warnings::report_unused(&mut compiler);
    compiler.model.fingerprint = fingerprint(&compiler.model);
    let ModelCompiler { problems, findings, model, .. } = compiler;
    if problems.is_complete() {
        problems.absorb(findings);
        return Some(model);
    }
    None
}

/// Compiles `[<section>.<name>]` for every name. One that cannot be read leaves the model incomplete: names that refer to it
/// would only add noise.
fn each_named(
    compiler: &mut ModelCompiler<'_, '_>,
    model: &SettingsTable<'_>,
    section: &str,
    compile: impl Fn(&mut ModelCompiler<'_, '_>, Located<&str>, &DeTable<'_>) -> Option<()>,
) {
    let Some(value) = model.get(section) else { return };
    let Some(parts) = value.get_ref().as_table() else {
        report_form(compiler, model, section, value, &format!("tables with names: `[{section}.<name>]`"));
        return;
    };
    for (name, value) in entries(parts) {
        let called = format!("`{section}.{}`", name.value);
        let part = reader::table(&called, value, compiler.problems);
        if part.and_then(|part| compile(compiler, name, part)).is_none() {
            compiler.problems.mark_incomplete();
        }
    }
}

/// Reports a section that is written in the form of another kind of section. A misspelt one was reported with its form.
fn report_form(
    compiler: &mut ModelCompiler<'_, '_>,
    model: &SettingsTable<'_>,
    section: &str,
    value: RawValue<'_>,
    form: &str,
) {
    if !model.is_misspelt(section) {
        let message = format!("`{section}` must be {form}");
        compiler.problems.report(ProblemCode::WrongType, place(value), message);
    }
    compiler.problems.mark_incomplete();
}

/// The same of `[[<section>]]`, each with its place.
fn each_listed(
    compiler: &mut ModelCompiler<'_, '_>,
    model: &SettingsTable<'_>,
    section: &str,
    compile: impl Fn(&mut ModelCompiler<'_, '_>, usize, &DeTable<'_>) -> Option<()>,
) {
    let Some(value) = model.get(section) else { return };
    let Some(parts) = value.get_ref().as_array() else {
        report_form(compiler, model, section, value, &format!("a list of tables: `[[{section}]]`"));
        return;
    };
    for value in parts.iter() {
        let called = format!("an entry of `{section}`");
        let part = reader::table(&called, value, compiler.problems);
        if part.and_then(|part| compile(compiler, place(value), part)).is_none() {
            compiler.problems.mark_incomplete();
        }
    }
}
