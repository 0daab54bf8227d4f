//! Global secondary indexes of source tables: `[tables.<name>.indexes.<index>]`.

use std::sync::Arc;

use super::key_schema::{KeySchema, check_deployed_name, typed_schemas};
use super::load::compiler::ModelCompiler;
use super::load::problem::{ProblemCode, ProblemCollector};
use super::load::reader::{Located, SettingsTable, entries, place, table, text, texts};

/// A partition key or a sort key of an index has at most this many attributes: DynamoDB's limit.
pub(super) const MAX_ATTRIBUTES: usize = 4;

/// A global secondary index with all attributes, which the application needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecondaryIndex {
    /// Its name.
    pub name: Arc<str>,
    /// The attributes of its partition key: one, or up to four. A query states all of them.
    pub partition: Vec<KeySchema>,
    /// The attributes of its sort key: none, or up to four. A query states them from the left.
    pub sort: Vec<KeySchema>,
}

impl SecondaryIndex {
    /// Its key attributes, the partition key first.
    pub fn key(&self) -> impl Iterator<Item = &KeySchema> {
        self.partition.iter().chain(&self.sort)
    }

    /// Its key attributes, each with its type: `GSI1PK (S), GSI1SK (N)`; several attributes of one key are in brackets: `[tenant (S), region (S)], day (S)`.
    #[must_use]
    pub fn key_text(&self) -> String {
        index_key_text(
            [&self.partition, &self.sort]
                .map(|key| key.iter().map(|key| format!("{} ({})", key.name, key.key_type.name())).collect()),
        )
    }
}

/// The attributes of the partition key and of the sort key of an index, as texts.
#[must_use]
pub fn index_key_text(keys: [Vec<String>; 2]) -> String {
    let written = keys.into_iter().filter(|key| !key.is_empty()).map(|key| match key.as_slice() {
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    });
    written.collect::<Vec<_>>().join(", ")
}

/// The keys of an index.
pub(super) const KEYS: [&str; 2] = ["key", "types"];

/// The indexes of a table. An attribute has one type in the table and all its indexes.
pub(super) fn compile(
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
        let index = SettingsTable::new(owner.clone(), name.at, index, &KEYS, problems);
        let key = key_attributes(&index, problems);
        let in_partition = key.first().map_or(0, Vec::len);
        let mut schemas = typed_schemas(&index, &key.concat(), "this index", problems);
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
        let sort = schemas.split_off(in_partition.min(schemas.len()));
        if !schemas.is_empty() {
            indexes.push(SecondaryIndex { name: Arc::from(name.value), partition: schemas, sort });
        }
    }
    indexes
}

/// The attributes of the partition key, and of the sort key if there is one.
fn key_attributes<'d>(
    index: &SettingsTable<'d>,
    problems: &mut ProblemCollector<'_>,
) -> Vec<Vec<Located<&'d str>>> {
    let Some(value) = index.require("key", problems) else { return Vec::new() };
    let called = index.called("key");
    let key: Vec<Vec<Located<&str>>> = match value.get_ref().as_array() {
        None => text(&called, value, problems).map(|only| vec![only]).into_iter().collect(),
        Some(array) => array.iter().map(|element| texts(&called, element, problems)).collect(),
    };
    let names: Vec<&str> = key.iter().flatten().map(|name| name.value).collect();
    let is_repeated =
        names.iter().enumerate().any(|(place, name)| names.iter().take(place).any(|other| other == name));
    let problem = if !(1..=2).contains(&key.len())
        || key.iter().any(|key| !(1..=MAX_ATTRIBUTES).contains(&key.len()))
    {
        "`key` names the partition key and, if there is one, the sort key; each is an attribute, or a list of two to four attributes"
    } else if is_repeated {
        "`key` names an attribute twice; name each key attribute once"
    } else {
        return key;
    };
    problems.report(ProblemCode::KeyMismatch, place(value), format!("{}: {problem}", index.owner));
    problems.mark_incomplete();
    key
}
