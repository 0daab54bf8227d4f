//! The keys and attribute names that Afterwrite defines in the state table. No other file knows them.
//!
//! | item | `PK` | `SK` |
//! |---|---|---|
//! | ledger entry | `LEDGER#<table>#<source PK>` | `<source SK>` or `-` |
//! | expiry marker | as the entry's | `<source SK>#EXPIRED#<position>` |
//! | remembered lookup | `LOOKUP#<name>#<key>` | `-` |
//! | rollup | declared by the model | declared by the model |
//! | job, journal, checkpoint, import ([`OperationItem`]) | `AFTERWRITE#JOB#<id>`, `AFTERWRITE#JOURNAL#<id>`, `AFTERWRITE#CHECKPOINT#<id>`, `AFTERWRITE#IMPORT#` | `-` |
//!
//! A ledger, marker or lookup key that exceeds DynamoDB's limits is truncated and ends in a SHA-256 hash of the whole
//! key. So is a key made of an application's key that looks like a marker's or like a hashed one: no two items ever
//! share a key.

use std::borrow::Cow;
use std::sync::Arc;

use afterwrite_model::effect::{ItemKey, KeyAttribute};
use afterwrite_model::entity::SourceKey;
use afterwrite_model::projection::{LookupKey, MAX_PARTITION_KEY, MAX_SORT_KEY, RollupTarget};
use afterwrite_model::record::{Item, Position};
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use sha2::{Digest as _, Sha256};

pub(crate) const ENTITY_TYPE: &str = "EntityType";
pub(crate) const EXPIRES_AT: &str = "expires_at";
pub(crate) const REV: &str = "rev";
pub(crate) const UPDATED_AT: &str = "updated_at";
pub(crate) const SETTLED: &str = "settled_";
/// Position and reason of a parked item or expiry; the key of the sparse index that lists them.
pub(crate) const BEHIND: &str = "behind";

/// The beginning of the partition keys of entries and markers.
const LEDGER: &str = "LEDGER#";
/// The beginning of the partition keys of operations' items, which the loader reserves.
const OPERATIONS: &str = "AFTERWRITE#";
/// Separates a source item's sort key from the position of its expiry.
const EXPIRED: &str = "#EXPIRED#";
/// Precedes the hash of a truncated key.
const HASHED: &str = "#SHA256#";
/// The sort key of items without a sort key of their own.
const NO_SORT_KEY: &str = "-";

/// An item of the state table that operations keep, next to what the ledger keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationItem {
    /// The state of a job.
    Job,
    /// A part of what a job has found.
    Journal,
    /// The progress of a consumer.
    Checkpoint,
    /// The origin of a state table that was built from table exports: one item, with an empty id.
    Import,
}

impl OperationItem {
    /// The `EntityType` of such items.
    #[must_use]
    pub fn entity_type(self) -> &'static str {
        match self {
            Self::Job => "JOB",
            Self::Journal => "JOURNAL",
            Self::Checkpoint => "CHECKPOINT",
            Self::Import => "IMPORT",
        }
    }

    /// The key of the item with this id in `state_table`.
    #[must_use]
    pub fn key(self, state_table: &Arc<str>, id: &str) -> ItemKey {
        let partition = natural_key([OPERATIONS, self.entity_type(), "#", id].concat(), MAX_PARTITION_KEY);
        StateKeys::new(Arc::clone(state_table)).key(partition, NO_SORT_KEY.to_owned())
    }

    /// An item of this kind without further attributes.
    #[must_use]
    pub fn empty_item(self) -> Item {
        item_of_type(self.entity_type())
    }
}

/// Makes the keys of the state table's items.
#[derive(Clone, Debug)]
pub(crate) struct StateKeys {
    table: Arc<str>,
    partition: Arc<str>,
    sort: Arc<str>,
    names: AttributeNames,
}

/// Attribute names that updates and conditions use, shared so that they are allocated once.
#[derive(Clone, Debug)]
pub(crate) struct AttributeNames {
    pub(crate) entity_type: Arc<str>,
    pub(crate) expires_at: Arc<str>,
    pub(crate) rev: Arc<str>,
    pub(crate) updated_at: Arc<str>,
}

impl StateKeys {
    pub(crate) fn new(table: Arc<str>) -> Self {
        let names = AttributeNames {
            entity_type: Arc::from(ENTITY_TYPE),
            expires_at: Arc::from(EXPIRES_AT),
            rev: Arc::from(REV),
            updated_at: Arc::from(UPDATED_AT),
        };
        Self { table, partition: Arc::from("PK"), sort: Arc::from("SK"), names }
    }

    pub(crate) fn names(&self) -> &AttributeNames {
        &self.names
    }

    pub(crate) fn entry(&self, model: &Model, source: &SourceKey<'_>) -> Result<ItemKey> {
        let sort = source_sort(source);
        // A natural key that contains the separator could be the key of a marker.
        let sort = if sort.contains(EXPIRED) {
            hashed_key(sort, sort, MAX_SORT_KEY)
        } else {
            natural_key(sort.to_owned(), MAX_SORT_KEY)
        };
        Ok(self.key(ledger_partition(model, source)?, sort))
    }

    /// The source item of an entry with this key; `None` if the key is hashed, or of no table of the model.
    pub(crate) fn source(&self, model: &Model, partition: &str, sort: &str) -> Option<SourceKey<'static>> {
        let rest = partition.strip_prefix(LEDGER)?;
        let (name, partition) = rest.split_once('#')?;
        let index = model.tables.iter().position(|table| *table.name == *name)?;
        if partition.contains(HASHED) || sort.contains(HASHED) {
            return None;
        }
        let has_sort_key = model.tables.get(index)?.sort_key.is_some();
        Some(SourceKey {
            table: index,
            partition: Cow::Owned(partition.to_owned()),
            sort: has_sort_key.then(|| Cow::Owned(sort.to_owned())),
        })
    }

    pub(crate) fn marker(
        &self,
        model: &Model,
        source: &SourceKey<'_>,
        position: &Position<'_>,
    ) -> Result<ItemKey> {
        let (sort, position) = (source_sort(source), position.to_text());
        let marker = [sort, EXPIRED, &position].concat();
        // The hash of an entry's key is made of the key alone; that of a marker's starts with the separator.
        let marker = if marker.len() > MAX_SORT_KEY || sort.contains(HASHED) {
            hashed_key(&marker, &[EXPIRED, &marker].concat(), MAX_SORT_KEY)
        } else {
            marker
        };
        Ok(self.key(ledger_partition(model, source)?, marker))
    }

    pub(crate) fn lookup(&self, model: &Model, lookup_key: &LookupKey<'_>) -> Result<ItemKey> {
        let lookup = model.lookups.get(lookup_key.lookup).ok_or_else(|| not_in_model("lookup"))?;
        let partition = ["LOOKUP#", &lookup.name, "#", &lookup_key.key].concat();
        Ok(self.key(natural_key(partition, MAX_PARTITION_KEY), NO_SORT_KEY.to_owned()))
    }

    /// A rollup's key. It is never truncated, because readers must find it; `None` if it is empty or exceeds DynamoDB's
    /// limits.
    pub(crate) fn rollup(&self, target: &RollupTarget) -> Option<ItemKey> {
        target.has_valid_key().then(|| self.key(target.partition_key(), target.sort.as_ref().to_owned()))
    }

    /// The key of any item of the state table.
    pub(crate) fn item(&self, partition: &str, sort: &str) -> ItemKey {
        self.key(partition.to_owned(), sort.to_owned())
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

/// A short name of a rollup, for the copies of its measures: the beginning of the SHA-256 hash of its key.
pub(crate) fn rollup_origin(target: &RollupTarget) -> String {
    let hash = Sha256::digest([&target.partition_key(), "\0", &*target.sort].concat().as_bytes());
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// An item with only the `EntityType` attribute.
pub(crate) fn item_of_type(entity_type: &'static str) -> Item {
    // `Item::from` would sort a list first.
    let mut item = Item::new();
    item.insert(Cow::Borrowed(ENTITY_TYPE), entity_type.into());
    item
}

fn ledger_partition(model: &Model, source: &SourceKey<'_>) -> Result<String> {
    let table = model.tables.get(source.table).ok_or_else(|| not_in_model("table"))?;
    Ok(natural_key([LEDGER, &table.name, "#", &source.partition].concat(), MAX_PARTITION_KEY))
}

fn source_sort<'k>(source: &'k SourceKey<'_>) -> &'k str {
    source.sort.as_deref().unwrap_or(NO_SORT_KEY)
}

/// The key itself; hashed if it exceeds `limit` bytes or looks like a hashed key.
fn natural_key(key: String, limit: usize) -> String {
    if key.len() <= limit && !key.contains(HASHED) { key } else { hashed_key(&key, &key, limit) }
}

/// The beginning of `key` and the hash of `whole`.
fn hashed_key(key: &str, whole: &str, limit: usize) -> String {
    let hash = Sha256::digest(whole.as_bytes());
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let kept = key.floor_char_boundary(limit - hex.len() - HASHED.len());
    [key.get(..kept).unwrap_or(key), HASHED, &hex].concat()
}

fn not_in_model(part: &'static str) -> Error {
    Error::new(ErrorKind::State, format!("a key refers to a {part} that the model does not have"))
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_source_of_an_entry_follows_from_its_key_unless_the_key_is_hashed() {
        let model = Model::load(Model::DEFAULT_NAME).unwrap();
        let keys = StateKeys::new(Arc::from("state"));
        let long = "k".repeat(1_100);
        for (sort, is_known) in [("a", true), ("-", true), (long.as_str(), false), ("a#SHA256#b", false)] {
            let source =
                SourceKey { table: 0, partition: Cow::Borrowed("P#x"), sort: Some(Cow::Borrowed(sort)) };
            let key = keys.entry(&model, &source).unwrap();
            let sort = key.sort.unwrap().value;
            let found = keys.source(&model, key.partition.value.as_text().unwrap(), sort.as_text().unwrap());
            assert_eq!(found, is_known.then_some(source));
        }
        assert_eq!(keys.source(&model, "LEDGER#Other#P", "a"), None);
    }

    #[test]
    fn the_items_of_operations_name_their_kind() {
        use OperationItem::{Checkpoint, Import, Job, Journal};
        let kinds = [(Job, "JOB"), (Journal, "JOURNAL"), (Checkpoint, "CHECKPOINT"), (Import, "IMPORT")];
        for (kind, name) in kinds {
            let key = kind.key(&Arc::from("state"), "x");
            assert_eq!(key.partition.value.as_text(), Some(&*format!("AFTERWRITE#{name}#x")));
            assert_eq!(kind.empty_item(), Item::from([(Cow::Borrowed(ENTITY_TYPE), name.into())]));
        }
    }

    #[test]
    fn no_model_may_have_keys_like_those_of_operations() {
        let state_table = Arc::from("state");
        use OperationItem::{Checkpoint, Import, Job, Journal};
        for kind in [Job, Journal, Checkpoint, Import] {
            let key = kind.key(&state_table, "x");
            let partition = key.partition.value.as_text().unwrap();
            let model = format!(
                "name = \"m\"\ngeneration = 1\ntables.t.key = [\"pk\"]\nentities.e.key = {{ pk = \"E#{{e}}\" }}\n\
                 rollups.r.key = {{ PK = \"{partition}{{e}}\", SK = \"R\" }}\n[[aggregates]]\nname = \"a\"\nof = \"e\"\ninto = \"r\"\nmeasures.n = \"count\"\n"
            );
            let problems = Model::parse(&model, "m.toml").unwrap_err().to_string();
            assert!(problems.contains("is reserved"), "{problems}");
        }
    }

    #[test]
    fn entries_and_markers_of_any_source_keys_never_share_a_key() {
        let model = Model::load(Model::DEFAULT_NAME).unwrap();
        let keys = StateKeys::new(Arc::from("state"));
        let positions =
            [Position::start_of("2026-02-06T10:00:00.000"), Position::start_of("2026-02-07T10:00:00.000")];
        let long = "k".repeat(1_100);
        let mut sorts: Vec<String> = ["a", "a#EXPIRED#b", "a#SHA256#b", &long].map(str::to_owned).to_vec();
        // Keys that an application would have to copy from the state table.
        let copied = |source: &str, keys: &StateKeys| {
            let source =
                SourceKey { table: 0, partition: Cow::Borrowed("P"), sort: Some(Cow::Borrowed(source)) };
            let entry = keys.entry(&model, &source).unwrap();
            let markers = positions.iter().map(|position| keys.marker(&model, &source, position).unwrap());
            let all = std::iter::once(entry).chain(markers).map(|key| key.sort.unwrap().value);
            all.map(|sort| sort.as_text().unwrap().to_owned()).collect::<Vec<_>>()
        };
        for _ in 0..2 {
            let stored: Vec<String> = sorts.iter().flat_map(|sort| copied(sort, &keys)).collect();
            sorts.extend(stored);
            sorts = sorts.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        }
        let stored: Vec<String> = sorts.iter().flat_map(|sort| copied(sort, &keys)).collect();
        assert!(stored.iter().all(|sort| sort.len() <= MAX_SORT_KEY));
        assert_eq!(stored.iter().collect::<BTreeSet<_>>().len(), stored.len(), "{} source keys", sorts.len());
    }
}
