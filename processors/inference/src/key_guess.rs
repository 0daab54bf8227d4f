//! The key attributes of items from a file, which does not name them.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite_model::record::{AttributeValue, Item};
use afterwrite_model::table::KeyType;
use afterwrite_model::{Error, ErrorKind, Result};

use super::sample::KeyAttribute;
use super::texts::{folded, text_of};
use super::times::is_time_name;

/// Names that partition and sort keys usually have, without `_` and in lower case.
const USUAL_KEYS: [(&str, &str); 5] =
    [("pk", "sk"), ("partitionkey", "sortkey"), ("hashkey", "rangekey"), ("hk", "rk"), ("hash", "range")];

/// Names of attributes that identify an item alone, the best first. Other such names end with `id`.
const USUAL_IDS: [&str; 6] = ["pk", "id", "key", "uuid", "email", "slug"];

/// A guess of the key attributes: attributes that every item has and whose values identify it. Names that keys usually have are preferred.
///
/// # Errors
/// `Configuration` if no one or two attributes do.
pub fn infer_key(items: &[Item]) -> Result<Vec<KeyAttribute>> {
    let candidates = candidates(items);
    let usual = USUAL_KEYS.iter().find_map(|(partition, sort)| {
        let named = |name: &str| candidates.iter().find(|key| folded(&key.name).ends_with(name)).cloned();
        Some(vec![named(partition)?, named(sort)?])
    });
    let found = usual.or_else(|| guesses(items, &candidates).into_iter().find(|key| identifies(items, key)));
    found.ok_or_else(|| {
        let error =
            Error::new(ErrorKind::Configuration, "the key attributes cannot be inferred from the items");
        match stray_item(items) {
            Some((number, attribute)) => error
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
        if items.is_empty() {
            return Ok(KeyAttribute { name: name.clone(), key_type: KeyType::Text });
        }
        let known = candidates.iter().find(|key| key.name == *name).cloned();
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

/// The number, from 1, of the first item that lacks an attribute that nearly all items have and that may be part of the key; and its name.
fn stray_item(items: &[Item]) -> Option<(usize, &str)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, value) in items.iter().flat_map(|item| item.iter()) {
        *counts.entry(name).or_default() += usize::from(key_type(value).is_some());
    }
    counts.retain(|_, count| *count < items.len() && *count * 20 >= items.len() * 19);
    let attribute = counts.into_keys().min_by_key(|name| id_rank(name))?;
    Some((first_without(items, attribute)?, attribute))
}

/// The number, from 1, of the first item that lacks this attribute, or has it with a type that keys cannot have.
fn first_without(items: &[Item], name: &str) -> Option<usize> {
    let lacks = |item: &Item| item.get(name).and_then(key_type).is_none();
    items.iter().position(lacks).map(|index| index + 1)
}

/// Keys of one and of two attributes, the most usual first: an id, an id and a second attribute, any one, any two.
fn guesses(items: &[Item], candidates: &[KeyAttribute]) -> Vec<Vec<KeyAttribute>> {
    let mut firsts: Vec<&KeyAttribute> = candidates.iter().collect();
    // Of attributes without a usual name, the one with the fewest values groups the items.
    firsts.sort_by_cached_key(|key| (id_rank(&key.name), different(items, &key.name)));
    let mut seconds = firsts.clone();
    seconds.sort_by_key(|key| second_rank(&key.name));
    let ids: Vec<&KeyAttribute> = firsts.iter().filter(|key| id_rank(&key.name).0 == 0).copied().collect();
    let usual: Vec<&KeyAttribute> =
        seconds.iter().filter(|key| second_rank(&key.name).0 < 2).copied().collect();
    let one = |firsts: &[&KeyAttribute]| firsts.iter().map(|key| vec![(*key).clone()]).collect::<Vec<_>>();
    let two = |firsts: &[&KeyAttribute], seconds: &[&KeyAttribute]| {
        let pairs = firsts.iter().flat_map(|first| seconds.iter().map(move |second| (*first, *second)));
        let pairs = pairs.filter(|(first, second)| first.name != second.name);
        pairs.map(|(first, second)| vec![first.clone(), second.clone()]).collect::<Vec<_>>()
    };
    [one(&ids), two(&ids, &usual), two(&firsts, &usual), one(&firsts), two(&firsts, &firsts)].concat()
}

/// Ids are the first, times the last.
fn id_rank(name: &str) -> (usize, usize, usize) {
    let plain = folded(name);
    let usual = USUAL_IDS.iter().position(|usual| *usual == plain);
    let is_id = plain.ends_with("id") || plain.ends_with("email");
    let class = if is_id || usual.is_some() { 0 } else { 1 + usize::from(is_time_name(name)) };
    (class, usual.unwrap_or(USUAL_IDS.len()), if is_id { name.len() } else { 0 })
}

/// The number of different values that several items share; the largest number if all items have the same.
fn different(items: &[Item], name: &str) -> usize {
    let values: BTreeSet<_> = items.iter().filter_map(|item| item.get(name).and_then(text_of)).collect();
    if values.len() == 1 { usize::MAX } else { values.len() }
}

/// Of second attributes, ids are the first, then times.
fn second_rank(name: &str) -> (usize, usize) {
    let plain = folded(name);
    let class = match () {
        () if plain.ends_with("sk") || plain.ends_with("id") => 0,
        () if is_time_name(name) || plain.starts_with("seq") => 1,
        () => 2,
    };
    (class, name.len())
}

/// The attributes that every item has, with one type that keys can have.
fn candidates(items: &[Item]) -> Vec<KeyAttribute> {
    let Some((first, others)) = items.split_first() else { return Vec::new() };
    let types = first.iter().filter_map(|(name, value)| Some((name, key_type(value)?)));
    let shared = types.filter(|(name, first_type)| {
        others.iter().all(|item| item.get(&**name).and_then(key_type) == Some(*first_type))
    });
    let mut candidates: Vec<KeyAttribute> =
        shared.map(|(name, key_type)| KeyAttribute { name: name.to_string(), key_type }).collect();
    candidates.sort_by_key(|key| key.name.len());
    candidates
}

fn key_type(value: &AttributeValue<'_>) -> Option<KeyType> {
    [KeyType::Text, KeyType::Number, KeyType::Binary]
        .into_iter()
        .find(|known| known.name() == value.type_name())
}

fn identifies(items: &[Item], key: &[KeyAttribute]) -> bool {
    let mut seen = BTreeSet::new();
    items.iter().all(|item| {
        let values: Option<Vec<_>> = key.iter().map(|key| item.get(&*key.name).and_then(text_of)).collect();
        values.is_some_and(|values| seen.insert(values))
    })
}
