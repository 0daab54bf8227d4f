//! The state table as its item shapes are documented, read without the engine's help.

use std::collections::BTreeMap;

use afterwrite::record::{AttributeValue, Item};
use afterwrite_demo::exact::ExactNumber;
use serde_json::Value;

use super::oracle::{Remembered, Target, exact};
use super::store::text;

/// What an item of the state table is, told by its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateKind {
    Entry,
    Marker,
    Lookup,
    Rollup,
}

/// Tells a state item by its key.
pub(crate) fn state_kind(partition: &str, sort: &str) -> StateKind {
    match (partition.starts_with("LEDGER#"), partition.starts_with("LOOKUP#")) {
        (true, _) if sort.contains("#EXPIRED#") => StateKind::Marker,
        (true, _) => StateKind::Entry,
        (_, true) => StateKind::Lookup,
        (false, false) => StateKind::Rollup,
    }
}

/// A ledger entry.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) generation: i64,
    pub(crate) is_tombstone: bool,
    pub(crate) shares: Vec<Share>,
}

/// What an entry says is counted of its item in one rollup.
#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) aggregate: String,
    /// The rollup's item, shard included.
    pub(crate) target: Target,
    pub(crate) measures: Vec<(String, ExactNumber)>,
}

/// The whole table.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// By `PK` and `SK`.
    pub(crate) entries: BTreeMap<(String, String), Entry>,
    pub(crate) rollups: BTreeMap<Target, Item>,
    pub(crate) remembered: Remembered,
}

impl State {
    pub(crate) fn read(items: Vec<Item>) -> Result<Self, String> {
        let mut state = Self::default();
        for item in items {
            let key = (text(&item, "PK").to_owned(), text(&item, "SK").to_owned());
            match state_kind(&key.0, &key.1) {
                StateKind::Marker => {}
                StateKind::Entry => {
                    state.entries.insert(key, entry(&item)?);
                }
                StateKind::Lookup => state.lookup(&key.0, &item)?,
                StateKind::Rollup => {
                    state.rollups.insert(key, item);
                }
            }
        }
        Ok(state)
    }

    fn lookup(&mut self, partition: &str, item: &Item) -> Result<(), String> {
        let Some(AttributeValue::M(gives)) = item.get("gives") else {
            return Err(format!("{partition} gives nothing"));
        };
        let given = |name: &str| gives.get(name).and_then(AttributeValue::as_text).map(str::to_owned);
        let owner = partition.strip_prefix("LOOKUP#project_owner#").zip(given("owner_id"));
        let city = partition.strip_prefix("LOOKUP#shop_city#").zip(given("city"));
        match (owner, city) {
            (Some((project, owner)), _) => self.remembered.owners.insert(project.to_owned(), owner),
            (_, Some((shop, city))) => self.remembered.cities.insert(shop.to_owned(), city),
            (None, None) => return Err(format!("{partition} is no lookup of the model")),
        };
        Ok(())
    }

    /// A number of a rollup, zero if it is absent.
    pub(crate) fn number(&self, target: &Target, measure: &str) -> ExactNumber {
        self.rollups.get(target).and_then(|item| stored(item, measure)).unwrap_or_default()
    }
}

/// A number of an item.
pub(crate) fn stored(item: &Item, name: &str) -> Option<ExactNumber> {
    item.get(name).and_then(AttributeValue::as_number).map(|number| exact(&number.to_string()))
}

fn integer(item: &Item, name: &str) -> Option<i64> {
    item.get(name)?.as_number()?.to_string().parse().ok()
}

fn entry(item: &Item) -> Result<Entry, String> {
    let broken = || format!("the entry {} {} cannot be read", text(item, "PK"), text(item, "SK"));
    let json: Value = serde_json::from_str(text(item, "contributions")).map_err(|_| broken())?;
    let mut shares = Vec::new();
    for share in json.as_array().ok_or_else(broken)? {
        // Without an aggregate it says only which mirrored rollups the item has left.
        let Some(aggregate) = share[0].as_str() else { continue };
        let measures = share[2].as_object().ok_or_else(broken)?;
        let amount = |value: &Value| value.as_str().map_or_else(|| exact(&value.to_string()), exact);
        let measures: Vec<_> = measures.iter().map(|(name, value)| (name.clone(), amount(value))).collect();
        for target in share[1].as_array().ok_or_else(broken)? {
            let part = |index: usize| target[index].as_str().unwrap_or("").to_owned();
            let shard = target[3].as_i64().map(|shard| format!("#SHARD#{shard}")).unwrap_or_default();
            shares.push(Share {
                aggregate: aggregate.to_owned(),
                target: (part(1) + &shard, part(2)),
                measures: measures.clone(),
            });
        }
    }
    Ok(Entry {
        generation: integer(item, "generation").ok_or_else(broken)?,
        is_tombstone: item.contains_key("expires_at"),
        shares,
    })
}
