//! The stored items: one file for each kind of item of the state table, with its key, attributes, codec and conditions. No other file
//! spells an attribute of them.
//!
//! | item | file | `PK` | `SK` |
//! |---|---|---|---|
//! | ledger entry | `entry.rs` | `LEDGER#<table>#<source PK>` | `<source SK>` or `-` |
//! | expiry marker | `marker.rs` | as the entry's | `<source SK>#EXPIRED#<position>` |
//! | remembered lookup | `lookup.rs` | `LOOKUP#<name>#<key>` | `-` |
//! | rollup | `rollup.rs` | declared by the model | declared by the model |
//! | job, journal, checkpoint, import ([`OperationItem`]) | the operation's | `AFTERWRITE#JOB#<id>`, `AFTERWRITE#JOURNAL#<id>`, `AFTERWRITE#CHECKPOINT#<id>`, `AFTERWRITE#IMPORT#` | `-` |
//!
//! A ledger, marker or lookup key that exceeds DynamoDB's limits is truncated and ends in a SHA-256 hash of the whole
//! key. So is a key made of an application's key that looks like a marker's or like a hashed one: no two items ever
//! share a key.

mod contributions;
pub(crate) mod entry;
pub(crate) mod lookup;
pub(crate) mod marker;
pub(crate) mod rollup;

pub use self::entry::{AS_OF, CONTRIBUTIONS, FINGERPRINT, GENERATION, POSITION};
pub use self::lookup::OUTPUTS;
pub use self::rollup::{SETTLED, settled_name};

use std::borrow::Cow;
use std::sync::Arc;

use afterwrite_model::effect::{ItemKey, KeyAttribute};
use afterwrite_model::projection::MAX_PARTITION_KEY;
use afterwrite_model::record::{AttributeValue, Item};
use afterwrite_model::{Error, ErrorKind, hex};
use sha2::{Digest as _, Sha256};

/// The kind of an item.
pub const ENTITY_TYPE: &str = "EntityType";
/// The epoch second after which DynamoDB may delete an item.
pub const EXPIRES_AT: &str = "expires_at";
/// The revision of an entry or a rollup: grows with every write.
pub const REV: &str = "rev";
/// The newest creation time of the records that changed a rollup.
pub const UPDATED_AT: &str = "updated_at";
/// Position and reason of a parked item or expiry; the key of the sparse index that lists them.
pub const BEHIND: &str = "behind";

/// The `EntityType` of entries and markers.
pub const LEDGER_TYPE: &str = "LEDGER";
/// The `EntityType` of remembered lookups.
pub const LOOKUP_TYPE: &str = "LOOKUP";
/// The `EntityType` of rollups.
pub const ROLLUP_TYPE: &str = "ROLLUP";

/// The beginning of the partition keys of operations' items, which the loader reserves.
const OPERATIONS: &str = "AFTERWRITE#";
/// Precedes the hash of a truncated key.
const HASHED: &str = "#SHA256#";
/// The sort key of items without a sort key of their own.
const NO_SORT_KEY: &str = "-";

/// Whether an item of the state table has this `EntityType`.
#[must_use]
pub fn is_of_type(item: &Item, entity_type: &str) -> bool {
    item.get(ENTITY_TYPE).and_then(AttributeValue::as_text) == Some(entity_type)
}

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

/// An item with only the `EntityType` attribute.
fn item_of_type(entity_type: &'static str) -> Item {
    // `Item::from` would sort a list first.
    let mut item = Item::new();
    item.insert(Cow::Borrowed(ENTITY_TYPE), entity_type.into());
    item
}

/// The key itself; hashed if it exceeds `limit` bytes or looks like a hashed key.
fn natural_key(key: String, limit: usize) -> String {
    if key.len() <= limit && !key.contains(HASHED) { key } else { hashed_key(&key, &key, limit) }
}

/// The beginning of `key` and the hash of `whole`.
fn hashed_key(key: &str, whole: &str, limit: usize) -> String {
    let hash = hex(&Sha256::digest(whole.as_bytes()), 32);
    let kept = key.floor_char_boundary(limit - hash.len() - HASHED.len());
    [key.get(..kept).unwrap_or(key), HASHED, &hash].concat()
}

fn not_in_model(part: &'static str) -> Error {
    Error::new(ErrorKind::State, format!("a key refers to a {part} that the model does not have"))
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use afterwrite_model::entity::SourceKey;
    use afterwrite_model::table::Model;

    use super::entry::LedgerEntry;
    use super::*;

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
    fn the_source_of_an_entry_follows_from_its_key_unless_the_key_is_hashed() {
        let model = Model::load(Model::DEFAULT_NAME).unwrap();
        let keys = StateKeys::new(Arc::from("state"));
        let long = "k".repeat(1_100);
        for (sort, is_known) in [("a", true), ("-", true), (long.as_str(), false), ("a#SHA256#b", false)] {
            let source =
                SourceKey { table: 0, partition: Cow::Borrowed("P#x"), sort: Some(Cow::Borrowed(sort)) };
            let key = LedgerEntry::key(&keys, &model, &source).unwrap();
            let sort = key.sort.unwrap().value;
            let found =
                LedgerEntry::source(&model, key.partition.value.as_text().unwrap(), sort.as_text().unwrap());
            assert_eq!(found, is_known.then_some(source));
        }
        assert_eq!(LedgerEntry::source(&model, "LEDGER#Other#P", "a"), None);
    }
}
