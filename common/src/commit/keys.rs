//! The keys and attribute names that Afterwrite defines in the state table. No other file knows them.
//!
//! | item | `PK` | `SK` |
//! |---|---|---|
//! | ledger entry | `LEDGER#<table>#<source PK>` | `<source SK>` or `-` |
//! | expiry marker | as the entry's | `<source SK>#EXPIRED#<position>` |
//! | remembered lookup | `LOOKUP#<name>#<key>` | `-` |
//! | rollup | declared by the model | declared by the model |
//!
//! A ledger, marker or lookup key that exceeds DynamoDB's limits is truncated and ends in a SHA-256 hash of the whole
//! key.

use std::borrow::Cow;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::effect::{ItemKey, KeyAttribute};
use crate::entity::SourceKey;
use crate::projection::{LookupKey, RollupTarget};
use crate::record::{Item, Position};
use crate::table::Model;

pub(super) const ENTITY_TYPE: &str = "EntityType";
pub(super) const EXPIRES_AT: &str = "expires_at";
pub(super) const REV: &str = "rev";
pub(super) const UPDATED_AT: &str = "updated_at";
pub(super) const SETTLED: &str = "settled_";

/// DynamoDB's limits on key values, in bytes.
const MAX_PARTITION_KEY: usize = 2048;
const MAX_SORT_KEY: usize = 1024;
/// The sort key of items without a sort key of their own.
const NO_SORT_KEY: &str = "-";

/// Makes the keys of the state table's items.
#[derive(Clone, Debug)]
pub(super) struct StateKeys {
    table: Arc<str>,
    partition: Arc<str>,
    sort: Arc<str>,
    names: AttributeNames,
}

/// Attribute names that updates and conditions use, shared so that they are allocated once.
#[derive(Clone, Debug)]
pub(super) struct AttributeNames {
    pub(super) entity_type: Arc<str>,
    pub(super) expires_at: Arc<str>,
    pub(super) rev: Arc<str>,
    pub(super) updated_at: Arc<str>,
}

impl StateKeys {
    pub(super) fn new(table: Arc<str>) -> Self {
        let names = AttributeNames {
            entity_type: Arc::from(ENTITY_TYPE),
            expires_at: Arc::from(EXPIRES_AT),
            rev: Arc::from(REV),
            updated_at: Arc::from(UPDATED_AT),
        };
        Self { table, partition: Arc::from("PK"), sort: Arc::from("SK"), names }
    }

    pub(super) fn names(&self) -> &AttributeNames {
        &self.names
    }

    pub(super) fn entry(&self, model: &Model, source: &SourceKey<'_>) -> ItemKey {
        self.key(ledger_partition(model, source), truncate_key(source_sort(source).to_owned(), MAX_SORT_KEY))
    }

    pub(super) fn marker(&self, model: &Model, source: &SourceKey<'_>, position: &Position<'_>) -> ItemKey {
        let sort = [source_sort(source), "#EXPIRED#", &position.to_text()].concat();
        self.key(ledger_partition(model, source), truncate_key(sort, MAX_SORT_KEY))
    }

    pub(super) fn lookup(&self, model: &Model, lookup_key: &LookupKey<'_>) -> ItemKey {
        let name = model.lookups.get(lookup_key.lookup).map_or("?", |lookup| &*lookup.name);
        self.key(
            truncate_key(["LOOKUP#", name, "#", &lookup_key.key].concat(), MAX_PARTITION_KEY),
            NO_SORT_KEY.to_owned(),
        )
    }

    /// A rollup's key. It is never truncated, because readers must find it; `None` if it is empty or exceeds DynamoDB's
    /// limits.
    pub(super) fn rollup(&self, target: &RollupTarget) -> Option<ItemKey> {
        let partition = target.partition_key();
        let fits = (1..=MAX_PARTITION_KEY).contains(&partition.len())
            && (1..=MAX_SORT_KEY).contains(&target.sort.len());
        fits.then(|| self.key(partition, target.sort.as_ref().to_owned()))
    }

    fn key(&self, partition: String, sort: String) -> ItemKey {
        let attribute =
            |name: &Arc<str>, value: String| KeyAttribute { name: Arc::clone(name), value: value.into() };
        ItemKey {
            table: Arc::clone(&self.table),
            partition: attribute(&self.partition, partition),
            sort: Some(attribute(&self.sort, sort)),
        }
    }
}

/// An item with only the `EntityType` attribute.
pub(super) fn item_of_type(entity_type: &'static str) -> Item {
    // `Item::from` would sort a list first.
    let mut item = Item::new();
    item.insert(Cow::Borrowed(ENTITY_TYPE), entity_type.into());
    item
}

fn ledger_partition(model: &Model, source: &SourceKey<'_>) -> String {
    let table = model.tables.get(source.table).map_or("?", |table| &*table.name);
    truncate_key(["LEDGER#", table, "#", &source.partition].concat(), MAX_PARTITION_KEY)
}

fn source_sort<'k>(source: &'k SourceKey<'_>) -> &'k str {
    source.sort.as_deref().unwrap_or(NO_SORT_KEY)
}

/// The key, or, if it exceeds `limit` bytes, its beginning and a hash of the whole key.
fn truncate_key(key: String, limit: usize) -> String {
    if key.len() <= limit {
        return key;
    }
    let hash = Sha256::digest(key.as_bytes());
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let kept = key.floor_char_boundary(limit - hex.len() - "#SHA256#".len());
    format!("{}#SHA256#{hex}", key.get(..kept).unwrap_or_default())
}
