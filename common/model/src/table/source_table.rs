//! Source tables and their key attributes: `[tables.<name>]`.

use std::sync::Arc;

use super::key_schema::{KeySchema, KeyType, check_deployed_name, typed_schemas};
use super::load::compiler::ModelCompiler;
use super::load::problem::{ProblemCode, ProblemCollector};
use super::load::reader::{Located, SettingsTable, place};
use super::secondary_index::{self, SecondaryIndex};
use super::state_key::{RESERVED_PREFIXES, STATE_KEY};

/// The name of the state table among a model's tables. No declared table has it, because names of tables in DynamoDB have no `@`.
pub const STATE_TABLE: &str = "@state";

/// A source table.
#[derive(Debug)]
pub struct Table {
    /// Its name in the model; `AFTERWRITE_TABLES` may map it to another.
    pub name: Arc<str>,
    /// Other names under which it was deployed: change records of these tables are its records. `AFTERWRITE_TABLES` has them, not the
    /// model's file.
    pub former_names: Vec<Arc<str>>,
    /// Its partition key.
    pub partition_key: KeySchema,
    /// Its sort key, if it has one.
    pub sort_key: Option<KeySchema>,
    /// The character that no variable of a key template of this table contains, if it declares one.
    pub separator: Option<char>,
    /// The global secondary indexes that the application needs.
    pub indexes: Vec<SecondaryIndex>,
}

impl Table {
    /// Its key attributes, the partition key first.
    pub fn key(&self) -> impl Iterator<Item = &KeySchema> {
        std::iter::once(&self.partition_key).chain(&self.sort_key)
    }

    /// Whether it is the state table, whose rollups are sources.
    #[must_use]
    pub fn is_state(&self) -> bool {
        *self.name == *STATE_TABLE
    }

    /// Whether its key attributes have the names of the state table's, so that it may be the state table.
    pub(super) fn has_state_key(&self) -> bool {
        self.key().map(|key| &*key.name).eq(STATE_KEY)
    }

    /// Whether a partition key is one of Afterwrite's own items, if this is the state table. Such an item matches no entity.
    #[must_use]
    pub fn is_reserved(&self, partition: &str) -> bool {
        RESERVED_PREFIXES.iter().any(|prefix| partition.starts_with(prefix)) && self.has_state_key()
    }

    /// Its key attributes; an attribute that is not text has its type: `sk (N)`.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        let described = self.key().map(|key| match key.key_type {
            KeyType::Text => key.name.to_string(),
            KeyType::Number | KeyType::Binary => format!("{} ({})", key.name, key.key_type.name()),
        });
        described.collect()
    }

    /// Its name and its separator, if it has one.
    pub(super) fn described_separator(&self) -> Option<(&Arc<str>, String)> {
        Some((&self.name, self.separator?.to_string()))
    }

    /// The keys of its indexes, by `<table>.<index>`.
    pub(super) fn describe_indexes(&self) -> impl Iterator<Item = (String, String)> {
        self.indexes.iter().map(|index| (format!("{}.{}", self.name, index.name), index.key_text()))
    }

    /// The facts that decide how its items are counted: its key attributes and its separator, if it has one (`separator #`).
    pub(super) fn counting_facts(&self) -> Vec<String> {
        let separator = self.separator.map(|separator| format!("separator {separator}"));
        self.describe().into_iter().chain(separator).collect()
    }
}

/// The keys of a source table.
pub(super) const KEYS: [&str; 4] = ["key", "types", "separator", "indexes"];

/// Compiles a source table.
pub(super) fn compile(compiler: &mut ModelCompiler<'_, '_>, settings: &SettingsTable<'_>) -> Option<()> {
    check_deployed_name(&settings.owner, (settings.name, settings.at), compiler.problems);
    let schemas = key_schemas(settings, compiler.problems);
    let separator = separator(compiler, settings);
    let indexes = secondary_index::compile(compiler, settings, &schemas);
    let mut schemas = schemas.into_iter();
    let partition_key = schemas.next()?;
    let name = Arc::from(settings.name);
    compiler.places.separators.push(separator.map_or(settings.at, |separator| separator.at));
    let separator = separator.map(|separator| separator.value);
    compiler.model.tables.push(Table {
        name,
        former_names: Vec::new(),
        partition_key,
        sort_key: schemas.next(),
        separator,
        indexes,
    });
    Some(())
}

/// The key attributes of a table, with their types.
fn key_schemas(settings: &SettingsTable<'_>, problems: &mut ProblemCollector<'_>) -> Vec<KeySchema> {
    let key = settings.required_texts("key", problems);
    if let (Some(problem), Some(value)) = (key_problem(&key), settings.get("key")) {
        problems.report(ProblemCode::KeyMismatch, place(value), format!("{}: {problem}", settings.owner));
        problems.mark_incomplete();
    }
    typed_schemas(settings, &key, "this table", problems)
}

/// The problem of the names in `key`, if they have one.
fn key_problem(key: &[Located<&str>]) -> Option<&'static str> {
    match key {
        [partition, sort] if partition.value == sort.value => {
            Some("the partition key and the sort key have the same name; name each key attribute once")
        }
        [_] | [_, _] => None,
        _ => Some("`key` names the partition key and, if there is one, the sort key"),
    }
}

/// The character that values in keys do not contain. A letter or a digit would be part of most values.
fn separator(compiler: &mut ModelCompiler<'_, '_>, settings: &SettingsTable<'_>) -> Option<Located<char>> {
    let written = settings.text("separator", compiler.problems)?;
    let mut characters = written.value.chars();
    let separator = characters.next().filter(|character| {
        let is_literal = !character.is_alphanumeric() && !"{}".contains(*character);
        is_literal && characters.next().is_none()
    });
    if separator.is_none() {
        let message = format!(
            "{}: `separator` must be one character that is neither a letter, a digit nor a brace, like \"#\"",
            settings.owner
        );
        compiler.report(ProblemCode::InvalidSeparator, written.at, message);
    }
    separator.map(|value| Located { value, at: written.at })
}
