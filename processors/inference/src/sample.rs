//! The sample of a table that a model is inferred from.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite_model::entity::SourceKey;
use afterwrite_model::record::{AttributeValue, Item};
use afterwrite_model::table::KeyType;
use afterwrite_model::{Error, ErrorKind, Result};

use super::kind_words::{folded, names_kind};
use super::texts::text_of;

/// Pairs of names that partition and sort keys usually have, in lower case.
const USUAL_KEYS: [(&str, &str); 7] = [
    ("pk", "sk"),
    ("_pk", "_sk"),
    ("partitionkey", "sortkey"),
    ("partition_key", "sort_key"),
    ("hashkey", "rangekey"),
    ("hash_key", "range_key"),
    ("hk", "rk"),
];

/// A key attribute of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyAttribute {
    /// Its name.
    pub name: String,
    /// Its type.
    pub key_type: KeyType,
}

/// A global secondary index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledIndex {
    /// Its name.
    pub name: String,
    /// The names of its key attributes.
    pub keys: Vec<String>,
}

/// A table, and some of its items.
#[derive(Clone, Debug)]
pub struct TableSample {
    /// The table's name.
    pub table: String,
    /// The partition key and, if the table has one, the sort key.
    pub key: Vec<KeyAttribute>,
    /// Whether the key is a guess from the items.
    pub has_guessed_key: bool,
    /// The global secondary indexes, as far as they are known.
    pub indexes: Vec<SampledIndex>,
    /// The items.
    pub items: Vec<Item>,
}

impl TableSample {
    /// The sample without Afterwrite's heartbeat, which is not an item of the application.
    #[must_use]
    pub fn without_heartbeat(mut self) -> Self {
        let names: Vec<String> = self.key_names().map(str::to_owned).collect();
        self.items.retain(|item| {
            let mut texts = names.iter().map(|name| item.get(name.as_str()).and_then(text_of));
            let key = SourceKey {
                table: 0,
                partition: texts.next().flatten().unwrap_or_default(),
                sort: texts.next().flatten(),
            };
            !key.is_heartbeat()
        });
        self
    }

    /// A sentence about a key that is a guess.
    #[must_use]
    pub fn key_guess(&self) -> String {
        let names: Vec<&str> = self.key_names().collect();
        format!("guessed: the key attributes are {}; --key NAME[,NAME] states them", names.join(", "))
    }

    /// The names of the key attributes.
    pub(super) fn key_names(&self) -> impl Iterator<Item = &str> {
        self.key.iter().map(|key| key.name.as_str())
    }

    /// The items with these indexes.
    pub(super) fn items_at(&self, members: &[usize]) -> impl Iterator<Item = &Item> {
        members.iter().filter_map(|index| self.items.get(*index))
    }
}

/// Names of attributes that identify an item alone, the best first, in lower case. Other names end with `id`.
const USUAL_IDS: [&str; 9] = ["pk", "id", "email", "key", "uuid", "guid", "hash", "slug", "sku"];

/// Names of the second attribute of a key, the best first, in lower case. Names that end with `id` are preferred to times.
const USUAL_SECONDS: [&str; 8] = ["sk", "createdat", "at", "timestamp", "time", "ts", "date", "seq"];

/// A guess of the key attributes of items from a file, which does not name them: attributes that every item has and whose values identify
/// it. Names that keys usually have are preferred.
///
/// # Errors
/// `Configuration` if no one or two attributes do.
pub fn infer_key(items: &[Item]) -> Result<Vec<KeyAttribute>> {
    let candidates = candidates(items);
    let usual = USUAL_KEYS.iter().find_map(|(partition, sort)| {
        let named =
            |name: &str| candidates.iter().find(|key| folded(&key.name).ends_with(&folded(name))).cloned();
        Some(vec![named(partition)?, named(sort)?])
    });
    let found = usual.or_else(|| guesses(&candidates).find(|key| identifies(items, key)));
    found.ok_or_else(|| {
        let error =
            Error::new(ErrorKind::Configuration, "the key attributes cannot be inferred from the items");
        match stray_item(items) {
            Some(StrayItem { number, attribute }) => error
                .with("item", number.to_string())
                .with("reason", format!("it has no `{attribute}`, which nearly all items have"))
                .hint("Remove what is not an item of the table, or name the key with --key PARTITION[,SORT]"),
            None => error.hint("Name them with --key PARTITION[,SORT]"),
        }
    })
}

/// The key attributes with these names.
///
/// # Errors
/// `Configuration` if an item lacks one, or has one of a type that keys cannot have.
pub fn named_key(items: &[Item], names: &[String]) -> Result<Vec<KeyAttribute>> {
    let candidates = candidates(items);
    let key = names.iter().map(|name| {
        let known = candidates.iter().find(|key| key.name == *name).cloned();
        if items.is_empty() {
            return Ok(KeyAttribute { name: name.clone(), key_type: KeyType::Text });
        }
        known.ok_or_else(|| {
            let error =
                Error::new(ErrorKind::Configuration, "not every item has this key attribute with one type")
                    .with("attribute", name.clone());
            match first_without(items, name) {
                Some(number) => error.with("first item without it", number.to_string()),
                None => error,
            }
            .hint("Name the partition key and the sort key of the table: --key PARTITION[,SORT]")
        })
    });
    key.collect()
}

/// An item that lacks an attribute that nearly all items have.
struct StrayItem<'i> {
    /// Its place in the input, from 1.
    number: usize,
    attribute: &'i str,
}

/// The first item that lacks an attribute that nearly all items have and that may be part of the key.
fn stray_item(items: &[Item]) -> Option<StrayItem<'_>> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, value) in items.iter().flat_map(|item| item.iter()) {
        *counts.entry(name).or_default() += usize::from(key_type(value).is_some());
    }
    counts.retain(|_, count| *count < items.len() && *count * 20 >= items.len() * 19);
    let attribute = counts.into_keys().min_by_key(|name| {
        let rank = id_rank(name);
        (rank.is_none(), rank)
    })?;
    Some(StrayItem { number: first_without(items, attribute)?, attribute })
}

/// The number, from 1, of the first item that lacks this attribute, or has it with a type that keys cannot have.
fn first_without(items: &[Item], name: &str) -> Option<usize> {
    let lacks = |item: &Item| item.get(name).and_then(key_type).is_none();
    items.iter().position(lacks).map(|index| index + 1)
}

/// Keys of one and of two attributes, the most usual first.
fn guesses(candidates: &[KeyAttribute]) -> impl Iterator<Item = Vec<KeyAttribute>> {
    let mut ids: Vec<&KeyAttribute> = candidates.iter().filter(|key| id_rank(&key.name).is_some()).collect();
    ids.sort_by_key(|key| id_rank(&key.name));
    let mut seconds: Vec<&KeyAttribute> =
        candidates.iter().filter(|key| second_rank(&key.name).is_some()).collect();
    seconds.sort_by_key(|key| second_rank(&key.name));
    // Times are rarely partition keys.
    let mut firsts: Vec<&KeyAttribute> = candidates.iter().collect();
    firsts.sort_by_key(|key| (is_time_name(&key.name), !names_kind(&key.name)));
    let pairs = |firsts: &[&KeyAttribute], seconds: &[&KeyAttribute]| -> Vec<Vec<KeyAttribute>> {
        let pairs = firsts.iter().flat_map(|first| {
            let others = seconds.iter().filter(|second| second.name != first.name);
            others.map(|second| vec![(*first).clone(), (*second).clone()]).collect::<Vec<_>>()
        });
        pairs.collect()
    };
    let (of_ids, of_others, of_all) =
        (pairs(&ids, &seconds), pairs(&firsts, &seconds), pairs(&firsts, &firsts));
    let one = |keys: &[&KeyAttribute]| keys.iter().map(|key| vec![(*key).clone()]).collect::<Vec<_>>();
    let (one_id, one_of_all) = (one(&ids), one(&firsts));
    one_id.into_iter().chain(of_ids).chain(of_others).chain(one_of_all).chain(of_all)
}

fn id_rank(name: &str) -> Option<(usize, usize)> {
    let plain = folded(name);
    let usual = USUAL_IDS.iter().position(|usual| *usual == plain);
    let is_id = plain.ends_with("id") || plain.ends_with("email");
    usual.or(is_id.then_some(USUAL_IDS.len())).map(|rank| (rank, name.len()))
}

fn second_rank(name: &str) -> Option<(usize, usize)> {
    let plain = folded(name);
    let usual = USUAL_SECONDS.iter().position(|usual| *usual == plain);
    let place = match (plain == "sk", plain.ends_with("id"), usual, is_time_name(name)) {
        (true, ..) => 0,
        (_, true, ..) => 1,
        (_, _, Some(place), _) => 2 + place,
        (_, _, None, true) => 2 + USUAL_SECONDS.len(),
        (_, _, None, false) => return None,
    };
    Some((place, name.len()))
}

/// Whether an attribute of this name is a time.
fn is_time_name(name: &str) -> bool {
    let plain = folded(name);
    let is_usual = USUAL_SECONDS.iter().skip(1).any(|usual| *usual == plain);
    is_usual
        || name.ends_with("At")
        || name.ends_with("_at")
        || plain.ends_with("time")
        || plain.ends_with("date")
}

/// The attributes that every item has, with one type that keys can have; ids first.
fn candidates(items: &[Item]) -> Vec<KeyAttribute> {
    let Some((first, others)) = items.split_first() else { return Vec::new() };
    let types = first.iter().filter_map(|(name, value)| Some((name, key_type(value)?)));
    let shared = types.filter(|(name, key_type_of_first)| {
        let has_type = |item: &Item| item.get(&**name).and_then(key_type) == Some(*key_type_of_first);
        others.iter().all(has_type)
    });
    let mut candidates: Vec<KeyAttribute> =
        shared.map(|(name, key_type)| KeyAttribute { name: name.to_string(), key_type }).collect();
    candidates.sort_by_key(|key| (!key.name.to_lowercase().ends_with("id"), key.name.len()));
    candidates
}

fn key_type(value: &AttributeValue<'_>) -> Option<KeyType> {
    match value {
        AttributeValue::S(_) => Some(KeyType::Text),
        AttributeValue::N(_) => Some(KeyType::Number),
        AttributeValue::B(_) => Some(KeyType::Binary),
        AttributeValue::Bool(_)
        | AttributeValue::Null
        | AttributeValue::M(_)
        | AttributeValue::L(_)
        | AttributeValue::Ss(_)
        | AttributeValue::Ns(_)
        | AttributeValue::Bs(_) => None,
    }
}

fn identifies(items: &[Item], key: &[KeyAttribute]) -> bool {
    let mut seen = BTreeSet::new();
    items.iter().all(|item| {
        let values: Option<Vec<_>> = key.iter().map(|key| item.get(&*key.name).and_then(text_of)).collect();
        values.is_some_and(|values| seen.insert(values))
    })
}
