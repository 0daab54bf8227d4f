//! Reads the state table by its documented item shapes, without code of the product.

use std::collections::BTreeMap;

use afterwrite_demo::exact::ExactNumber;
use afterwrite_model::record::{AttributeValue, Item};
use serde_json::Value;

use super::numbers::{exact, stored};
use super::oracle::{RememberedOutputs, RollupKey};
use super::store::text;

/// The kind of an item of the state table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateKind {
    Entry,
    Marker,
    Lookup,
    Rollup,
}

/// The kind of a state item. An entry has contributions, a marker has none.
pub(crate) fn state_kind(item: &Item) -> StateKind {
    let partition = text(item, "PK");
    match (partition.starts_with("LEDGER#"), partition.starts_with("LOOKUP#")) {
        (true, _) if item.contains_key("contributions") => StateKind::Entry,
        (true, _) => StateKind::Marker,
        (_, true) => StateKind::Lookup,
        (false, false) => StateKind::Rollup,
    }
}

/// A measure that is overwritten by text.
#[derive(Debug)]
pub(crate) struct OverwrittenMeasure {
    pub(crate) rollup: Item,
    pub(crate) measure: &'static str,
}

/// A ledger entry.
#[derive(Debug)]
pub(crate) struct StoredEntry {
    pub(crate) generation: i64,
    pub(crate) is_tombstone: bool,
    /// Whether a newer record could not be counted.
    pub(crate) is_behind: bool,
    /// Whether the item's life ended without a record that was counted.
    pub(crate) has_vanished: bool,
    pub(crate) contributions: Vec<StoredContribution>,
}

/// The part of an entry that is counted into one rollup.
#[derive(Debug)]
pub(crate) struct StoredContribution {
    pub(crate) aggregate: String,
    /// The rollup's key, including the shard.
    pub(crate) target: RollupKey,
    pub(crate) measures: Vec<(String, ExactNumber)>,
}

/// The state table.
#[derive(Debug, Default)]
pub(crate) struct StateTable {
    /// By `PK` and `SK`.
    pub(crate) entries: BTreeMap<(String, String), StoredEntry>,
    pub(crate) rollups: BTreeMap<RollupKey, Item>,
    /// The keys of the markers of parked expiries.
    pub(crate) parked_expiries: Vec<(String, String)>,
    pub(crate) remembered: RememberedOutputs,
}

impl StateTable {
    pub(crate) fn read(items: Vec<Item>) -> Result<Self, String> {
        let mut state = Self::default();
        for item in items {
            let key = (text(&item, "PK").to_owned(), text(&item, "SK").to_owned());
            match state_kind(&item) {
                StateKind::Marker if item.contains_key("behind") => state.parked_expiries.push(key),
                StateKind::Marker => {}
                StateKind::Entry => {
                    state.entries.insert(key, entry(&item)?);
                }
                StateKind::Lookup => state.add_lookup(&key.0, &item)?,
                StateKind::Rollup => {
                    state.rollups.insert(key, item);
                }
            }
        }
        Ok(state)
    }

    fn add_lookup(&mut self, partition: &str, item: &Item) -> Result<(), String> {
        let Some(AttributeValue::M(outputs)) = item.get("gives") else {
            return Err(format!("{partition} has no outputs"));
        };
        let output = |name: &str| outputs.get(name).and_then(AttributeValue::as_text).map(str::to_owned);
        let owner = partition.strip_prefix("LOOKUP#project_owner#").zip(output("owner_id"));
        let city = partition.strip_prefix("LOOKUP#shop_city#").zip(output("city"));
        match (owner, city) {
            (Some((project, owner)), _) => self.remembered.owners.insert(project.to_owned(), owner),
            (_, Some((shop, city))) => self.remembered.cities.insert(shop.to_owned(), city),
            (None, None) => return Err(format!("{partition} is not a lookup of the model")),
        };
        Ok(())
    }

    /// A number of a rollup; 0 if it is absent.
    pub(crate) fn number(&self, target: &RollupKey, measure: &str) -> ExactNumber {
        self.rollups.get(target).and_then(|item| stored(item, measure)).unwrap_or_default()
    }
}

fn integer(item: &Item, name: &str) -> Option<i64> {
    item.get(name)?.as_number()?.to_string().parse().ok()
}

fn entry(item: &Item) -> Result<StoredEntry, String> {
    let unreadable = || format!("the entry {} {} cannot be read", text(item, "PK"), text(item, "SK"));
    let json: Value = serde_json::from_str(text(item, "contributions")).map_err(|_| unreadable())?;
    let mut contributions = Vec::new();
    for contribution in json.as_array().ok_or_else(unreadable)? {
        // Without an aggregate: the mirrored rollups that the item has left.
        let Some(aggregate) = contribution[0].as_str() else { continue };
        let measures = contribution[2].as_object().ok_or_else(unreadable)?;
        let amount = |value: &Value| value.as_str().map_or_else(|| exact(&value.to_string()), exact);
        let measures: Vec<_> = measures.iter().map(|(name, value)| (name.clone(), amount(value))).collect();
        for target in contribution[1].as_array().ok_or_else(unreadable)? {
            let part = |index: usize| target[index].as_str().unwrap_or("").to_owned();
            let shard = target[3].as_i64().map(|shard| format!("#SHARD#{shard}")).unwrap_or_default();
            contributions.push(StoredContribution {
                aggregate: aggregate.to_owned(),
                target: (part(1) + &shard, part(2)),
                measures: measures.clone(),
            });
        }
    }
    Ok(StoredEntry {
        generation: integer(item, "generation").ok_or_else(unreadable)?,
        is_tombstone: item.contains_key("expires_at"),
        is_behind: item.contains_key("behind"),
        has_vanished: text(item, "unrecorded").contains("vanished"),
        contributions,
    })
}
