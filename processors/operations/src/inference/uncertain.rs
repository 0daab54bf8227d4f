//! Open questions about the keys of a kind of items: a word that is alone in its place may be a value, and words that few items have may be
//! names of kinds.

use std::collections::BTreeSet;

use super::groups::ItemGroup;
use super::sample::TableSample;
use super::shapes::{KeySegment, KeyShape, USUAL_WORDS};
use super::texts::{segments, text_of, word_style};
use super::vocabulary::KindVocabulary;

/// Items of which a word in a key may be the name of their kind without being constant: fewer than a kind needs.
const FEW_ITEMS: usize = 5;

/// A sample of so few items leaves out no kind.
const SMALL_SAMPLE: usize = 20;

/// The constants of a group's keys that do not name a kind of items and are the only text in their place in the whole sample.
pub(super) fn lone_words(
    groups: &[ItemGroup],
    group: &ItemGroup,
    vocabulary: &KindVocabulary,
) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for (key, shape) in group.shapes.iter().enumerate() {
        for (place, word) in shape.segments.iter().enumerate().filter_map(constant) {
            let is_usual = USUAL_WORDS.contains(&word.to_lowercase().as_str()) || vocabulary.names(word);
            let mut others = shapes_with_beginning(groups, group, (key, shape), place);
            let is_lone =
                others.all(|other| other.segments.get(place).and_then(KeySegment::constant) == Some(word));
            if is_lone && !is_usual && word_style(word).is_some() {
                words.insert(word.to_owned());
            }
        }
    }
    words
}

/// Whether the words in a place of the keys of a few items may name their kind: the items of the other kinds have constants there.
pub(super) fn is_rare_kind(sample: &TableSample, groups: &[ItemGroup], group: &ItemGroup) -> bool {
    let is_few = group.members.len() < FEW_ITEMS && sample.items.len() > SMALL_SAMPLE;
    let mut shapes = group.shapes.iter().enumerate();
    is_few
        && shapes.any(|(key, shape)| {
            let first = shape.segments.first().is_some_and(|segment| segment.constant().is_none());
            let mut others = shapes_with_beginning(groups, group, (key, shape), 0);
            let has_constants = others.any(|other| other.constants().next().is_some());
            first && has_constants && begin_with_words(sample, group, (key, shape))
        })
}

/// Whether the keys of all items of a group begin with words.
fn begin_with_words(sample: &TableSample, group: &ItemGroup, (key, shape): (usize, &KeyShape)) -> bool {
    let Some(name) = sample.key.get(key).map(|key| key.name.as_str()) else { return false };
    let items = group.members.iter().filter_map(|index| sample.items.get(*index));
    let mut texts = items.filter_map(|item| item.get(name).and_then(text_of));
    texts.all(|text| {
        let first = segments(&text, shape.separator).into_iter().next().unwrap_or_default().to_owned();
        word_style(&first).is_some()
    })
}

/// The shapes of a key attribute that begin as this one, up to a place, in all groups whose other key attributes before it are the same.
fn shapes_with_beginning<'g>(
    groups: &'g [ItemGroup],
    group: &'g ItemGroup,
    (key, shape): (usize, &'g KeyShape),
    place: usize,
) -> impl Iterator<Item = &'g KeyShape> {
    let alike = groups.iter().filter(move |other| other.shapes.get(..key) == group.shapes.get(..key));
    let shapes = alike.filter_map(move |other| other.shapes.get(key));
    shapes.filter(move |other| other.segments.get(..place) == shape.segments.get(..place))
}

/// The place and the text of a constant.
fn constant((place, segment): (usize, &KeySegment)) -> Option<(usize, &str)> {
    Some((place, segment.constant()?))
}
