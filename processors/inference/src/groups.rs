//! Items → groups of one kind: keys of one shape, and one value of the attribute that names types.

use std::collections::BTreeMap;

use afterwrite_model::table::KeyType;

use super::key_search::{KeyColumn, KeyEvidence};
use super::key_shapes::KeyShape;
use super::kinds::{KindProfile, MOST_TYPES};
use super::sample::InferenceHints;
use super::texts::{WordStyle, word_style};

/// Of items whose type an attribute names, at most one in so many may lack it.
const UNTYPED_ONE_IN: usize = 100;

/// Items of one kind.
#[derive(Clone, Debug)]
pub(super) struct ItemGroup {
    /// The shapes of the partition key and, if the table has one, the sort key.
    pub(super) shapes: Vec<KeyShape>,
    /// The attribute that names the type of these items, and the name, if all have it.
    pub(super) item_type: Option<(String, String)>,
    /// Whether other groups have keys of the same shapes: the type distinguishes them.
    pub(super) is_discriminated: bool,
    /// The attribute that names the type of all other items with such keys, if these lack it.
    pub(super) untyped: Option<String>,
    /// Indexes into the sample's items.
    pub(super) members: Vec<usize>,
}

/// The kinds of items of a sample.
pub(super) fn groups(evidence: &KeyEvidence<'_>, hints: &InferenceHints) -> Vec<ItemGroup> {
    let sample = evidence.sample;
    let all: Vec<usize> = (0..sample.items.len()).collect();
    let mut kinds: Vec<(Vec<KeyShape>, Vec<usize>)> = vec![(Vec::new(), all.clone())];
    for (place, key) in sample.key.iter().enumerate() {
        let texts = sample.key_texts(&key.name, &all);
        let column = KeyColumn { evidence, is_partition: place == 0, texts: &texts };
        let separator = hints.separator.or_else(|| column.separator());
        let refined = kinds.into_iter().flat_map(|(shapes, members)| {
            let found = match key.key_type {
                KeyType::Text => column.shapes(separator, members),
                KeyType::Number | KeyType::Binary => vec![(KeyShape::open(), members)],
            };
            let with = |shape| shapes.iter().cloned().chain([shape]).collect();
            found.into_iter().map(|(shape, members)| (with(shape), members)).collect::<Vec<_>>()
        });
        kinds = refined.collect();
    }
    let mut groups: Vec<ItemGroup> =
        kinds.into_iter().flat_map(|(shapes, members)| by_type(evidence, &shapes, members)).collect();
    groups.sort_by(|a, b| a.shapes.cmp(&b.shapes));
    groups
}

/// The items of each type, if an attribute names types of items with these keys; otherwise all items.
fn by_type(evidence: &KeyEvidence<'_>, shapes: &[KeyShape], members: Vec<usize>) -> Vec<ItemGroup> {
    let group = |item_type: Option<(&String, &str)>, members: Vec<usize>| ItemGroup {
        shapes: shapes.to_vec(),
        item_type: item_type.map(|(name, item_type)| (name.clone(), item_type.to_owned())),
        is_discriminated: false,
        untyped: None,
        members,
    };
    for name in &evidence.names.type_attributes {
        let mut by_type: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut untyped = Vec::new();
        for (index, item) in members.iter().zip(evidence.sample.items_at(&members)) {
            let item_type = item.get(name.as_str()).and_then(|value| value.as_text());
            match item_type.filter(|text| word_style(text).is_some()) {
                Some(item_type) => by_type.entry(item_type).or_default().push(*index),
                None => untyped.push(*index),
            }
        }
        let is_rare = |members: &[usize]| !evidence.features.are_several(members);
        let rare = by_type.extract_if(.., |_, members| is_rare(members));
        untyped.extend(rare.flat_map(|(_, members)| members));
        let is_typed = untyped.len() * UNTYPED_ONE_IN <= members.len() && by_type.len() <= MOST_TYPES;
        if !is_typed || !are_types(evidence, &by_type) {
            continue;
        }
        let is_discriminated = by_type.len() > 1;
        if !is_discriminated {
            by_type.values_mut().for_each(|members| members.append(&mut untyped));
        }
        let typed = by_type.into_iter().map(|(item_type, members)| ItemGroup {
            is_discriminated,
            ..group(Some((name, item_type)), members)
        });
        let others =
            (!untyped.is_empty()).then(|| ItemGroup { untyped: Some(name.clone()), ..group(None, untyped) });
        return typed.chain(others).collect();
    }
    vec![group(None, members)]
}

/// Whether these values name types of items: all are written as names, or items of some have attributes that others lack. Otherwise they are
/// values of one kind of items.
fn are_types(evidence: &KeyEvidence<'_>, by_type: &BTreeMap<&str, Vec<usize>>) -> bool {
    let are_names = by_type.keys().all(|item_type| word_style(item_type) != Some(WordStyle::Lower));
    let profiles: Vec<KindProfile> =
        by_type.values().map(|members| evidence.features.profile(members)).collect();
    let differ = || profiles.iter().any(|one| profiles.iter().any(|other| one.differs_from(other)));
    !by_type.is_empty() && (by_type.len() == 1 || are_names || differ())
}
