//! Source tables and their key attributes: `[tables.<name>]`.

use std::sync::Arc;

use super::key_attribute::key_attribute;
use super::load::compiler::ModelCompiler;
use super::load::problem::{ProblemCode, ProblemCollector};
use super::load::reader::{Located, SettingsTable, entries, place, table};
use super::load::suggestion::suggestion;
use super::named::{named_values, parse_named};
use super::state_key::{RESERVED_PREFIXES, STATE_KEY};

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

/// A global secondary index with all attributes, which the application needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecondaryIndex {
    /// Its name.
    pub name: Arc<str>,
    /// Its partition key.
    pub partition_key: KeySchema,
    /// Its sort key, if it has one.
    pub sort_key: Option<KeySchema>,
}

impl SecondaryIndex {
    /// Its key attributes, the partition key first.
    pub fn key(&self) -> impl Iterator<Item = &KeySchema> {
        std::iter::once(&self.partition_key).chain(&self.sort_key)
    }

    /// Its key attributes, each with its type: `GSI1PK (S), GSI1SK (N)`.
    #[must_use]
    pub fn key_text(&self) -> String {
        let key = self.key().map(|key| format!("{} ({})", key.name, key.key_type.name()));
        key.collect::<Vec<_>>().join(", ")
    }
}

impl Table {
    /// Its key attributes, the partition key first.
    pub fn key(&self) -> impl Iterator<Item = &KeySchema> {
        std::iter::once(&self.partition_key).chain(&self.sort_key)
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

/// A key attribute of a source table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySchema {
    /// Its name.
    pub name: Arc<str>,
    /// Its type.
    pub key_type: KeyType,
}

named_values! {
    /// The type of a key attribute, under DynamoDB's name.
    #[derive(Default)]
    pub enum KeyType {
        /// `S`.
        #[default]
        Text = "S" | "string" | "text",
        /// `N`.
        Number = "N" | "number",
        /// `B`.
        Binary = "B" | "binary",
    }
}

/// The keys of a source table.
pub(super) const KEYS: [&str; 4] = ["key", "types", "separator", "indexes"];
/// The keys of an index.
pub(super) const INDEX_KEYS: [&str; 2] = ["key", "types"];

/// Compiles a source table.
pub(super) fn compile(compiler: &mut ModelCompiler<'_, '_>, settings: &SettingsTable<'_>) -> Option<()> {
    check_deployed_name(&settings.owner, (settings.name, settings.at), compiler.problems);
    let schemas = key_schemas(settings, "this table", compiler.problems);
    let separator = separator(compiler, settings);
    let indexes = indexes(compiler, settings, &schemas);
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

/// The key attributes of a table or an index, with their types.
fn key_schemas(
    settings: &SettingsTable<'_>,
    what: &str,
    problems: &mut ProblemCollector<'_>,
) -> Vec<KeySchema> {
    let key = settings.required_texts("key", problems);
    if let (Some(problem), Some(value)) = (key_problem(&key), settings.get("key")) {
        problems.report(ProblemCode::KeyMismatch, place(value), format!("{}: {problem}", settings.owner));
        problems.mark_incomplete();
    }
    let mut schemas = key
        .iter()
        .map(|attribute| KeySchema {
            name: Arc::from(key_attribute(attribute.value)),
            key_type: KeyType::default(),
        })
        .collect::<Vec<_>>();
    for (attribute, written) in settings.pairs("types", problems) {
        let schema = schemas.iter_mut().find(|schema| *schema.name == *key_attribute(attribute.value));
        if schema.is_none() {
            let nearest = suggestion(attribute.value, key.iter().map(|known| known.value));
            let (owner, name) = (&settings.owner, attribute.value);
            let message = format!("{owner}: `{name}` is not a key attribute of {what}{nearest}");
            problems.report(ProblemCode::KeyMismatch, attribute.at, message);
        }
        let called = format!("{}: the type of `{}`", settings.owner, attribute.value);
        let key_type = parse_named(&called, written, problems);
        if let (Some(schema), Some(key_type)) = (schema, key_type) {
            schema.key_type = key_type;
        }
    }
    schemas
}

/// The indexes of a table: `[tables.<name>.indexes.<index>]`. An attribute has one type in the table and all its indexes.
fn indexes(
    compiler: &mut ModelCompiler<'_, '_>,
    settings: &SettingsTable<'_>,
    table_key: &[KeySchema],
) -> Vec<SecondaryIndex> {
    let problems = &mut *compiler.problems;
    let written =
        settings.get("indexes").and_then(|value| table(&settings.called("indexes"), value, problems));
    let mut indexes: Vec<SecondaryIndex> = Vec::new();
    for (name, value) in written.map(entries).unwrap_or_default() {
        let owner = format!("{}: index `{}`", settings.owner, name.value);
        check_deployed_name(&owner, (name.value, name.at), problems);
        let Some(index) = table(&owner, value, problems) else { continue };
        let index = SettingsTable::new(owner.clone(), name.at, index, &INDEX_KEYS, problems);
        let schemas = key_schemas(&index, "this index", problems);
        let known = || table_key.iter().chain(indexes.iter().flat_map(SecondaryIndex::key));
        for schema in &schemas {
            let other = known().find(|other| other.name == schema.name && other.key_type != schema.key_type);
            if let Some(other) = other {
                let message = format!(
                    "{owner}: `{}` is {} here and {} elsewhere in the table; an attribute has one type: state it in `types`",
                    schema.name,
                    schema.key_type.name(),
                    other.key_type.name()
                );
                problems.report(ProblemCode::KeyMismatch, name.at, message);
            }
        }
        let mut schemas = schemas.into_iter();
        let Some(partition_key) = schemas.next() else { continue };
        let index = SecondaryIndex { name: Arc::from(name.value), partition_key, sort_key: schemas.next() };
        indexes.push(index);
    }
    indexes
}

/// Reports a name that no table and no index of DynamoDB has.
fn check_deployed_name(owner: &str, (name, at): (&str, usize), problems: &mut ProblemCollector<'_>) {
    let is_allowed = |character: char| character.is_ascii_alphanumeric() || "_-.".contains(character);
    if name.is_empty() || !name.chars().all(is_allowed) {
        let message = format!("{owner}: a name in DynamoDB is made of letters, digits, `_`, `-` and `.`");
        problems.report(ProblemCode::InvalidName, at, message);
    }
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
