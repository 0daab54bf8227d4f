//! What an application does, decided before anything is written: the same seed, the same steps, whoever plays them.
//!
//! ```text
//! Script ─┬─ round ─┬─ lane: step, step, …      lanes are written side by side, each in its own order
//!         │         └─ lane: step, step, …
//!         │   then DynamoDB takes whatever's time to live has passed
//!         └─ round …
//! ```
//!
//! No two lanes of a round write the same item, so each item's life is the same however the lanes are interleaved.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;

use super::item::{Item, Placed, key_of, whole_of};
use afterwrite_local::dynamodb::TableDefinition;

/// A time to live that has long passed: DynamoDB takes the item when it next sweeps.
pub const PAST: i64 = 1_700_000_000;

/// One write of an application.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Puts a whole item, whatever was there.
    Put {
        /// The table.
        table: &'static str,
        /// The item.
        item: Item,
    },
    /// Puts several items in one transaction.
    PutTogether {
        /// The table.
        table: &'static str,
        /// The items.
        items: Vec<Item>,
    },
    /// Sets attributes of an item, and makes the item if it is not there.
    Set {
        /// The table.
        table: &'static str,
        /// The item's key.
        key: Item,
        /// The attributes.
        attributes: Item,
    },
    /// Deletes an item.
    Delete {
        /// The table.
        table: &'static str,
        /// The item's key.
        key: Item,
    },
}

impl Step {
    /// How many items it writes.
    #[must_use]
    pub fn writes(&self) -> u64 {
        match self {
            Self::PutTogether { items, .. } => u64::try_from(items.len()).unwrap_or(0),
            Self::Put { .. } | Self::Set { .. } | Self::Delete { .. } => 1,
        }
    }
}

/// Steps that are written one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lane {
    /// The steps.
    pub steps: Vec<Step>,
}

impl Lane {
    /// Puts a whole item.
    pub fn put(&mut self, table: &'static str, item: Item) {
        self.steps.push(Step::Put { table, item });
    }

    /// Puts all of these items or none.
    pub fn put_together(&mut self, table: &'static str, items: Vec<Item>) {
        self.steps.push(Step::PutTogether { table, items });
    }

    /// Sets attributes of the item with this key.
    pub fn set<const N: usize>(
        &mut self,
        table: &'static str,
        key: Item,
        attributes: [(&str, AttributeValue); N],
    ) {
        self.steps.push(Step::Set { table, key, attributes: super::item::item(attributes) });
    }

    /// Deletes the item with this key.
    pub fn delete(&mut self, table: &'static str, key: Item) {
        self.steps.push(Step::Delete { table, key });
    }
}

/// Everything that an application does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// What is done round by round, lane by lane.
    pub rounds: Vec<Vec<Lane>>,
}

impl Script {
    /// How many items are written.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.rounds.iter().flatten().flat_map(|lane| &lane.steps).map(Step::writes).sum()
    }

    /// Every state that every item was ever written in, each item's in order. `now` is when time to live is judged.
    #[must_use]
    pub fn images(&self, tables: &[TableDefinition], now: i64) -> Vec<Placed> {
        let mut replay = Replay { tables, items: BTreeMap::new(), images: Vec::new() };
        for round in &self.rounds {
            for step in round.iter().flat_map(|lane| &lane.steps) {
                replay.step(step);
            }
            replay.expire(now);
        }
        replay.images
    }
}

/// The items as the steps so far have left them.
struct Replay<'t> {
    tables: &'t [TableDefinition],
    items: BTreeMap<(&'t str, String), Item>,
    images: Vec<Placed>,
}

impl<'t> Replay<'t> {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Put { table, item } => self.write(table, item.clone()),
            Step::PutTogether { table, items } => {
                items.iter().for_each(|item| self.write(table, item.clone()));
            }
            Step::Set { table, key, attributes } => {
                let stored = self.place(table, key).and_then(|place| self.items.get(&place));
                let mut item = stored.unwrap_or(key).clone();
                item.extend(attributes.clone());
                self.write(table, item);
            }
            Step::Delete { table, key } => {
                if let Some(place) = self.place(table, key) {
                    self.items.remove(&place);
                }
            }
        }
    }

    fn write(&mut self, table: &str, item: Item) {
        let Some(place) = self.place(table, &item) else { return };
        self.images.push(Placed { table: table.to_owned(), item: item.clone() });
        self.items.insert(place, item);
    }

    fn place(&self, table: &str, item: &Item) -> Option<(&'t str, String)> {
        let table = self.tables.iter().find(|known| known.name == table)?;
        let key: BTreeMap<String, AttributeValue> = key_of(item, table).into_iter().collect();
        Some((table.name.as_str(), format!("{key:?}")))
    }

    fn expire(&mut self, now: i64) {
        let tables = self.tables;
        self.items.retain(|(table, _), item| !has_expired(item, ttl_attribute(tables, table), now));
    }
}

fn ttl_attribute<'t>(tables: &'t [TableDefinition], name: &str) -> Option<&'t str> {
    tables.iter().find(|table| table.name == name)?.ttl_attribute.as_deref()
}

/// Whether an item's time to live has passed.
#[must_use]
pub fn has_expired(item: &Item, ttl_attribute: Option<&str>, now: i64) -> bool {
    ttl_attribute.and_then(|name| whole_of(item, name)).is_some_and(|ttl| ttl < now)
}

#[cfg(test)]
mod tests {
    use super::super::item::{item, text, whole};
    use super::*;
    use afterwrite_local::dynamodb::KeyDefinition;

    #[test]
    fn every_state_of_an_item_is_an_image() {
        let table = TableDefinition {
            name: "t".to_owned(),
            key: KeyDefinition { partition: "id".to_owned(), sort: None },
            indexes: Vec::new(),
            stream: true,
            ttl_attribute: Some("ttl".to_owned()),
        };
        let key = || item([("id", text("a"))]);
        let mut first = Lane::default();
        first.put("t", item([("id", text("a")), ("n", whole(1))]));
        first.set("t", key(), [("m", whole(2)), ("ttl", whole(PAST))]);
        let mut second = Lane::default();
        // It has been taken since: it begins anew.
        second.set("t", key(), [("n", whole(3))]);
        second.delete("t", key());
        let script = Script { rounds: vec![vec![first], vec![second]] };
        let images: Vec<Item> =
            script.images(&[table], PAST + 1).into_iter().map(|placed| placed.item).collect();
        let expected = [
            item([("id", text("a")), ("n", whole(1))]),
            item([("id", text("a")), ("n", whole(1)), ("m", whole(2)), ("ttl", whole(PAST))]),
            item([("id", text("a")), ("n", whole(3))]),
        ];
        assert_eq!(images, expected);
        assert_eq!(script.writes(), 4);
    }
}
