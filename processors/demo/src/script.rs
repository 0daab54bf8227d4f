//! The steps of an application, decided before anything is written: the same seed gives the same steps.
//!
//! ```text
//! script ─┬─ round ─┬─ lane: step, step, …      lanes are written concurrently, each in its own order
//!         │         └─ lane: step, step, …
//!         │   then DynamoDB deletes every item whose time to live has passed
//!         └─ round …
//! ```
//!
//! No two lanes of a round write the same item, so each item's history does not depend on how the lanes interleave.

use std::collections::BTreeMap;

use afterwrite_local::dynamodb::TableDefinition;
use serde_json::Value;

use crate::item::{SdkItem, TableItem, integer_of, item};

/// A time to live that has long passed: DynamoDB deletes the item in its next sweep.
pub const PAST: i64 = 1_700_000_000;

/// One write of an application.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptStep {
    /// Puts whole items, several in one transaction.
    Put {
        /// The table.
        table: &'static str,
        /// The items.
        items: Vec<SdkItem>,
    },
    /// Sets attributes of an item, and creates the item if it does not exist.
    Set {
        /// The table.
        table: &'static str,
        /// The item's key.
        key: SdkItem,
        /// The attributes.
        attributes: SdkItem,
    },
    /// Deletes an item.
    Delete {
        /// The table.
        table: &'static str,
        /// The item's key.
        key: SdkItem,
    },
}

impl ScriptStep {
    /// The number of items that it writes.
    #[must_use]
    pub fn writes(&self) -> usize {
        match self {
            Self::Put { items, .. } => items.len(),
            Self::Set { .. } | Self::Delete { .. } => 1,
        }
    }
}

/// Steps that are written one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScriptLane {
    /// The steps.
    pub steps: Vec<ScriptStep>,
}

impl ScriptLane {
    /// Puts a whole item.
    pub fn put(&mut self, table: &'static str, item: SdkItem) {
        self.put_together(table, vec![item]);
    }

    /// Puts all of these items, or no item.
    pub fn put_together(&mut self, table: &'static str, items: Vec<SdkItem>) {
        self.steps.push(ScriptStep::Put { table, items });
    }

    /// Sets attributes of the item with this key.
    pub fn set(&mut self, table: &'static str, key: SdkItem, attributes: Value) {
        self.steps.push(ScriptStep::Set { table, key, attributes: item(attributes) });
    }

    /// Deletes the item with this key.
    pub fn delete(&mut self, table: &'static str, key: SdkItem) {
        self.steps.push(ScriptStep::Delete { table, key });
    }
}

/// Everything that an application does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// The lanes of each round.
    pub rounds: Vec<Vec<ScriptLane>>,
}

impl Script {
    /// The number of items that are written.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.rounds.iter().flatten().flat_map(|lane| &lane.steps).map(ScriptStep::writes).sum()
    }

    /// Every state in which every item is ever written, each item's in order. `now` is the time of the TTL sweeps.
    #[must_use]
    pub fn images(&self, tables: &[TableDefinition], now: i64) -> Vec<TableItem> {
        let mut replay = ScriptReplay { tables, items: BTreeMap::new(), images: Vec::new() };
        for round in &self.rounds {
            for step in round.iter().flat_map(|lane| &lane.steps) {
                replay.write(step);
            }
            replay.items.retain(|_, stored| !has_expired(stored, tables, now));
        }
        replay.images
    }
}

/// The items as the steps so far have left them.
struct ScriptReplay<'t> {
    tables: &'t [TableDefinition],
    items: BTreeMap<(&'t str, String), TableItem>,
    images: Vec<TableItem>,
}

impl<'t> ScriptReplay<'t> {
    fn write(&mut self, step: &ScriptStep) {
        match step {
            ScriptStep::Put { table, items } => items.iter().for_each(|item| self.put(table, item.clone())),
            ScriptStep::Set { table, key, attributes } => {
                let stored = self.place(table, key).and_then(|place| self.items.get(&place));
                let mut item = stored.map_or(key, |stored| &stored.item).clone();
                item.extend(attributes.clone());
                self.put(table, item);
            }
            ScriptStep::Delete { table, key } => {
                if let Some(place) = self.place(table, key) {
                    self.items.remove(&place);
                }
            }
        }
    }

    fn put(&mut self, table: &str, item: SdkItem) {
        let Some(place) = self.place(table, &item) else { return };
        let stored = TableItem { table: table.to_owned(), item };
        self.images.push(stored.clone());
        self.items.insert(place, stored);
    }

    /// The item's table and key.
    fn place(&self, table: &str, item: &SdkItem) -> Option<(&'t str, String)> {
        let table = self.tables.iter().find(|known| known.name == table)?;
        let key: Vec<_> = table.key.attributes().map(|name| item.get(name)).collect();
        Some((table.name.as_str(), format!("{key:?}")))
    }
}

/// Whether an item's time to live has passed.
#[must_use]
pub fn has_expired(stored: &TableItem, tables: &[TableDefinition], now: i64) -> bool {
    let table = tables.iter().find(|table| table.name == stored.table);
    let attribute = table.and_then(|table| table.ttl_attribute.as_deref());
    attribute.and_then(|name| integer_of(&stored.item, name)).is_some_and(|ttl| ttl < now)
}

#[cfg(test)]
mod tests {
    use afterwrite_local::dynamodb::KeyDefinition;

    use serde_json::json;

    use super::*;

    #[test]
    fn every_state_of_an_item_is_an_image() {
        let table = TableDefinition {
            name: "t".to_owned(),
            key: KeyDefinition::partition_only("id"),
            ttl_attribute: Some("ttl".to_owned()),
            ..TableDefinition::default()
        };
        let key = || item(json!({ "id": "a" }));
        let mut first = ScriptLane::default();
        first.put("t", item(json!({ "id": "a", "n": 1 })));
        first.set("t", key(), json!({ "m": 2, "ttl": PAST }));
        let mut second = ScriptLane::default();
        // It has expired since: it is created again.
        second.set("t", key(), json!({ "n": 3 }));
        second.delete("t", key());
        let script = Script { rounds: vec![vec![first], vec![second]] };
        let images: Vec<SdkItem> =
            script.images(&[table], PAST + 1).into_iter().map(|image| image.item).collect();
        let expected = [
            json!({ "id": "a", "n": 1 }),
            json!({ "id": "a", "n": 1, "m": 2, "ttl": PAST }),
            json!({ "id": "a", "n": 3 }),
        ];
        assert_eq!(images, expected.map(item));
        assert_eq!(script.writes(), 4);
    }
}
