//! An item before and after a run.

use std::collections::BTreeSet;

use afterwrite_ledger::state::ENTITY_TYPE;
use afterwrite_model::effect::{ItemKey, KeyAttribute};
use afterwrite_model::record::{AttributeValue, Item, plain_json};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// An item that differs: its key, and its state before and after. It serializes as plain JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemDifference {
    /// The item's key.
    pub key: ItemKey,
    /// The item before; `None` if it did not exist.
    pub before: Option<Item>,
    /// The item after; `None` if it was deleted.
    pub after: Option<Item>,
}

/// An attribute that differs, as plain JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttributeDifference {
    /// The attribute's name.
    pub attribute: String,
    /// The value before; `None` if it was absent.
    pub before: Option<String>,
    /// The value after; `None` if it is absent.
    pub after: Option<String>,
}

impl ItemDifference {
    /// An item's states before and after.
    #[must_use]
    pub fn new(key: ItemKey, before: Option<Item>, after: Option<Item>) -> Self {
        Self { key, before, after }
    }

    /// The value of `EntityType`, by which items of the state table are distinguished: `ROLLUP`, `LEDGER` or `LOOKUP`. Empty for an
    /// application's item.
    #[must_use]
    pub fn entity_type(&self) -> &str {
        let item = self.after.as_ref().or(self.before.as_ref());
        item.and_then(|item| item.get(ENTITY_TYPE)?.as_text()).unwrap_or_default()
    }

    /// The texts of the key: partition, and sort if there is one.
    #[must_use]
    pub fn key_texts(&self) -> (String, Option<String>) {
        let text = |attribute: &KeyAttribute| plain_value(&attribute.value);
        (text(&self.key.partition), self.key.sort.as_ref().map(text))
    }

    /// The attributes that differ, in the order of their names.
    #[must_use]
    pub fn attributes(&self) -> Vec<AttributeDifference> {
        let empty = Item::new();
        let (before, after) = (self.before.as_ref().unwrap_or(&empty), self.after.as_ref().unwrap_or(&empty));
        let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        let differing = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
        differing
            .map(|name| AttributeDifference {
                attribute: name.to_string(),
                before: before.get(name).map(plain_value),
                after: after.get(name).map(plain_value),
            })
            .collect()
    }
}

impl Serialize for ItemDifference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct PlainDifference<'d> {
            table: &'d str,
            before: Option<Box<RawValue>>,
            after: Option<Box<RawValue>>,
        }
        let plain = |item: &Option<Item>| item.as_ref().and_then(plain_item);
        let (before, after) = (plain(&self.before), plain(&self.after));
        PlainDifference { table: &self.key.table, before, after }.serialize(serializer)
    }
}

/// An item as plain JSON.
#[must_use]
pub fn plain_item(item: &Item) -> Option<Box<RawValue>> {
    RawValue::from_string(plain_json(&AttributeValue::M(item.clone()))).ok()
}

/// Text unchanged, other values as JSON.
#[must_use]
pub fn plain_value(value: &AttributeValue<'_>) -> String {
    value.as_text().map_or_else(|| plain_json(value), str::to_owned)
}
