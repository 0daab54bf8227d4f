//! Items → groups of one kind: by the shapes of their keys, and by an attribute that names their type.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite_model::record::Item;
use afterwrite_model::table::KeyType;

use super::attribute_names::{is_index_key, is_type_name};
use super::evidence::ItemFeatures;
use super::sample::TableSample;
use super::separators::SeparatorSearch;
use super::shapes::{KeyShape, KeyTexts, ShapeMembers};
use super::texts::{WordStyle, snake, text_of, word_style};
use super::vocabulary::KindVocabulary;

/// More shapes than this are taken for values.
const MOST_SHAPES: usize = 60;

/// The most types of items that share the shape of their keys.
const MOST_TYPES: usize = 20;

/// A type that so many items have is one; a type of fewer items must be the beginning of an attribute's name that only they have.
const LEAST_ITEMS_OF_A_TYPE: usize = 3;

/// Of items whose type an attribute names, at most one in so many may lack it.
const UNTYPED_ONE_IN: usize = 100;

/// Items of one kind.
#[derive(Clone, Debug)]
pub(super) struct ItemGroup {
    /// The shapes of the partition key and, if the table has one, the sort key.
    pub(super) shapes: Vec<KeyShape>,
    /// The attribute that names the type of these items, and the name, if all have it.
    pub(super) item_type: Option<(String, String)>,
    /// Whether other groups have keys of the same shape: the type distinguishes them.
    pub(super) is_discriminated: bool,
    /// The attribute that names the type of all other items with such keys, if these lack it.
    pub(super) untyped: Option<String>,
    /// Indexes into the sample's items.
    pub(super) members: Vec<usize>,
}

impl ItemGroup {
    /// The items with keys of these shapes.
    fn of(shapes: &[KeyShape], members: Vec<usize>) -> Self {
        Self { shapes: shapes.to_vec(), item_type: None, is_discriminated: false, untyped: None, members }
    }
}

/// The kinds of items of a sample.
pub(super) fn groups(sample: &TableSample, vocabulary: &KindVocabulary) -> Vec<ItemGroup> {
    let columns: Vec<Vec<String>> = sample.key_names().map(|name| key_texts(sample, name)).collect();
    let key_names: Vec<&str> = sample.key_names().collect();
    let (values, features) = (values(sample), ItemFeatures::of(sample));
    let mut kinds: Vec<(Vec<KeyShape>, Vec<usize>)> = vec![(Vec::new(), (0..sample.items.len()).collect())];
    for (texts, key) in columns.iter().zip(&sample.key) {
        let search = SeparatorSearch { texts, features: &features, vocabulary };
        let keys = KeyTexts {
            items: &sample.items,
            key_names: &key_names,
            values: &values,
            texts,
            features: &features,
            vocabulary,
            separator: search.separator(),
        };
        let refined = kinds.into_iter().flat_map(|(shapes, members)| {
            let found = key_shapes(&keys, key.key_type, members);
            found.into_iter().map(move |(shape, members)| {
                let shapes = shapes.iter().cloned().chain([shape]).collect();
                (shapes, members)
            })
        });
        kinds = refined.collect();
    }
    let split = kinds.into_iter().flat_map(|(shapes, members)| by_type(sample, &features, shapes, members));
    let mut groups: Vec<ItemGroup> = split.collect();
    groups.sort_by(|a, b| a.shapes.cmp(&b.shapes));
    groups
}

/// The texts of attributes; those that name types, the sort key and copies of keys left out.
fn values(sample: &TableSample) -> BTreeSet<&str> {
    let [partition, sort] = [0, 1].map(|place| sample.key_names().nth(place));
    let has_values = |name: &str| {
        partition == Some(name) || !(is_type_name(name) || is_index_key(name) || sort == Some(name))
    };
    let attributes = sample.items.iter().flat_map(|item| item.iter()).filter(|(name, _)| has_values(name));
    attributes.filter_map(|(_, value)| value.as_text()).filter(|text| word_style(text).is_some()).collect()
}

fn key_texts(sample: &TableSample, name: &str) -> Vec<String> {
    let text = |item: &Item| item.get(name).and_then(text_of).map(|text| text.into_owned());
    sample.items.iter().map(|item| text(item).unwrap_or_default()).collect()
}

fn key_shapes(keys: &KeyTexts<'_>, key_type: KeyType, members: Vec<usize>) -> Vec<ShapeMembers> {
    match key_type {
        KeyType::Text => {
            let shapes = keys.shapes(members.clone());
            if shapes.len() <= MOST_SHAPES { shapes } else { vec![(KeyShape::open(), members)] }
        }
        KeyType::Number | KeyType::Binary => vec![(KeyShape::open(), members)],
    }
}

/// The items of each type, if an attribute names types of items with these keys; otherwise all items.
fn by_type(
    sample: &TableSample,
    features: &ItemFeatures,
    shapes: Vec<KeyShape>,
    members: Vec<usize>,
) -> Vec<ItemGroup> {
    let items: Vec<&Item> = sample.items_at(&members).collect();
    let names: BTreeSet<&str> = items.iter().flat_map(|item| item.keys()).map(|name| &**name).collect();
    let is_key = |name: &str| sample.key_names().any(|key| key == name);
    for name in names.into_iter().filter(|name| is_type_name(name) && !is_key(name)) {
        let mut untyped = Vec::new();
        let mut by_type: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, item) in members.iter().zip(&items) {
            match type_of(item, name) {
                Some(item_type) => by_type.entry(item_type).or_default().push(*index),
                None => untyped.push(*index),
            }
        }
        if untyped.len() * UNTYPED_ONE_IN > items.len() {
            continue;
        }
        if by_type.len() <= MOST_TYPES && are_types(sample, features, &by_type) {
            let is_discriminated = by_type.len() > 1;
            if !is_discriminated {
                by_type.values_mut().for_each(|members| members.append(&mut untyped));
            }
            let group = |(item_type, members): (&str, Vec<usize>)| ItemGroup {
                item_type: Some((name.to_owned(), item_type.to_owned())),
                is_discriminated,
                ..ItemGroup::of(&shapes, members)
            };
            let mut groups: Vec<ItemGroup> = by_type.into_iter().map(group).collect();
            if !untyped.is_empty() {
                groups.push(ItemGroup { untyped: Some(name.to_owned()), ..ItemGroup::of(&shapes, untyped) });
            }
            return groups;
        }
    }
    vec![ItemGroup::of(&shapes, members)]
}

/// Whether these values name types of items: all are written as names, or items of some have attributes that others lack. Otherwise
/// they are values of one kind of items.
fn are_types(sample: &TableSample, features: &ItemFeatures, by_type: &BTreeMap<&str, Vec<usize>>) -> bool {
    let is_rare = |members: &[usize]| members.len() < LEAST_ITEMS_OF_A_TYPE;
    let has_own = |item_type: &str| has_own_attribute(sample, by_type, item_type);
    if by_type.iter().any(|(item_type, members)| is_rare(members) && !has_own(item_type)) {
        return false;
    }
    let are_names = by_type.keys().all(|item_type| word_style(item_type) != Some(WordStyle::Lower));
    let counts: Vec<_> = by_type.values().map(|members| features.counts(members)).collect();
    let differ = || counts.iter().any(|one| counts.iter().any(|other| one.differs_from(other)));
    by_type.len() == 1 || are_names || differ() || by_type.values().any(|members| is_rare(members))
}

/// Whether items of a type, and no others, have an attribute whose name begins with the type: organizations have `organization_name`.
fn has_own_attribute(sample: &TableSample, by_type: &BTreeMap<&str, Vec<usize>>, item_type: &str) -> bool {
    let names = |members: &[usize]| -> BTreeSet<&str> {
        sample.items_at(members).flat_map(|item| item.keys()).map(|name| &**name).collect()
    };
    let others = by_type.iter().filter(|(other, _)| **other != item_type);
    let others: BTreeSet<&str> = others.flat_map(|(_, members)| names(members)).collect();
    let own = by_type.get(item_type).map(|members| names(members)).unwrap_or_default();
    let Some(beginning) = snake(item_type) else { return false };
    own.difference(&others).any(|name| snake(name).is_some_and(|name| name.starts_with(&beginning)))
}

/// The type of an item, if it has one that is a word.
fn type_of<'i>(item: &'i Item, name: &str) -> Option<&'i str> {
    item.get(name)?.as_text().filter(|text| word_style(text).is_some())
}
