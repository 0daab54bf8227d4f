//! Open questions about the keys of a kind of items: a word that is alone in its place may be a value, and words that few items have may be
//! names of kinds.

use std::collections::BTreeSet;

use super::groups::ItemGroup;
use super::sample::TableSample;
use super::shapes::{ENOUGH_ITEMS, KeySegment, KeyShape, is_usual_word};
use super::texts::{segments, text_of, word_style};
use super::vocabulary::KindVocabulary;

/// A sample of at most so many items leaves out no kind.
const SMALL_SAMPLE: usize = 20;

/// The constants of a group's keys that do not name a kind of items and are the only text in their place in the whole sample.
pub(super) fn lone_words(
    groups: &[ItemGroup],
    group: &ItemGroup,
    vocabulary: &KindVocabulary,
) -> BTreeSet<String> {
    let is_name = |word: &str| is_usual_word(word) || vocabulary.names(word);
    let mut words = BTreeSet::new();
    for (key, shape) in group.shapes.iter().enumerate() {
        for (place, word) in shape.segments.iter().enumerate().filter_map(constant) {
            let mut others = shapes_with_beginning(groups, group, (key, shape), place);
            let is_lone =
                others.all(|other| other.segments.get(place).and_then(KeySegment::constant) == Some(word));
            if is_lone && word_style(word).is_some() && !is_name(word) {
                words.insert(word.to_owned());
            }
        }
    }
    words
}

/// Whether a group has so few items that the words with which their keys begin may name their kind, although they are variable: keys of
/// other groups have constants.
pub(super) fn is_rare_kind(sample: &TableSample, groups: &[ItemGroup], group: &ItemGroup) -> bool {
    let is_few = group.members.len() < ENOUGH_ITEMS && sample.items.len() > SMALL_SAMPLE;
    let mut keys = group.shapes.iter().enumerate().zip(sample.key_names());
    is_few
        && keys.any(|((key, shape), name)| {
            let has_constants = |other: &KeyShape| other.constants().next().is_some();
            let begins_with_variable = shape.segments.first().is_some_and(|first| first.constant().is_none());
            begins_with_variable
                && shapes_with_beginning(groups, group, (key, shape), 0).any(has_constants)
                && begin_with_words(sample, group, (name, shape))
        })
}

/// Whether a key attribute begins with a word in all items of a group.
fn begin_with_words(sample: &TableSample, group: &ItemGroup, (name, shape): (&str, &KeyShape)) -> bool {
    let mut texts = sample.items_at(&group.members).filter_map(|item| item.get(name).and_then(text_of));
    texts
        .all(|text| segments(&text, shape.separator).first().is_some_and(|first| word_style(first).is_some()))
}

/// The shapes of a key attribute that agree with this one in the segments before a place. Only groups with the same shapes of the key
/// attributes before it are considered.
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
