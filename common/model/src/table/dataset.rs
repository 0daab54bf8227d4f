//! Datasets, the rows that analysts query, one for each change of an item: `[datasets.<name>]`.

use std::sync::Arc;

use serde::Serialize;

use super::column_type::{ColumnType, is_column_name};
use super::load::compiler::{EntityContext, ModelCompiler};
use super::load::problem::{ProblemCode, ProblemCollector};
use super::load::reader::{Located, RawValue, SettingsTable, entries, place, table};
use super::load::scope::{ResolvedName, base_name, position};
use super::load::suggestion::{did_you_mean, suggestion};
use super::named::{named_values, read_named};
use super::named_list::NamedList;
use super::template::known_name;
use super::value_type::ValueType;
use super::{Entity, InternedPath, LookupUse, Model, ModelNotation, Pattern, Term, TimeReading, ValueFormat};
use crate::record::AttributeId;

/// The partition of a row whose item has no day.
pub const NO_DAY: &str = "0001-01-01";

/// The beginning of the names of the columns that identify items. A model's own columns begin with a letter.
pub const KEY_COLUMN: &str = "_key_";

/// The name of the partition column in SQL.
const PARTITION: &str = "dt";

/// The rows of one entity's changes, and the table that analysts know them as.
#[derive(Debug)]
pub struct Dataset {
    /// Its name: lower case, the table's name in SQL.
    pub name: Arc<str>,
    /// The entity: an index into [`Model::entities`].
    pub of: usize,
    /// The condition on the items that have rows. An item that stops meeting it leaves the dataset.
    pub when: Option<Pattern>,
    /// Where the day of a row's partition comes from.
    pub partition: (Term, ValueFormat),
    /// The same, as the model file has it.
    pub partition_source: Arc<str>,
    /// Lookups whose outputs are columns. Only remembered outputs are read. [`Term::LookupOutput`] indexes them.
    pub lookups: Vec<LookupUse>,
    /// The columns next to `_position`, `_operation`, `_changed_at`, `_rescued` and `_generation`, in the order of the model file.
    pub columns: Vec<Column>,
    /// Which columns are the item's key: indexes into [`Dataset::columns`], aligned with [`super::Entity::variables`].
    pub key: Vec<usize>,
    /// By which columns a compacted file is sorted, before the key: indexes into [`Dataset::columns`].
    pub sort: Vec<usize>,
    /// Which rows of an item compaction keeps.
    pub history: RowHistory,
}

impl Dataset {
    /// Whether it has the rows of an entity.
    pub(crate) fn is_of(&self, entity: &Entity, model: &Model) -> bool {
        model.entities.get(self.of).is_some_and(|of| std::ptr::eq(of, entity))
    }

    /// Every term that its rows are made from.
    pub(super) fn terms(&self) -> impl Iterator<Item = &Term> {
        let columns = self.columns.iter().map(|column| &column.from);
        columns.chain(self.partition_terms()).chain(self.lookups.iter().flat_map(LookupUse::terms))
    }

    /// The terms that the day of a row's partition is made from.
    pub fn partition_terms(&self) -> impl Iterator<Item = &Term> {
        let (from, format) = &self.partition;
        std::iter::once(from).chain(format.zone_term())
    }

    /// Calls `visit` with every attribute that its values are read or derived from; `entity` has the rows.
    pub(super) fn each_attribute(&self, entity: &Entity, visit: &mut impl FnMut(&InternedPath)) {
        self.terms().flat_map(|term| entity.attributes_of(term)).for_each(&mut *visit);
        entity.attributes_in(self.when.as_ref()).iter().for_each(visit);
    }

    /// The dataset in words.
    #[must_use]
    pub fn describe(&self, model: &Model) -> DatasetDescription {
        let columns = &self.columns;
        let name = |index: &usize| columns.get(*index).map(|column| column.name.to_string());
        let renamed = columns.iter().filter(|column| column.source != column.name);
        DatasetDescription {
            of: model.entity_name(self.of),
            when: self.when.as_ref().map(|when| ModelNotation::of(model, self.of, &[]).condition(when)),
            partition: self.partition_source.to_string(),
            sort: self.sort.iter().filter_map(name).collect(),
            history: self.history,
            columns: columns.iter().map(|column| (&column.name, column.column_type.to_string())).collect(),
            required: columns
                .iter()
                .filter(|column| column.required)
                .map(|column| column.name.to_string())
                .collect(),
            sources: renamed.map(|column| (&column.name, column.source.to_string())).collect(),
        }
    }
}

/// A dataset in words.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DatasetDescription {
    /// The entity.
    pub of: String,
    /// The condition on the items that have rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Where the day of a row's partition comes from.
    pub partition: String,
    /// The columns that compacted files are sorted by.
    pub sort: Vec<String>,
    /// Which rows compaction keeps.
    pub history: RowHistory,
    /// Types by column.
    pub columns: NamedList<String>,
    /// Where the values of columns come from that are not named like their attribute.
    pub sources: NamedList<String>,
    /// The columns without which a row is recorded in `_rescued`.
    #[serde(skip)]
    pub required: Vec<String>,
}

named_values! {
    /// Which rows of an item compaction keeps.
    #[derive(Default)]
    pub enum RowHistory {
        /// Every row.
        #[default]
        All = "all",
        /// The newest row of each item, and older rows that cost less to keep than to find.
        Newest = "newest",
    }
}

/// A column of a dataset.
#[derive(Debug)]
pub struct Column {
    /// Its name: lower case.
    pub name: Arc<str>,
    /// The type of its values.
    pub column_type: ColumnType,
    /// Where its values come from.
    pub from: Term,
    /// How its values are read as times, if the column has times.
    pub reading: TimeReading,
    /// Where they come from, as the model file has it.
    pub source: Arc<str>,
    /// If the attribute is absent, the column is recorded in `_rescued`, as one whose value does not fit.
    pub required: bool,
}

/// The attributes that partitions of all datasets come from, and the attributes that conditions of datasets read.
pub(super) fn attributes_of_partitions(model: &Model) -> impl Iterator<Item = AttributeId> {
    model.datasets.iter().flat_map(|dataset| {
        let entity = model.entities.get(dataset.of);
        let days = entity
            .into_iter()
            .flat_map(move |entity| dataset.partition_terms().flat_map(|term| entity.attributes_of(term)));
        let conditions = entity.into_iter().flat_map(|entity| entity.attributes_in(dataset.when.as_ref()));
        conditions.map(|path| path.root).chain(days.map(|path| path.root))
    })
}

/// The keys of a dataset.
pub(super) const KEYS: [&str; 8] =
    ["of", "when", "partition", "days", "lookup", "columns", "sort", "history"];

/// The keys of a column that is written as a table.
pub(super) const COLUMN_KEYS: [&str; 3] = ["type", "from", "required"];

/// Compiles a dataset.
pub(super) fn compile(compiler: &mut ModelCompiler<'_, '_>, settings: &SettingsTable<'_>) -> Option<()> {
    let SettingsTable { owner, at, .. } = settings;
    let problems = &mut *compiler.problems;
    let of = settings.required_text("of", problems);
    let partition = settings.required_text("partition", problems);
    let history = read_named(settings, "history", problems).unwrap_or_default();
    let (lookups, sort) = (settings.texts("lookup", problems), settings.texts("sort", problems));
    let columns = settings.require("columns", problems);
    let columns = columns.and_then(|value| table(&settings.called("columns"), value, problems));
    report_days(settings, problems);
    check_dataset_name(compiler, owner, settings.located_name());
    let entity = of.and_then(|of| compiler.source_named(owner, of));
    let mut context = compiler.context(owner, entity);
    // Before lookups: their outputs must not decide which items have rows.
    let when = context.pattern(owner, settings.get("when"));
    let uses = context.lookups(&lookups);
    let from = partition.and_then(|partition| context.partition(partition));
    let columns = columns.map(entries).unwrap_or_default().into_iter();
    let mut columns: Vec<Column> = columns.filter_map(|(name, value)| context.column(name, value)).collect();
    if let (Some(name), Some((term, _))) = (partition, &from) {
        context.check_partition(name, term, &columns);
    }
    let sort = context.sort(&sort, &columns);
    let key = key_columns(&context.scope.variables, &mut columns);
    let (_, partition) = (of?, partition?);
    let Some(of) = entity else { return Some(()) };
    let index = compiler.model.datasets.len();
    if let Some(entity) = compiler.model.entities.get_mut(of) {
        entity.datasets.push(index);
    }
    compiler.places.datasets.push(*at);
    let dataset = Dataset {
        name: Arc::from(settings.name),
        of,
        when,
        partition: from.unwrap_or((Term::Key(0), ValueFormat::Plain)),
        partition_source: Arc::from(known_name(partition.value)),
        lookups: uses,
        columns,
        key,
        sort,
        history,
    };
    let used = dataset.terms().filter_map(Term::output_lookup).collect();
    compiler.check_outputs(owner, &lookups, &used);
    compiler.model.datasets.push(dataset);
    Some(())
}

/// `days` was the range of days that had partitions. Tables name their files now, so every day has one.
fn report_days(settings: &SettingsTable<'_>, problems: &mut ProblemCollector<'_>) {
    if let Some(value) = settings.get("days") {
        let message = format!(
            "{}: `days` has no meaning any more: every day has its own partition; delete the line",
            settings.owner
        );
        problems.report(ProblemCode::RetiredSetting, place(value), message);
    }
}

fn check_dataset_name(compiler: &mut ModelCompiler<'_, '_>, owner: &str, name: Located<&str>) {
    if !is_column_name(name.value) {
        let message = format!(
            "{owner}: the name is a table's in SQL; it is made of lower-case letters, digits and `_`, a letter first"
        );
        compiler.report(ProblemCode::InvalidName, name.at, message);
    }
}

impl EntityContext<'_, '_, '_> {
    /// If the attribute's name is misspelt, every row is in the partition without a day. Nothing but another use or a
    /// declaration shows that it is not.
    fn check_partition(&mut self, name: Located<&str>, term: &Term, columns: &[Column]) {
        let (scope, vocabulary) = self.names();
        let is_known = term.attribute().is_none() || scope.resolve(name.value, vocabulary).is_ok();
        if is_known || columns.iter().any(|column| column.from == *term) {
            return;
        }
        let base = base_name(name.value);
        let attributes = self.scope.attributes.iter().map(|(name, _)| name);
        let known = attributes.chain(columns.iter().map(|column| &column.source)).map(|name| &**name);
        let message = format!(
            "{}: `partition`: `{base}` is neither declared nor a column; declare it if it is right{}",
            self.owner,
            did_you_mean(base, known)
        );
        self.report(ProblemCode::UndeclaredPartition, name.at, message);
    }

    /// A column; `None` if it cannot be read.
    fn column(&mut self, name: Located<&str>, value: RawValue<'_>) -> Option<Column> {
        let owner = format!("{}: column `{}`", self.owner, name.value);
        let problems = &mut *self.compiler.problems;
        let (written, source, required) = match value.get_ref().as_str() {
            Some(text) => (Located { value: text, at: place(value) }, None, false),
            None => {
                let settings = table(&owner, value, problems)?;
                let settings = SettingsTable::new(owner.clone(), name.at, settings, &COLUMN_KEYS, problems);
                let required = settings.boolean("required", problems).unwrap_or(false);
                (settings.required_text("type", problems)?, settings.text("from", problems), required)
            }
        };
        let column_type = ColumnType::parse(written.value);
        if column_type.is_none() {
            let (forms, meant) = (ColumnType::forms(), ColumnType::meant(written.value));
            let message =
                format!("{owner}: unknown type `{}`; known types are {forms}{meant}", written.value);
            problems.report(ProblemCode::UnknownWord, written.at, message);
        }
        let (column_type, source) = (column_type?, source.unwrap_or(name));
        self.check_column_name(&owner, name);
        let resolved = self.resolve_or_attribute(&owner, source);
        if let Some(ResolvedName { format, value_type, .. }) = &resolved {
            if !format.is_plain() {
                let message =
                    format!("{owner}: `{}` takes no format; a `date` column holds the day", source.value);
                self.report(ProblemCode::UnusableFormat, source.at, message);
            }
            if *value_type == ValueType::Ratio && column_type != ColumnType::Double {
                let message = format!("{owner}: a percentage is a `double`");
                self.report(ProblemCode::InvalidDataset, source.at, message);
            }
        }
        let reading = resolved.as_ref().map(|resolved| resolved.reading_in(&self.scope));
        Some(Column {
            name: Arc::from(name.value),
            column_type,
            from: resolved.map_or(Term::Key(0), |resolved| resolved.term),
            reading: reading.unwrap_or_default(),
            source: Arc::from(known_name(source.value)),
            required,
        })
    }

    fn check_column_name(&mut self, owner: &str, name: Located<&str>) {
        if !is_column_name(name.value) {
            let lower = name.value.to_ascii_lowercase();
            let message = format!(
                "{owner}: Athena takes lower-case names of letters, digits and `_`, a letter first; write `{lower} = {{ type = \"…\", from = \"{}\" }}`",
                name.value
            );
            self.report(ProblemCode::InvalidName, name.at, message);
        } else if name.value == PARTITION {
            let message = format!("{owner}: the partition has this name; choose another");
            self.report(ProblemCode::ReservedName, name.at, message);
        }
    }

    fn sort(&mut self, names: &[Located<&str>], columns: &[Column]) -> Vec<usize> {
        let owner = format!("{}: `sort`", self.owner);
        let mut sort = Vec::new();
        let known: Vec<Arc<str>> = columns.iter().map(|column| Arc::clone(&column.name)).collect();
        for name in names {
            let index = position(&known, name.value);
            let Some((index, column)) = index.and_then(|index| Some((index, columns.get(index)?))) else {
                let nearest = suggestion(name.value, known.iter().map(|name| &**name));
                let message = format!("{owner}: unknown column `{}`{nearest}", name.value);
                self.report(ProblemCode::UndeclaredPart, name.at, message);
                continue;
            };
            if sort.contains(&index) || !column.column_type.is_sortable() {
                let message = format!(
                    "{owner}: `{}` is nested or named twice; name columns of single values, each once",
                    name.value
                );
                self.report(ProblemCode::InvalidDataset, name.at, message);
                continue;
            }
            sort.push(index);
        }
        sort
    }
}

/// The columns that identify the item: `_key_<variable>` for every variable of its key, also if another column shows the variable. So the
/// identity of rows does not depend on which columns a model has.
fn key_columns(variables: &[Arc<str>], columns: &mut Vec<Column>) -> Vec<usize> {
    let mut key = Vec::new();
    for (index, variable) in variables.iter().enumerate() {
        let plain = |character: char| match character.to_ascii_lowercase() {
            letter @ ('a'..='z' | '0'..='9') => letter,
            _ => '_',
        };
        let mut name = format!("{KEY_COLUMN}{}", variable.chars().map(plain).collect::<String>());
        while columns.iter().any(|column| *column.name == *name) {
            name.push('_');
        }
        key.push(columns.len());
        columns.push(Column {
            name: Arc::from(name),
            column_type: ColumnType::String,
            from: Term::Key(index),
            reading: TimeReading::Detected,
            source: Arc::clone(variable),
            required: false,
        });
    }
    key
}
