//! Key attributes of tables and indexes, with their types.

use std::sync::Arc;

use super::key_attribute::key_attribute;
use super::load::problem::{ProblemCode, ProblemCollector};
use super::load::reader::{Located, SettingsTable};
use super::load::suggestion::suggestion;
use super::named::{named_values, parse_named};

/// A key attribute of a source table or of an index.
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

/// Key attributes of a table or an index, with the types that `types` states.
pub(super) fn typed_schemas(
    settings: &SettingsTable<'_>,
    key: &[Located<&str>],
    what: &str,
    problems: &mut ProblemCollector<'_>,
) -> Vec<KeySchema> {
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

/// Reports a name that no table and no index of DynamoDB has.
pub(super) fn check_deployed_name(
    owner: &str,
    (name, at): (&str, usize),
    problems: &mut ProblemCollector<'_>,
) {
    let is_allowed = |character: char| character.is_ascii_alphanumeric() || "_-.".contains(character);
    if name.is_empty() || !name.chars().all(is_allowed) {
        let message = format!("{owner}: a name in DynamoDB is made of letters, digits, `_`, `-` and `.`");
        problems.report(ProblemCode::InvalidName, at, message);
    }
}
