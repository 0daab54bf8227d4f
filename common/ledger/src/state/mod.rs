//! The stored items: one file for each kind of item of the state table, with its key, attributes, codec and conditions. No other file
//! spells an attribute of them.
//!
//! | item | file | `PK` | `SK` |
//! |---|---|---|---|
//! | ledger entry | `entry.rs` | `LEDGER#<table>#<source PK>` | `<source SK>` or `-` |
//! | expiry marker | `marker.rs` | as the entry's | `<source SK>#EXPIRED#<position>` |
//! | remembered lookup | `lookup.rs` | `LOOKUP#<name>#<key>` | `-` |
//! | rollup | `rollup.rs` | declared by the model | declared by the model |
//! | job | `job.rs` | `AFTERWRITE#JOB#<id>` | `-` |
//! | list of jobs | `job_list.rs` | `AFTERWRITE#JOB#` | `-` |
//! | units of a job | `units.rs` | `AFTERWRITE#JOB#<id>#<number>` | `-` |
//! | journal of a job | `journal.rs` | `AFTERWRITE#JOURNAL#<id>#<number>` | `-` |
//! | checkpoint of a consumer | `checkpoint.rs` | `AFTERWRITE#CHECKPOINT#<name>#<table>` | `<shard>`, or `-` for the lease |
//! | import | `import.rs` | `AFTERWRITE#IMPORT#` | `-` |
//! | heartbeat, if rollups are sources | [`afterwrite_model::heartbeat`] | `AFTERWRITE#HEARTBEAT` | `AFTERWRITE#HEARTBEAT` |
//!
//! Attributes of entries have files of their own: what is counted (`contributions.rs`), the mark of a record that could not be counted
//! (`parked.rs`), and a change of the item's life without a record (`life.rs`). `unreadable.rs` has an entry that something else changed.
//!
//! A ledger, marker or lookup key that exceeds DynamoDB's limits is truncated and ends in a SHA-256 hash of the whole
//! key. So is a key made of an application's key that looks like a marker's or like a hashed one: no two items ever
//! share a key.

pub mod checkpoint;
mod contributions;
pub(crate) mod entry;
pub mod import;
pub mod job;
pub mod job_list;
pub mod journal;
pub(crate) mod life;
pub(crate) mod lookup;
pub(crate) mod marker;
pub(crate) mod parked;
pub(crate) mod rollup;
pub mod units;
pub(crate) mod unreadable;

pub use self::entry::{AS_OF, CONTRIBUTIONS, FINGERPRINT, GENERATION, POSITION};
pub use self::life::UNRECORDED;
pub use self::lookup::OUTPUTS;
pub use self::rollup::{SETTLED, rank_write, rollup_correction, settled_name, stored_rollup_origin};

use std::borrow::Cow;
use std::sync::Arc;

use afterwrite_model::effect::{AttributeChange, ItemKey, KeyAttribute};
use afterwrite_model::projection::MAX_PARTITION_KEY;
use afterwrite_model::record::{AttributePath, AttributeValue, Decimal, Item, Timestamp};
use afterwrite_model::{Error, ErrorKind, Result, hex};
use sha2::{Digest as _, Sha256};

/// The partition key.
pub const PARTITION_KEY: &str = "PK";
/// The sort key.
pub const SORT_KEY: &str = "SK";
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

/// The beginning of the partition keys of entries and markers.
pub const LEDGER_PREFIX: &str = "LEDGER#";
/// The beginning of the partition keys of remembered lookups.
pub const LOOKUP_PREFIX: &str = "LOOKUP#";

/// Precedes the hash of a truncated key.
const HASHED: &str = "#SHA256#";
/// The sort key of items without a sort key of their own.
const NO_SORT_KEY: &str = "-";

/// Whether an item of the state table has this `EntityType`.
#[must_use]
pub fn is_of_type(item: &Item, entity_type: &str) -> bool {
    item.get(ENTITY_TYPE).and_then(AttributeValue::as_text) == Some(entity_type)
}

/// `PK` and `SK` of an item of the state table.
#[must_use]
pub fn key_texts(item: &Item) -> Option<(&str, &str)> {
    let text = |name: &str| item.get(name).and_then(AttributeValue::as_text);
    text(PARTITION_KEY).zip(text(SORT_KEY))
}

/// The key of an item in the state table `table`.
#[must_use]
pub fn key_in(table: &Arc<str>, item: &Item) -> Option<ItemKey> {
    key_texts(item).map(|(partition, sort)| StateKeys::new(Arc::clone(table)).item(partition, sort))
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
        Self { table, partition: Arc::from(PARTITION_KEY), sort: Arc::from(SORT_KEY), names }
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

/// The key that an item was read by. The write that follows the read takes it, so that it is not made twice.
#[derive(Debug, Default)]
pub(crate) enum ReadKey {
    /// The item was not read yet, or a write has taken the key.
    #[default]
    Unmade,
    Made(ItemKey),
}

impl ReadKey {
    /// The key, which `make` makes again after it was taken.
    pub(crate) fn take_or_make(&mut self, make: impl FnOnce() -> Result<ItemKey>) -> Result<ItemKey> {
        match std::mem::take(self) {
            Self::Made(key) => Ok(key),
            Self::Unmade => make(),
        }
    }
}

/// The key of an item without a sort key of its own.
fn unsorted_key(state_table: &Arc<str>, prefix: &str, id: &str) -> ItemKey {
    let partition = natural_key([prefix, id].concat(), MAX_PARTITION_KEY);
    StateKeys::new(Arc::clone(state_table)).key(partition, NO_SORT_KEY.to_owned())
}

/// An item with only the `EntityType` attribute.
fn item_of_type(entity_type: &'static str) -> Item {
    // `Item::from` would sort a list first.
    let mut item = Item::new();
    item.insert(Cow::Borrowed(ENTITY_TYPE), entity_type.into());
    item
}

fn set(name: &str, value: AttributeValue<'static>) -> AttributeChange {
    AttributeChange::Set(AttributePath::from(name), value)
}

/// A time in epoch milliseconds.
fn time_value(time: Timestamp) -> AttributeValue<'static> {
    Decimal::from(time.epoch_ms()).into()
}

fn number_value(number: u64) -> AttributeValue<'static> {
    Decimal::from(i64::try_from(number).unwrap_or(i64::MAX)).into()
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
    use std::collections::BTreeSet;

    use afterwrite_model::entity::SourceKey;
    use afterwrite_model::table::{Model, STATE_ATTRIBUTES};

    use super::entry::LedgerEntry;
    use super::*;

    /// The constants of this folder that name an attribute, in its sources: not a type, a prefix or a separator.
    fn attribute_constants() -> BTreeSet<String> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/state");
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        // A folder has tests of the source with its name.
        let sources = paths.filter(|path| path.is_file()).map(|path| std::fs::read_to_string(path).unwrap());
        let constant = |line: &str| {
            let (name, value) = line.split_once("const ")?.1.split_once(": &str = \"")?;
            let value = value.strip_suffix("\";")?;
            let is_attribute = value.chars().all(|character| character.is_alphabetic() || character == '_');
            let is_other = name.ends_with("_TYPE") && value.to_uppercase() == value || value.ends_with('_');
            (is_attribute && !is_other).then(|| value.to_owned())
        };
        sources.flat_map(|source| source.lines().filter_map(constant).collect::<Vec<_>>()).collect()
    }

    /// The model refuses the index of a rank whose measure has the name of another attribute of the state table.
    #[test]
    fn the_model_knows_every_attribute_of_the_state_table() {
        let known: BTreeSet<String> = STATE_ATTRIBUTES.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(known, attribute_constants());
    }

    #[test]
    fn no_model_may_have_keys_like_those_of_operations() {
        let state_table = Arc::from("state");
        let consumer = checkpoint::ConsumerCheckpoints::new(Arc::clone(&state_table), "x", "y");
        let keys = [
            (job::key(&state_table, "x"), "AFTERWRITE#JOB#x"),
            (units::key(&state_table, "x", 1), "AFTERWRITE#JOB#x#000001"),
            (journal::key(&state_table, "x", 1), "AFTERWRITE#JOURNAL#x#000001"),
            (consumer.lease_key(), "AFTERWRITE#CHECKPOINT#x#y"),
            (import::ImportTimes::key(&state_table), "AFTERWRITE#IMPORT#"),
        ];
        for (key, expected) in keys {
            let partition = key.partition.value.as_text().unwrap();
            assert_eq!((partition, key.sort.unwrap().value.as_text().unwrap()), (expected, "-"));
            let model = format!(
                "name = \"m\"\ngeneration = 1\ntables.t.key = [\"pk\"]\nentities.e.key = {{ pk = \"E#{{e}}\" }}\n\
                 rollups.r.key = {{ PK = \"{partition}{{e}}\", SK = \"R\" }}\n[[aggregates]]\nname = \"a\"\nof = \"e\"\ninto = \"r\"\nmeasures.n = \"count\"\n"
            );
            let problems = Model::parse(&model, "m.toml").unwrap_err().to_string();
            assert!(problems.contains("is reserved"), "{problems}");
        }
    }

    /// The sort key of a rank's index is a number: DynamoDB would refuse an item that has a text under its name.
    #[test]
    fn no_model_may_rank_an_attribute_of_these_items() {
        let sources = [
            include_str!("mod.rs"),
            include_str!("checkpoint.rs"),
            include_str!("entry.rs"),
            include_str!("import.rs"),
            include_str!("job.rs"),
            include_str!("journal.rs"),
            include_str!("life.rs"),
            include_str!("lookup.rs"),
            include_str!("units.rs"),
        ];
        let lines = sources.iter().flat_map(|source| source.lines());
        let texts = lines.filter_map(|line| line.split_once(": &str = \"")?.1.split_once('"'));
        let is_attribute = |name: &&str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        let names: Vec<&str> = texts.map(|(name, _)| name).filter(is_attribute).collect();
        assert!(names.len() > 30, "{names:?}");
        for name in names {
            let model = format!(
                "name = \"m\"\ngeneration = 1\ntables.t.key = [\"pk\"]\nentities.e.key = {{ pk = \"E#{{e}}\" }}\n\
                 [rollups.r]\nkey = {{ PK = \"R#{{e}}\", SK = \"R\" }}\nrank.{name} = {{}}\n[[aggregates]]\nname = \"a\"\nof = \"e\"\ninto = \"r\"\nmeasures.{name} = \"count\"\n"
            );
            let problems = Model::parse(&model, "m.toml").expect_err(name).to_string();
            assert!(problems.contains("AW023"), "{problems}");
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
