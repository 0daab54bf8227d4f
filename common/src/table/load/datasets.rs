//! Datasets: where the columns of an entity's rows come from.

use std::sync::Arc;

use super::document::{ColumnSettings, DatasetSettings, QuerySettings, ValueType};
use super::part::EntityContext;
use super::problem::{listed, suggestion};
use super::resolve::ModelCompiler;
use super::scope::{EntityScope, NameScope, attribute_path};
use crate::record::AttributeId;
use crate::table::dataset::is_column_name;
use crate::table::{Column, ColumnType, Dataset, Model, SavedQuery, Term, ValueFormat};

/// What SQL calls the day of a row's partition.
const PARTITION: &str = "dt";

/// Compiles a dataset.
pub(super) fn dataset(compiler: &mut ModelCompiler<'_, '_, '_>, settings: &DatasetSettings<'_>) {
    let owner = format!("dataset `{}`", settings.name.value);
    refuse_unfit_name(compiler, &owner, settings.name);
    let of = compiler.entity_named(&owner, settings.of);
    let lookups: Vec<usize> =
        settings.lookups.iter().filter_map(|name| compiler.lookup_named(&owner, *name)).collect();
    let Some(of) = of else { return };
    let entity = std::mem::take(compiler.scopes.get_mut(of).unwrap_or(&mut EntityScope::default()));
    let mut part = EntityContext {
        compiler,
        owner,
        entity_name: settings.of.value,
        entity: &entity,
        outputs: Vec::new(),
    };
    let keys = part.lookups(&settings.lookups, settings.name.at, &lookups);
    let partition = part.partition(settings);
    let mut columns: Vec<Column> = settings.columns.iter().map(|column| part.column(column)).collect();
    let sort = part.sort(settings, &columns);
    let key = key_columns(&entity.variables, &mut columns);
    if let Some(scope) = compiler.scopes.get_mut(of) {
        *scope = entity;
    }
    let index = compiler.model.datasets.len();
    if let Some(entity) = compiler.model.entities.get_mut(of) {
        entity.datasets.push(index);
    }
    compiler.model.datasets.push(Dataset {
        name: Arc::from(settings.name.value),
        of,
        partition: partition.unwrap_or((Term::Key(0), ValueFormat::Day)),
        partition_source: Arc::from(settings.partition.value),
        days: (Arc::from(settings.days.0), Arc::from(settings.days.1)),
        lookups: keys,
        columns,
        key,
        sort,
        history: settings.history,
    });
}

/// The attributes that tell the days of all rows.
pub(super) fn attributes_of_days(model: &Model) -> impl Iterator<Item = AttributeId> {
    model.datasets.iter().flat_map(|dataset| {
        let entity = model.entities.get(dataset.of).into_iter();
        entity.flat_map(|entity| entity.attributes_of(&dataset.partition.0)).map(|path| path.root)
    })
}

fn refuse_unfit_name(
    compiler: &mut ModelCompiler<'_, '_, '_>,
    owner: &str,
    name: super::reader::Located<&str>,
) {
    if !is_column_name(name.value) {
        let message = format!(
            "{owner}: SQL knows it by this name, so it is made of lower-case letters, digits and `_`, a letter first"
        );
        compiler.report(name.at, message);
    }
    let taken = name
        .value
        .strip_suffix("_log")
        .filter(|view| compiler.document.datasets.iter().any(|other| other.name.value == *view));
    if let Some(view) = taken {
        let message =
            format!("{owner}: dataset `{view}` has its rows in a table of this name; choose another");
        compiler.report(name.at, message);
    }
}

impl EntityContext<'_, '_, '_, '_> {
    fn partition(&mut self, settings: &DatasetSettings<'_>) -> Option<(Term, ValueFormat)> {
        let written = settings.partition;
        let owner = format!("{}: `partition`", self.owner);
        let resolved = self.resolve_or_attribute(written.value);
        let (term, format, value_type) = match resolved {
            Ok(resolved) => resolved,
            Err(problem) => {
                self.compiler.report(written.at, format!("{owner}: {problem}"));
                return None;
            }
        };
        let is_day_of_key = matches!(term, Term::Key(_)) && written.value.ends_with(":day");
        if format != ValueFormat::Day && !is_day_of_key {
            let message = format!(
                "{owner}: rows are kept by day; write `{}:day`, of an attribute that never changes",
                written.value
            );
            self.compiler.report(written.at, message);
        } else if !value_type.fits_key(ValueFormat::Day) {
            let message = format!("{owner}: `{}` is {}, not a time", written.value, value_type.described());
            self.compiler.report(written.at, message);
        }
        Some((term, format))
    }

    fn column(&mut self, settings: &ColumnSettings<'_>) -> Column {
        let owner = format!("{}: column `{}`", self.owner, settings.name.value);
        if !is_column_name(settings.name.value) {
            let lower: String = settings.name.value.to_ascii_lowercase();
            let message = format!(
                "{owner}: Athena knows lower-case names of letters, digits and `_`, a letter first; write `{lower} = {{ type = \"…\", from = \"{}\" }}`",
                settings.name.value
            );
            self.compiler.report(settings.name.at, message);
        } else if settings.name.value == PARTITION {
            let message = format!("{owner}: the partition is called so; choose another name");
            self.compiler.report(settings.name.at, message);
        }
        let from = match self.resolve_or_attribute(settings.from.value) {
            Ok((from, format, value_type)) => {
                if format != ValueFormat::Plain {
                    let message = format!(
                        "{owner}: `{}` takes no format; a `date` column holds the day",
                        settings.from.value
                    );
                    self.compiler.report(settings.from.at, message);
                }
                if value_type == ValueType::Ratio && settings.column_type != ColumnType::Double {
                    let message = format!("{owner}: a percentage is a `double`");
                    self.compiler.report(settings.from.at, message);
                }
                from
            }
            Err(problem) => {
                self.compiler.report(settings.from.at, format!("{owner}: {problem}"));
                Term::Key(0)
            }
        };
        Column {
            name: Arc::from(settings.name.value),
            column_type: settings.column_type.clone(),
            from,
            source: Arc::from(settings.from.value),
            required: settings.required,
        }
    }

    /// What a name means; one that means nothing else is an attribute, which a dataset need not declare: its column says what
    /// it holds.
    fn resolve_or_attribute(&mut self, name: &str) -> Result<(Term, ValueFormat, ValueType), String> {
        let scope = NameScope { entity: self.entity, entity_name: self.entity_name, outputs: &self.outputs };
        let vocabulary = &mut self.compiler.model.attributes;
        if let Ok(resolved) = scope.resolve(name, vocabulary) {
            return Ok((resolved.term, resolved.format, resolved.value_type));
        }
        let (base, format) =
            crate::table::template::split_format(name).map_err(|problem| problem.to_string())?;
        if base.split('.').any(str::is_empty) {
            return Err(format!("`{name}` is no path of an attribute; write it like `stats.seen`"));
        }
        Ok((Term::Attribute(attribute_path(base, vocabulary)), format, ValueType::Any))
    }

    fn sort(&mut self, settings: &DatasetSettings<'_>, columns: &[Column]) -> Vec<usize> {
        let mut sort = Vec::new();
        for name in &settings.sort {
            let owner = format!("{}: `sort`", self.owner);
            let found = columns.iter().position(|column| *column.name == *name.value);
            let Some(index) = found else {
                let nearest = suggestion(name.value, columns.iter().map(|column| &*column.name));
                self.compiler.report(name.at, format!("{owner}: unknown column `{}`{nearest}", name.value));
                continue;
            };
            let is_nested = columns.get(index).is_some_and(|column| {
                matches!(column.column_type, ColumnType::List(_) | ColumnType::Map(_) | ColumnType::Struct(_))
            });
            if is_nested || sort.contains(&index) {
                let sortable: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
                let message = format!(
                    "{owner}: `{}` is nested or named twice; name each of {} at most once",
                    name.value,
                    listed(&sortable)
                );
                self.compiler.report(name.at, message);
                continue;
            }
            sort.push(index);
        }
        sort
    }
}

/// The columns that make the key; variables that have none get one, `_key_<variable>`.
fn key_columns(variables: &[Arc<str>], columns: &mut Vec<Column>) -> Vec<usize> {
    let mut key = Vec::new();
    for (index, variable) in variables.iter().enumerate() {
        let held = columns
            .iter()
            .position(|column| column.from == Term::Key(index) && column.column_type == ColumnType::String);
        key.push(held.unwrap_or(columns.len()));
        if held.is_none() {
            let plain = |character: char| match character.to_ascii_lowercase() {
                letter @ ('a'..='z' | '0'..='9') => letter,
                _ => '_',
            };
            let mut name = format!("_key_{}", variable.chars().map(plain).collect::<String>());
            while columns.iter().any(|column| *column.name == *name) {
                name.push('_');
            }
            columns.push(Column {
                name: Arc::from(name),
                column_type: ColumnType::String,
                from: Term::Key(index),
                source: Arc::clone(variable),
                required: false,
            });
        }
    }
    key
}

/// Compiles a saved query.
pub(super) fn query(compiler: &mut ModelCompiler<'_, '_, '_>, settings: &QuerySettings<'_>) {
    let owner = format!("query `{}`", settings.name.value);
    let (name, sql) = (settings.name.value, settings.sql.value.trim());
    if !is_column_name(name) {
        let message =
            format!("{owner}: a name is made of lower-case letters, digits and `_`, a letter first");
        compiler.report(settings.name.at, message);
    }
    let begins_as_question = ["select", "with"]
        .iter()
        .any(|word| sql.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word)));
    if !begins_as_question || sql.contains(';') {
        let message = format!("{owner}: `sql` must be one SELECT (or WITH … SELECT), without a `;`");
        compiler.report(settings.sql.at, message);
    }
    compiler.model.queries.push(SavedQuery {
        name: Arc::from(name),
        about: Arc::from(settings.about),
        sql: Arc::from(sql),
    });
}
