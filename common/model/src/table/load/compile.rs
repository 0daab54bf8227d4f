//! A model file's sections, compiled in order: each part refers only to parts of earlier sections.

use std::sync::Arc;

use toml::de::DeTable;

use super::compiler::ModelCompiler;
use super::problem::{ProblemCode, ProblemCollector};
use super::reader::{self, Located, RawValue, SettingsTable, entries, place};
use super::sections::{read_sections, wrong_form};
use super::{bucket_zones, check, equal_measures, warnings};
use crate::table::fingerprint::fingerprint;
use crate::table::named::read_named;
use crate::table::{
    Model, aggregate_settings, cache, dataset, entity, event, levels, lookup, mirror, rollup, saved_query,
    source_table,
};

/// Compiles a part of the model from its settings; `None` if it cannot be read.
type CompilePart = fn(&mut ModelCompiler<'_, '_>, &SettingsTable<'_>) -> Option<()>;

/// Compiles a model; `None` if it cannot be read. The result is a model only if no problem was reported.
pub(super) fn compile<'s>(
    root: &DeTable<'_>,
    source: &'s str,
    problems: &mut ProblemCollector<'s>,
) -> Option<Model> {
    let settings = read_sections(root, problems)?;
    let name = settings.required_text("name", problems).unwrap_or(Located { value: "", at: 0 });
    settings.require("generation", problems);
    let generation = settings.integer("generation", 1..=i64::MAX, problems);
    let model = Model {
        name: Arc::from(name.value),
        generation: generation.and_then(|generation| u64::try_from(generation).ok()).unwrap_or(1),
        archive: read_named(&settings, "archive", problems).unwrap_or_default(),
        rollup_keys: read_named(&settings, "rollup_keys", problems).unwrap_or_default(),
        ..Model::default()
    };
    let mut compiler = ModelCompiler::new(problems, source, model);
    compiler.check_name("model", name);
    let sections = SectionCompiler { settings: &settings, compiler: &mut compiler };
    sections.compile();
    check::check_model(&mut compiler);
    warnings::report_unused(&mut compiler);
    equal_measures::report_equal_measures(&mut compiler);
    bucket_zones::report_mixed_zones(&mut compiler);
    compiler.model.fingerprint = fingerprint(&compiler.model);
    let ModelCompiler { problems, findings, model, .. } = compiler;
    if problems.is_complete() {
        problems.absorb(findings);
        return Some(model);
    }
    None
}

/// Compiles the sections that hold parts. A part that cannot be read leaves the model incomplete: names that refer to it would
/// only add noise.
struct SectionCompiler<'p, 'c, 's, 'd> {
    settings: &'p SettingsTable<'d>,
    compiler: &'p mut ModelCompiler<'c, 's>,
}

impl<'d> SectionCompiler<'_, '_, '_, 'd> {
    fn compile(mut self) {
        self.named("tables", "table", &source_table::KEYS, source_table::compile);
        let tables = self.settings.get("tables").map(|tables| tables.get_ref().as_table());
        if tables.is_none_or(|tables| tables.is_some_and(DeTable::is_empty)) {
            let message =
                "model: no source table; declare one: `[tables.<name>]` with `key = [\"PK\", \"SK\"]`";
            self.compiler.problems.report(ProblemCode::MissingKey, 0, message);
            self.compiler.problems.mark_incomplete();
        }
        self.named("entities", "entity", &entity::KEYS, entity::compile);
        self.named("lookups", "lookup", &lookup::KEYS, lookup::compile);
        self.named("rollups", "rollup", &rollup::KEYS, rollup::compile);
        self.note_hidden_rollups();
        self.aggregates();
        self.listed("mirrors", ("mirror onto", "onto"), &mirror::KEYS, mirror::compile);
        self.listed("caches", ("cache of", "of"), &cache::KEYS, cache::compile);
        self.listed("events", ("event", "name"), &event::KEYS, event::compile);
        levels::add_sources_of_datasets(self.compiler, self.settings.get("datasets"));
        // Datasets read attributes that no other part reads; a function that makes no rows need not decode them.
        let interner = self.compiler.model.attributes.clone();
        self.named("datasets", "dataset", &dataset::KEYS, dataset::compile);
        let model = &mut self.compiler.model;
        let row_attributes = std::mem::replace(&mut model.attributes, interner);
        let decisive = entity::decisive_attributes(model);
        if !decisive.is_empty() {
            model.attributes =
                std::mem::take(&mut model.attributes).with_eager_fields(decisive.iter().copied());
        }
        let eager = dataset::attributes_of_partitions(model).chain(decisive);
        model.row_attributes = row_attributes.with_eager_fields(eager);
        self.named("queries", "query", &saved_query::KEYS, saved_query::compile);
    }

    /// Notes the entities whose name a rollup has, too.
    fn note_hidden_rollups(&mut self) {
        let ModelCompiler { model, scopes, .. } = &mut *self.compiler;
        for scope in scopes {
            if model.rollups.iter().any(|rollup| rollup.name == scope.name) {
                Arc::make_mut(scope).hides_rollup = true;
            }
        }
    }

    /// Compiles `[[aggregates]]`: aggregates of lower levels first.
    fn aggregates(&mut self) {
        let Some(value) = self.settings.get("aggregates") else { return };
        let Some(parts) = value.get_ref().as_array() else { return self.report_form("aggregates", value) };
        for value in levels::in_levels(self.compiler, parts.iter()) {
            self.listed_part(
                "aggregates",
                ("aggregate", "name"),
                value,
                &aggregate_settings::KEYS,
                aggregate_settings::compile,
            );
        }
    }

    /// Compiles `[<section>.<name>]` for every name.
    fn named(&mut self, section: &str, kind: &str, keys: &[&str], compile: CompilePart) {
        let Some(value) = self.settings.get(section) else { return };
        let Some(parts) = value.get_ref().as_table() else { return self.report_form(section, value) };
        for (name, value) in entries(parts) {
            let called = format!("`{section}.{}`", name.value);
            let owner = format!("{kind} `{}`", name.value);
            self.part((&called, &owner, name), value, keys, compile);
        }
    }

    /// Compiles the entries of `[[<section>]]`. Errors call each by the name in one of its settings.
    fn listed(&mut self, section: &str, (kind, key): (&str, &str), keys: &[&str], compile: CompilePart) {
        let Some(value) = self.settings.get(section) else { return };
        let Some(parts) = value.get_ref().as_array() else { return self.report_form(section, value) };
        for value in parts.iter() {
            self.listed_part(section, (kind, key), value, keys, compile);
        }
    }

    fn listed_part(
        &mut self,
        section: &str,
        (kind, key): (&str, &str),
        value: RawValue<'d>,
        keys: &[&str],
        compile: CompilePart,
    ) {
        let name = value.get_ref().get(key).and_then(|name| name.get_ref().as_str());
        let unnamed = || kind.split(' ').next().unwrap_or_default().to_owned();
        let owner = name.map_or_else(unnamed, |name| format!("{kind} `{name}`"));
        let place = Located { value: "", at: place(value) };
        self.part((&format!("an entry of `{section}`"), &owner, place), value, keys, compile);
    }

    fn part(
        &mut self,
        (called, owner, name): (&str, &str, Located<&'d str>),
        value: RawValue<'d>,
        keys: &[&str],
        compile: CompilePart,
    ) {
        let problems = &mut *self.compiler.problems;
        let table = reader::table(called, value, problems);
        let settings =
            table.map(|table| SettingsTable::new(owner.to_owned(), name.at, table, keys, problems));
        let settings = settings.map(|settings| settings.of_part(name.value));
        if settings.and_then(|settings| compile(self.compiler, &settings)).is_none() {
            self.compiler.problems.mark_incomplete();
        }
    }

    /// Reports a section that is written in the form of another kind of section. A misspelt one was reported with its form.
    fn report_form(&mut self, section: &str, value: RawValue<'_>) {
        if !self.settings.is_misspelt(section) {
            self.compiler.problems.report(ProblemCode::WrongType, place(value), wrong_form(section));
        }
        self.compiler.problems.mark_incomplete();
    }
}
