//! Items → groups of one kind: keys of one shape, and one value of the attribute that names types.

use afterwrite_model::table::KeyType;

use super::evidence::{ItemsByText, KindProfile, SampleEvidence};
use super::keys::{KeyShape, separator, shapes};
use super::texts::{WordStyle, word_style};

/// Of items whose type an attribute names, at most one in so many may lack it.
const UNTYPED_ONE_IN: usize = 100;

/// The most types of items that an attribute names.
const MOST_TYPES: usize = 20;

/// Items of one kind.
#[derive(Clone, Debug, Default)]
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
pub(super) fn groups(evidence: &SampleEvidence<'_>, stated: Option<char>) -> Vec<ItemGroup> {
    let members = (0..evidence.sample.items.len()).collect();
    let mut groups = vec![ItemGroup { members, ..ItemGroup::default() }];
    for (place, key) in evidence.sample.key.iter().enumerate() {
        let separator = stated.or_else(|| separator(evidence, place));
        let refined = groups.into_iter().flat_map(|group| {
            let found = match key.key_type {
                KeyType::Text => shapes(evidence, place, separator, group.members),
                KeyType::Number | KeyType::Binary => vec![(KeyShape::open(), group.members)],
            };
            let with = |shape| group.shapes.iter().cloned().chain([shape]).collect();
            let group = |(shape, members)| ItemGroup { shapes: with(shape), members, ..ItemGroup::default() };
            found.into_iter().map(group).collect::<Vec<_>>()
        });
        groups = refined.collect();
    }
    groups = groups.into_iter().flat_map(|group| by_type(evidence, group)).collect();
    groups.sort_by(|a, b| a.shapes.cmp(&b.shapes));
    groups
}

/// The items of each type, if an attribute names types of items with these keys; otherwise all items.
fn by_type(evidence: &SampleEvidence<'_>, group: ItemGroup) -> Vec<ItemGroup> {
    for name in evidence.type_attributes.iter().chain(&evidence.other_attributes) {
        let (mut types, mut untyped) = evidence.by_word(name, &group.members);
        let rare = types.extract_if(.., |_, members| !evidence.are_several(members));
        untyped.extend(rare.flat_map(|(_, members)| members));
        let is_usual = evidence.type_attributes.contains(name);
        let most_untyped = if is_usual { group.members.len() / UNTYPED_ONE_IN } else { 0 };
        if untyped.len() > most_untyped || !are_types(evidence, &types, is_usual) {
            continue;
        }
        let is_discriminated = types.len() > 1;
        if !is_discriminated {
            types.values_mut().for_each(|members| members.append(&mut untyped));
        }
        let typed = types.into_iter().map(|(item_type, members)| ItemGroup {
            item_type: Some(((*name).to_owned(), item_type.to_owned())),
            is_discriminated,
            members,
            ..group.clone()
        });
        let untyped = Some(untyped).filter(|members| !members.is_empty());
        let others =
            untyped.map(|members| ItemGroup { untyped: Some((*name).to_owned()), members, ..group.clone() });
        return typed.chain(others).collect();
    }
    vec![group]
}

/// Whether words are types: of an attribute with a usual name if they are written as names, or some items differ; of another attribute if all
/// are kinds.
fn are_types(evidence: &SampleEvidence<'_>, types: &ItemsByText<'_>, is_usual: bool) -> bool {
    let profiles: Vec<KindProfile<'_>> = types.values().map(|members| evidence.profile(members)).collect();
    let mut pairs = profiles
        .iter()
        .enumerate()
        .flat_map(|(place, one)| profiles.iter().skip(place + 1).map(move |other| (one, other)));
    let are_names = types.keys().all(|item_type| word_style(item_type) != Some(WordStyle::Lower));
    match (types.len(), is_usual) {
        (1, true) => true,
        (2..=MOST_TYPES, true) => are_names || pairs.any(|(one, other)| one.differs_from(other)),
        (2..=MOST_TYPES, false) => pairs.all(|(one, other)| one.is_another_kind_than(other)),
        (_, _) => false,
    }
}
