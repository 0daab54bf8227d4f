//! The sample of a table that a model is inferred from.

use std::collections::BTreeSet;

use afterwrite::record::{AttributeValue, Item};
use afterwrite::table::KeyType;
use afterwrite::{Error, ErrorKind, Result};

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
    /// The global secondary indexes, as far as they are known.
    pub indexes: Vec<SampledIndex>,
    /// The items.
    pub items: Vec<Item>,
}

/// The key attributes of items from a file, which does not name them: attributes that every item has and whose values identify it.
///
/// # Errors
/// `Configuration` if no one or two attributes do.
pub fn infer_key(items: &[Item]) -> Result<Vec<KeyAttribute>> {
    let candidates = candidates(items);
    let usual = USUAL_KEYS.iter().find_map(|(partition, sort)| {
        let named = |name: &str| candidates.iter().find(|key| key.name.to_lowercase() == name).cloned();
        Some(vec![named(partition)?, named(sort)?])
    });
    let found = usual.or_else(|| {
        let one = candidates.iter().map(|key| vec![key.clone()]);
        let pairs = candidates.iter().flat_map(|first| {
            let others = candidates.iter().filter(move |second| second.name != first.name);
            others.map(move |second| vec![first.clone(), second.clone()])
        });
        one.chain(pairs).find(|key| identifies(items, key))
    });
    found.ok_or_else(|| {
        Error::new(ErrorKind::Configuration, "the key attributes cannot be inferred from the items")
            .hint("Name them with --key PARTITION[,SORT]")
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
            Error::new(ErrorKind::Configuration, "not every item has this key attribute with one type")
                .with("attribute", name.clone())
                .hint("Name the partition key and the sort key of the table: --key PARTITION[,SORT]")
        })
    });
    key.collect()
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
