//! The sample of a table that a model is inferred from, and the key of items from a file, which does not name it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use afterwrite_ledger::tables::{ScanRequest, TableScan};
use afterwrite_model::entity::SourceKey;
use afterwrite_model::record::{AttributeValue, Item};
use afterwrite_model::table::KeyType;
use afterwrite_model::{Error, ErrorKind, Result};

use super::texts::{folded, text_of};
use super::times::is_time_name;

/// Segments that the items of a table are taken from: a scan from its beginning may see a few partitions only. With many segments, the sample
/// has the first items of many partitions, and so rare kinds of items.
const MOST_SEGMENTS: u32 = 256;

/// Names that partition and sort keys usually have, without `_` and in lower case.
const USUAL_KEYS: [[&str; 2]; 5] =
    [["pk", "sk"], ["partitionkey", "sortkey"], ["hashkey", "rangekey"], ["hk", "rk"], ["hash", "range"]];

/// Names of attributes that identify an item alone, the best first. Other such names end with `id` or `email`.
const USUAL_IDS: [&str; 6] = ["pk", "id", "key", "uuid", "email", "slug"];

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

/// Facts about a table that need not be inferred.
#[derive(Clone, Debug, Default)]
pub struct InferenceHints {
    /// The character that separates the parts of keys.
    pub separator: Option<char>,
    /// The attribute that names the type of an item.
    pub type_attribute: Option<String>,
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
            let partition = texts.next().flatten().unwrap_or_default();
            !SourceKey { table: 0, partition, sort: texts.next().flatten() }.is_heartbeat()
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

    /// Whether an attribute is part of the key.
    pub(super) fn is_key(&self, name: &str) -> bool {
        self.key_names().any(|key| key == name)
    }
}

/// Reads about `most` items of a table, never more.
///
/// # Errors
/// As [`TableScan::scan`].
pub async fn sample_items(tables: &impl TableScan, table: &Arc<str>, most: u32) -> Result<Vec<Item>> {
    let segments = most.clamp(1, MOST_SEGMENTS);
    let whole = || ScanRequest::whole(Arc::clone(table));
    let mut open: Vec<ScanRequest> =
        (0..segments).map(|segment| ScanRequest { segment, segments, ..whole() }).collect();
    let (most, mut items) = (usize::try_from(most).unwrap_or(usize::MAX), Vec::new());
    while items.len() < most && !open.is_empty() {
        let missing = most - items.len();
        let share = u32::try_from(missing.div_ceil(open.len())).unwrap_or(u32::MAX);
        let mut unfinished = Vec::new();
        for request in open {
            let page = tables.scan(&ScanRequest { page_items: Some(share), ..request.clone() }).await?;
            items.extend(page.items);
            unfinished.extend(page.next.map(|next| ScanRequest { start_after: Some(next), ..request }));
        }
        open = unfinished;
    }
    items.truncate(most);
    Ok(items)
}

/// A guess of the key attributes: attributes that every item has and whose values identify it. Names that keys usually have are preferred.
///
/// # Errors
/// `Configuration` if no one or two attributes do.
pub fn infer_key(items: &[Item]) -> Result<Vec<KeyAttribute>> {
    let candidates = candidates(items);
    let usual = USUAL_KEYS.iter().find_map(|names| {
        let named = |name: &&str| candidates.iter().find(|key| folded(&key.name).ends_with(name)).cloned();
        names.iter().map(named).collect::<Option<Vec<KeyAttribute>>>()
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

/// Keys of one and of two attributes, the most usual first: an id, an id and a second attribute, any one, any two. Of attributes without a
/// usual name, the one with the fewest values groups the items.
fn guesses(items: &[Item], candidates: &[KeyAttribute]) -> Vec<Vec<KeyAttribute>> {
    let mut guesses = Vec::new();
    for first in candidates {
        let rank = (id_rank(&first.name), different(items, &first.name));
        let is_id = rank.0.0 == 0;
        guesses.push((if is_id { 0 } else { 3 }, rank, (0, 0), vec![first]));
        for second in candidates.iter().filter(|second| second.name != first.name) {
            let second_rank = second_rank(&second.name);
            let class = if second_rank.0 == 2 { 4 } else { 2 - usize::from(is_id) };
            guesses.push((class, rank, second_rank, vec![first, second]));
        }
    }
    guesses.sort_by_key(|(class, first, second, _)| (*class, *first, *second));
    guesses.into_iter().map(|(.., key)| key.into_iter().cloned().collect()).collect()
}

/// Ids are the first, times the last.
fn id_rank(name: &str) -> (usize, usize) {
    let plain = folded(name);
    match USUAL_IDS.iter().position(|usual| *usual == plain) {
        Some(place) => (0, place),
        None if plain.ends_with("id") || plain.ends_with("email") => (0, USUAL_IDS.len() + name.len()),
        None => (1 + usize::from(is_time_name(name)), 0),
    }
}

/// Of second attributes, ids are the first, then times.
fn second_rank(name: &str) -> (usize, usize) {
    let plain = folded(name);
    let is_id = plain.ends_with("sk") || plain.ends_with("id");
    let is_time = is_time_name(name) || plain.starts_with("seq");
    (if is_id { 0 } else { 2 - usize::from(is_time) }, name.len())
}

/// The number of different values that several items share; the largest number if all items have the same.
fn different(items: &[Item], name: &str) -> usize {
    let values: BTreeSet<_> = items.iter().filter_map(|item| item.get(name).and_then(text_of)).collect();
    if values.len() == 1 { usize::MAX } else { values.len() }
}

/// The attributes that every item has, with one type that keys can have.
fn candidates(items: &[Item]) -> Vec<KeyAttribute> {
    let types =
        items.first().into_iter().flatten().filter_map(|(name, value)| Some((name, key_type(value)?)));
    let shared = types.filter(|(name, first_type)| {
        items.iter().all(|item| item.get(&**name).and_then(key_type) == Some(*first_type))
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
