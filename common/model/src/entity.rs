//! Identifies the item of a record: its entity in the model, and the values of the variables in its key.
//!
//! ```text
//! primary key ─▶ SourceKey ─▶ ItemCandidates: the entities that an item with this key can be of ─▶ an image ─▶ ItemIdentity
//! ```
//!
//! Nearly always a key has one candidate, and no image is needed. Several candidates are distinguished by their conditions
//! (`when`), which are evaluated on an image: `ItemCandidates::in_state`. So an item may be of different entities before and after a change.
//! A [`SourceKey`] also leads back to the key in the table: [`SourceKey::item_key`]. Pure.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use smallvec::SmallVec;

use crate::effect::{ItemKey, KeyAttribute, MAX_PARTITION_KEY, MAX_SORT_KEY};
use crate::record::{AttributeValue, Decimal, Item, PrimaryKey, Timestamp};
use crate::table::{Aggregate, Entity, KeySchema, KeyType, Model};

/// The key of the heartbeat: the value of text key attributes. It is reserved: an item with this key matches no entity.
pub const HEARTBEAT_KEY: &str = "AFTERWRITE#HEARTBEAT";
/// The text of [`HEARTBEAT_KEY`] as a binary key attribute.
const HEARTBEAT_BASE64: &str = "QUZURVJXUklURSNIRUFSVEJFQVQ=";
/// The text of a number key attribute of the heartbeat.
const HEARTBEAT_NUMBER: &str = "0";

/// The key of a source item: its table and the texts of its primary key.
///
/// A number is its decimal digits, binary is base64. Each key attribute of a table has one type, so two items never
/// have the same texts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceKey<'r> {
    /// The table: an index into [`Model::tables`].
    pub table: usize,
    /// The partition key.
    pub partition: Cow<'r, str>,
    /// The sort key, if the table has one.
    pub sort: Option<Cow<'r, str>>,
}

impl<'r> SourceKey<'r> {
    /// The key with these attributes; `None` if the table's key has other attributes or types.
    pub fn of_keys(model: &Model, table: usize, keys: &'r PrimaryKey<'_>) -> Option<Self> {
        Self::new(model, table, |name| keys.get(name))
    }

    /// The key of an item that was read from the table.
    pub fn of_item(model: &Model, table: usize, item: &'r Item) -> Option<Self> {
        Self::new(model, table, |name| item.get(name))
    }

    fn new<'v: 'r>(
        model: &Model,
        table: usize,
        attribute: impl Fn(&str) -> Option<&'r AttributeValue<'v>>,
    ) -> Option<Self> {
        let schema = model.tables.get(table)?;
        let text = |key: &KeySchema| key_text(attribute(&key.name)?, key.key_type);
        let partition = text(&schema.partition_key)?;
        let sort = match &schema.sort_key {
            Some(key) => Some(text(key)?),
            None => None,
        };
        Some(Self { table, partition, sort })
    }

    /// The key of the item in its table; `table_names` has the deployed name of each of [`Model::tables`]. `None` if the texts do not match the
    /// table's key schema, or if DynamoDB does not allow such a key: one part is empty or too long.
    #[must_use]
    pub fn item_key(&self, model: &Model, table_names: &[Arc<str>]) -> Option<ItemKey> {
        let schema = model.tables.get(self.table)?;
        let sort = match (&schema.sort_key, &self.sort) {
            (Some(key), Some(text)) => Some(key_attribute(key, text, MAX_SORT_KEY)?),
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => return None,
        };
        let table = Arc::clone(table_names.get(self.table)?);
        let partition = key_attribute(&schema.partition_key, &self.partition, MAX_PARTITION_KEY)?;
        Some(ItemKey { table, partition, sort })
    }

    /// Whether this is the key of the table's heartbeat (see [`crate::heartbeat`]).
    #[must_use]
    pub fn is_heartbeat(&self) -> bool {
        let is_reserved = |text: &str| text == HEARTBEAT_KEY || text == HEARTBEAT_BASE64;
        let is_zero = |text: &str| text == HEARTBEAT_NUMBER;
        match &self.sort {
            None => is_reserved(&self.partition),
            Some(sort) if is_reserved(&self.partition) => is_reserved(sort) || is_zero(sort),
            Some(sort) => is_zero(&self.partition) && is_reserved(sort),
        }
    }

    /// Whether it is the key of one of Afterwrite's own items, if its table is the state table.
    pub(crate) fn is_reserved(&self, model: &Model) -> bool {
        model.tables.get(self.table).is_some_and(|table| table.is_reserved(&self.partition))
    }

    /// The entities that an item with this key can be of; none if no entity has such a key, or if the key is reserved.
    pub fn candidates<'m, 'k>(&'k self, model: &'m Model) -> ItemCandidates<'m, 'k> {
        let mut candidates = ItemCandidates { model, first: None, others: Vec::new() };
        if self.is_heartbeat() || self.is_reserved(model) {
            return candidates;
        }
        let mut bindings: SmallVec<[Option<&str>; 4]> = SmallVec::new();
        for entity in model.match_order.iter().filter_map(|index| model.entities.get(*index)) {
            if entity.table != self.table || !entity.key.partition.begins(&self.partition) {
                continue;
            }
            bindings.clear();
            bindings.resize(entity.variables.len(), None);
            if !self.matches(entity, &mut bindings) {
                continue;
            }
            let values = bindings.iter().map(|value| value.map(|value| entity.key_values.value(value)));
            let Some(variables) = values.collect::<Option<_>>() else { continue };
            candidates.push(ItemIdentity { entity, variables });
            if entity.when.is_none() {
                // An entity without a condition takes every item that the candidates before it leave.
                break;
            }
        }
        candidates
    }

    fn matches<'k>(&'k self, entity: &Entity, bindings: &mut [Option<&'k str>]) -> bool {
        entity.key.partition.parse(&self.partition, bindings)
            && match (&entity.key.sort, &self.sort) {
                (Some(template), Some(text)) => template.parse(text, bindings),
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            }
    }
}

/// The entities that an item with some key can be of. The state of the item decides: it is of the first of these whose condition its image
/// meets.
#[derive(Clone, Debug)]
pub struct ItemCandidates<'m, 'k> {
    model: &'m Model,
    /// The preferred entity. Most items have only this one, so that nothing is allocated.
    first: Option<ItemIdentity<'m, 'k>>,
    /// The other entities, in the order of preference. All but the last have a condition.
    others: Vec<ItemIdentity<'m, 'k>>,
}

impl<'m, 'k> ItemCandidates<'m, 'k> {
    /// Whether no entity has such a key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &'m Model {
        self.model
    }

    /// The identities that the item can have, in the order of preference.
    pub fn iter(&self) -> impl Iterator<Item = &ItemIdentity<'m, 'k>> {
        self.first.iter().chain(&self.others)
    }

    /// The item's identity, if its key alone decides.
    #[must_use]
    pub fn by_key(&self) -> Option<&ItemIdentity<'m, 'k>> {
        self.first.as_ref().filter(|identity| identity.entity.when.is_none())
    }

    fn push(&mut self, identity: ItemIdentity<'m, 'k>) {
        if self.first.is_none() {
            self.first = Some(identity);
        } else {
            self.others.push(identity);
        }
    }

    /// Whether something holds of an entity that the item can be of.
    pub fn any(&self, holds: impl Fn(&Entity) -> bool) -> bool {
        self.iter().any(|identity| holds(identity.entity))
    }

    /// Whether the item is of a rollup, had expired at `at` by the time in its key, and stays counted in the level above when TTL deletes it.
    #[must_use]
    pub fn keep_expired(&self, at: Timestamp) -> bool {
        self.iter().any(|identity| {
            let expiry = || self.model.expiry_of(identity.entity.rollup?, &identity.variables);
            identity.entity.keeps_what_expired() && expiry().is_some_and(|expiry| expiry <= at)
        })
    }

    /// The aggregates that may count an item of one of these entities.
    pub fn aggregates(&self) -> impl Iterator<Item = &Aggregate> {
        let indexes = self.iter().flat_map(|identity| &identity.entity.aggregates);
        indexes.filter_map(|index| self.model.aggregates.get(*index))
    }

    /// The most rollups that one state of such an item counts into.
    #[must_use]
    pub fn most_rollups(&self) -> usize {
        self.iter().map(|identity| identity.entity.most_rollups(self.model)).max().unwrap_or(0)
    }
}

/// The entity of an item, and the variables of its key.
#[derive(Clone, Debug)]
pub struct ItemIdentity<'m, 'k> {
    /// The entity.
    pub entity: &'m Entity,
    /// The values of its key's variables, aligned with [`Entity::variables`].
    pub variables: Vec<Cow<'k, str>>,
}

/// The text of a key attribute; `None` if its type differs from the table's.
fn key_text<'r>(value: &'r AttributeValue<'_>, key_type: KeyType) -> Option<Cow<'r, str>> {
    match (key_type, value) {
        (KeyType::Text, AttributeValue::S(text)) => Some(Cow::Borrowed(text)),
        (KeyType::Number, AttributeValue::N(number)) => Some(Cow::Owned(number.to_string())),
        (KeyType::Binary, AttributeValue::B(bytes)) => Some(Cow::Owned(STANDARD.encode(bytes))),
        (KeyType::Text | KeyType::Number | KeyType::Binary, _) => None,
    }
}

/// The value of a key attribute of the heartbeat.
pub(crate) fn heartbeat_value(key_type: KeyType) -> AttributeValue<'static> {
    match key_type {
        KeyType::Text => AttributeValue::text(HEARTBEAT_KEY),
        KeyType::Number => AttributeValue::N(Decimal::from(0)),
        KeyType::Binary => AttributeValue::B(Cow::Borrowed(HEARTBEAT_KEY.as_bytes())),
    }
}

/// Parses a text of a [`SourceKey`]; `None` if no key has this text. A number has one text: `7.0` is not the text of 7.
#[must_use]
pub fn key_value(text: &str, key_type: KeyType) -> Option<AttributeValue<'static>> {
    match key_type {
        KeyType::Text => Some(AttributeValue::text(text)),
        KeyType::Number => {
            let number: Decimal = text.parse().ok()?;
            (number.to_string() == text).then_some(AttributeValue::N(number))
        }
        KeyType::Binary => STANDARD.decode(text).ok().map(|bytes| AttributeValue::B(Cow::Owned(bytes))),
    }
}

/// An attribute of a key; `None` if no key has this text, or if it is empty or longer than `most_bytes`.
fn key_attribute(key: &KeySchema, text: &str, most_bytes: usize) -> Option<KeyAttribute> {
    let value = key_value(text, key.key_type)?;
    let bytes = if let AttributeValue::B(bytes) = &value { bytes.len() } else { text.len() };
    (1..=most_bytes).contains(&bytes).then(|| KeyAttribute { name: Arc::clone(&key.name), value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Model;

    #[test]
    fn a_number_key_has_one_text() {
        assert_eq!(key_value("7", KeyType::Number), Some(AttributeValue::N(Decimal::from(7))));
        for text in ["007", "7.0", "70e-1", "+7", "seven"] {
            assert_eq!(key_value(text, KeyType::Number), None, "{text}");
        }
        assert_eq!(key_value("Zh==", KeyType::Binary), None, "bits beyond the bytes");
    }

    fn model(separator: &str, entities: &[(&str, &str)]) -> Model {
        let mut source =
            format!("name = \"keys\"\ngeneration = 1\n[tables.t]\nkey = [\"PK\", \"SK\"]\n{separator}\n");
        for (name, sort) in entities {
            source.push_str(&format!("[entities.{name}]\nkey = {{ PK = \"P#{{p}}\", SK = \"{sort}\" }}\n"));
        }
        Model::parse(&source, "keys.toml").unwrap_or_else(|errors| panic!("{errors}"))
    }

    /// The entity of the item with this sort key, and the values of its variables.
    fn identified(model: &Model, sort: &str) -> Option<(String, Vec<String>)> {
        let source = SourceKey { table: 0, partition: "P#1".into(), sort: Some(sort.into()) };
        let candidates = source.candidates(model);
        let identity = candidates.by_key()?;
        let values = identity.variables.iter().map(ToString::to_string).collect();
        Some((identity.entity.name.to_string(), values))
    }

    fn item(name: &str, values: &[&str]) -> Option<(String, Vec<String>)> {
        Some((name.to_owned(), values.iter().map(|value| (*value).to_owned()).collect()))
    }

    #[test]
    fn the_most_literal_key_decides_in_whatever_order_entities_are_declared() {
        let mut entities =
            [("order", "ORDER#{o}"), ("line", "ORDER#{o}#ITEM#{i}"), ("total", "ORDER#{o}#ITEM#TOTAL")];
        for _ in 0..2 {
            let model = model("", &entities);
            assert_eq!(identified(&model, "ORDER#7"), item("order", &["1", "7"]));
            assert_eq!(identified(&model, "ORDER#7#NOTE#1"), item("order", &["1", "7#NOTE#1"]));
            assert_eq!(identified(&model, "ORDER#7#ITEM#2"), item("line", &["1", "7", "2"]));
            assert_eq!(identified(&model, "ORDER#7#ITEM#TOTAL"), item("total", &["1", "7"]));
            assert_eq!(identified(&model, "INVOICE#7"), None);
            entities.reverse();
        }
    }

    #[test]
    fn no_variable_contains_the_separator() {
        let model = model("separator = \"#\"", &[("order", "ORDER#{o}"), ("line", "ORDER#{o}#ITEM#{i}")]);
        assert_eq!(identified(&model, "ORDER#7"), item("order", &["1", "7"]));
        assert_eq!(identified(&model, "ORDER#7#ITEM#2"), item("line", &["1", "7", "2"]));
        assert_eq!(identified(&model, "ORDER#7#NOTE#1"), None);
        assert_eq!(identified(&model, "ORDER#7#ITEM#2#3"), None);
        assert!(model.entities.iter().all(|entity| entity.yields_to.is_empty()), "their keys do not overlap");
    }

    #[test]
    fn an_item_with_a_reserved_partition_key_matches_no_entity_of_a_table_that_may_be_the_state_table() {
        for (key, has_entity) in [("PK", false), ("pk", true)] {
            let model = Model::parse(
                &format!(
                    "name = \"keys\"\ngeneration = 1\n[tables.t]\nkey = [\"{key}\", \"SK\"]\nseparator = \"#\"\n[entities.order]\nkey = {{ {key} = \"{{tenant}}#ORDER#{{order}}\", SK = \"{{line}}\" }}\n"
                ),
                "keys.toml",
            );
            let model = model.unwrap_or_else(|errors| panic!("{errors}"));
            let matches = |partition: &str| {
                let source = SourceKey { table: 0, partition: partition.into(), sort: Some("1".into()) };
                !source.candidates(&model).is_empty()
            };
            assert!(matches("acme#ORDER#7") && matches("LEDGER2#ORDER#7"), "{key}");
            for reserved in ["LEDGER", "LOOKUP", "AFTERWRITE"] {
                assert_eq!(matches(&format!("{reserved}#ORDER#7")), has_entity, "{key} {reserved}");
            }
        }
    }
}
