//! Key texts → shapes: which segments are constant, and which are variable.
//!
//! ```text
//! ORDER#7#ITEM#1   ORDER#8#ITEM#4   ORDER#7   PROFILE
//!        │ grouped by their first segment, then by the next, …
//!        │ a segment is constant if it is a word in the position of a word; all other segments of the position are one variable
//!        ▼
//! ORDER#{}#ITEM#{}   ORDER#{}   PROFILE
//! ```
//!
//! Values of items must not become constants. So a word is constant only if it names a kind of items in the sample itself, if its items are
//! another kind than those with other segments in its position, or if it is alone in its position. A word that an attribute of the items has
//! as its value is a value.

use std::collections::{BTreeMap, BTreeSet};

use super::key_shapes::{KeySegment, KeyShape, OF_TEXT, SegmentPosition};
use super::kinds::{ENOUGH_PARTITIONS, ItemFeatures, KindNames, KindProfile, is_index_key};
use super::sample::{InferenceHints, TableSample};
use super::texts::{WordStyle, folded, is_nearly_all, segments, text_of, time_length, word_style};

/// The characters that separate segments of keys, the most usual first.
const SEPARATORS: [char; 8] = ['#', '|', '~', ':', '/', '.', '_', '-'];

/// Separators that values rarely contain.
pub(super) const USUAL_SEPARATORS: [char; 2] = ['#', '|'];

/// The most segments of a key; the last one takes the rest.
const MOST_SEGMENTS: usize = 12;

/// More shapes of keys than this, and more words in one position, are values.
const MOST_SHAPES: usize = 60;
pub(super) const MOST_WORDS: usize = 24;

/// A shape, and the items whose keys have it.
pub(super) type ShapeMembers = (KeyShape, Vec<usize>);

/// A sample, and what decides in it which segments of keys are constant.
pub(super) struct KeyEvidence<'s> {
    pub(super) sample: &'s TableSample,
    pub(super) names: KindNames,
    pub(super) features: ItemFeatures,
    /// Words that are whole values of attributes; types, sort keys and copies of keys left out.
    values: BTreeSet<&'s str>,
}

impl<'s> KeyEvidence<'s> {
    /// The evidence of a sample.
    pub(super) fn of(sample: &'s TableSample, hints: &InferenceHints) -> Self {
        let features = ItemFeatures::of(sample);
        let names = KindNames::of(sample, &features, hints);
        let partition = sample.key_names().next();
        let has_values = |name: &str| {
            partition == Some(name)
                || !(names.is_type_attribute(name) || is_index_key(name) || sample.is_key(name))
        };
        let attributes =
            sample.items.iter().flat_map(|item| item.iter()).filter(|(name, _)| has_values(name));
        let texts = attributes.filter_map(|(_, value)| value.as_text());
        let values = texts.filter(|text| word_style(text).is_some()).collect();
        Self { sample, names, features, values }
    }

    /// Whether a word is the value of an attribute: of nearly all of its items, or in lower case of any item. (Attributes that name types do
    /// not count.)
    fn is_value(&self, word: &str, style: WordStyle, members: &[usize]) -> bool {
        let items: Vec<_> = members.iter().take(50).filter_map(|item| self.sample.items.get(*item)).collect();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (name, value) in items.iter().flat_map(|item| item.iter()) {
            let is_own = self.names.is_type_attribute(name) || is_index_key(name) || self.sample.is_key(name);
            if !is_own && text_of(value).is_some_and(|text| text == word) {
                *counts.entry(name).or_default() += 1;
            }
        }
        (style != WordStyle::Upper && self.values.contains(word))
            || counts.values().any(|count| is_nearly_all(*count, items.len()))
    }
}

/// The keys of one key attribute.
pub(super) struct KeyColumn<'s> {
    pub(super) evidence: &'s KeyEvidence<'s>,
    pub(super) is_partition: bool,
    /// For each item, its key.
    pub(super) texts: &'s [String],
}

impl KeyColumn<'_> {
    /// The character that separates the segments of most keys.
    pub(super) fn separator(&self) -> Option<char> {
        let mut best: Option<(usize, char)> = None;
        for separator in SEPARATORS {
            if best.is_some() && OF_TEXT.contains(&separator) {
                break;
            }
            let usual = if USUAL_SEPARATORS.contains(&separator) { self.usual(separator) } else { 0 };
            let covered = usual.max(self.structural(separator));
            if covered > 0 && best.is_none_or(|(most, _)| covered > most) {
                best = Some((covered, separator));
            }
        }
        best.map(|(_, separator)| separator)
    }

    /// The keys that a usual separator separates: those in which a word or a time precedes it, or all if most keys have it.
    fn usual(&self, separator: char) -> usize {
        let heads = self.texts.iter().filter_map(|text| text.split_once(separator)).map(|(head, _)| head);
        let with = heads.clone().count();
        let plain = heads.filter(|head| word_style(head).is_some() || time_length(head) > 0).count();
        if with * 2 > self.texts.len() { with } else { plain }
    }

    /// The keys of which a separator ends a constant at the beginning; 0 if it may be part of values.
    fn structural(&self, separator: char) -> usize {
        let with = (0..self.texts.len())
            .filter(|item| self.texts.get(*item).is_some_and(|text| text.contains(separator)));
        let members: Vec<usize> = with.collect();
        if !self.evidence.features.are_several(&members) {
            return 0;
        }
        let mut search = ShapeSearch::of(self, Some(separator));
        let constants = search.take_constants(members, &[]).1;
        // The one letter of all identifiers, as in `u-17`, is part of them; so may be a word in lower case before such a character.
        let is_word = |(word, _): &(&str, Vec<usize>)| match word_style(word) {
            Some(WordStyle::Lower) => constants.len() > 1 || !OF_TEXT.contains(&separator),
            Some(WordStyle::Upper | WordStyle::Mixed) => true,
            None => word.is_empty() && !OF_TEXT.contains(&separator),
        };
        let is_part = constants.iter().all(|(word, _)| word.chars().count() == 1);
        let words = constants.iter().filter(|one| !is_part && is_word(one));
        words.map(|(_, members)| members.len()).sum()
    }

    /// The shapes of these items' keys.
    pub(super) fn shapes(&self, separator: Option<char>, members: Vec<usize>) -> Vec<ShapeMembers> {
        let mut search = ShapeSearch::of(self, separator);
        search.after_constant(members.clone(), Vec::new());
        if search.shapes.len() > MOST_SHAPES {
            return vec![(KeyShape::open(), members)];
        }
        let shape = |(segments, members): (Vec<KeySegment>, Vec<usize>)| {
            let keys: Vec<&str> =
                members.iter().filter_map(|item| self.texts.get(*item)).map(String::as_str).collect();
            let KeyEvidence { sample, features, .. } = self.evidence;
            let shape = KeyShape { separator, segments };
            if !features.are_several(&members) {
                return (shape, members);
            }
            let names = sample.items_at(&members).flat_map(|item| item.keys());
            let names = names.filter(|name| features.is_shared_name(name)).map(|name| folded(name)).collect();
            (shape.with_prefixes(&keys, &names), members)
        };
        search.shapes.into_iter().map(shape).collect()
    }
}

/// A word in a position, and the items that have it there.
struct PositionWord<'k> {
    text: &'k str,
    style: WordStyle,
    members: &'k [usize],
    profile: KindProfile,
    is_named: bool,
    /// Whether enough items have it to be compared with others.
    is_frequent: bool,
}

impl PositionWord<'_> {
    /// Whether the items of two words are different kinds. Between capitalized words any difference counts if `has_kinds`: other words of
    /// the position are kinds.
    fn is_apart_from(&self, other: &Self, has_kinds: bool) -> bool {
        let is_alike = self.style != WordStyle::Lower && self.style == other.style;
        self.profile.is_another_kind_than(&other.profile)
            || (is_alike && (has_kinds || other.is_named) && self.profile.differs_from(&other.profile))
            || (is_alike && self.profile.has_other_outlines_than(&other.profile))
    }
}

struct ShapeSearch<'k, 's> {
    column: &'k KeyColumn<'s>,
    segments: Vec<Vec<&'k str>>,
    shapes: Vec<(Vec<KeySegment>, Vec<usize>)>,
}

impl<'k, 's> ShapeSearch<'k, 's> {
    fn of(column: &'k KeyColumn<'s>, separator: Option<char>) -> Self {
        let segments = column.texts.iter().map(|text| segments(text, separator)).collect();
        Self { column, segments, shapes: Vec::new() }
    }

    fn segment(&self, item: usize, place: usize) -> Option<&'k str> {
        self.segments.get(item)?.get(place).copied()
    }

    /// The items that end at a place, and the others.
    fn ended(&self, members: Vec<usize>, place: usize) -> (Vec<usize>, Vec<usize>) {
        members.into_iter().partition(|item| self.segment(*item, place).is_none())
    }

    /// Continues a path that is empty or ends with a constant.
    fn after_constant(&mut self, members: Vec<usize>, path: Vec<KeySegment>) {
        let (ended, others) = self.ended(members, path.len());
        if !ended.is_empty() {
            self.shapes.push((path.clone(), ended));
        }
        let values = self.continue_constants(others, &path);
        if !values.is_empty() {
            self.after_variable(values, path);
        }
    }

    /// Adds a variable to a path, and continues it.
    fn after_variable(&mut self, members: Vec<usize>, mut path: Vec<KeySegment>) {
        path.push(KeySegment::Variable(String::new()));
        if path.len() >= MOST_SEGMENTS {
            self.shapes.push((path, members));
            return;
        }
        let (mut ended, others) = self.ended(members, path.len());
        let mut values = self.continue_constants(others, &path);
        if !ended.is_empty() {
            // The separator is part of some values.
            ended.append(&mut values);
            self.shapes.push((path, ended));
        } else if !values.is_empty() {
            self.after_variable(values, path);
        }
    }

    /// Continues the path with each constant; returns the items with other segments.
    fn continue_constants(&mut self, members: Vec<usize>, path: &[KeySegment]) -> Vec<usize> {
        let (values, constants) = self.take_constants(members, path);
        for (text, members) in constants {
            let mut path = path.to_vec();
            path.push(KeySegment::Constant(text.to_owned()));
            self.after_constant(members, path);
        }
        values
    }

    /// The items whose next segment is a value, and the constants with the other items.
    fn take_constants(
        &mut self,
        members: Vec<usize>,
        path: &[KeySegment],
    ) -> (Vec<usize>, Vec<(&'k str, Vec<usize>)>) {
        let mut by_segment: BTreeMap<&'k str, Vec<usize>> = BTreeMap::new();
        for item in members {
            by_segment.entry(self.segment(item, path.len()).unwrap_or_default()).or_default().push(item);
        }
        let constants = self.constants(&by_segment, path);
        let (constants, values): (Vec<_>, Vec<_>) =
            by_segment.into_iter().partition(|(segment, _)| constants.contains(segment));
        (values.into_iter().flat_map(|(_, members)| members).collect(), constants)
    }

    fn constants(
        &self,
        by_segment: &BTreeMap<&'k str, Vec<usize>>,
        path: &[KeySegment],
    ) -> BTreeSet<&'k str> {
        let position = SegmentPosition::after(path);
        let features = &self.column.evidence.features;
        let words = self.words(by_segment);
        let kinds = self.kinds(by_segment, &words);
        let is_constant = |word: &&PositionWord<'_>| {
            let is_kind = word.is_named || kinds.contains(word.text);
            let is_alone = by_segment.len() == 1 && self.is_enough(word, path);
            let may_be = match position {
                SegmentPosition::Start => is_kind || is_alone,
                SegmentPosition::AfterConstant(nearest) => {
                    // A name has two of these signs.
                    let is_upper = word.style == WordStyle::Upper;
                    let has_values = is_upper && self.have_more(word.members, path.len());
                    let signs = [word.is_named, is_upper, has_values, nearest == Some(word.style)];
                    let is_name = signs.into_iter().filter(|is_present| *is_present).count() >= 2;
                    kinds.contains(word.text) || (is_alone && is_name)
                }
                SegmentPosition::AfterVariable(nearest) => {
                    nearest.is_none_or(|nearest| nearest == word.style) && (is_kind || is_alone)
                }
            };
            may_be && features.are_several(word.members)
        };
        // A variable never matches empty text.
        let constants: BTreeSet<&str> = words.iter().filter(is_constant).map(|word| word.text).collect();
        let segments = by_segment.keys().copied();
        segments.filter(|segment| segment.is_empty() || constants.contains(segment)).collect()
    }

    /// Whether all of these items have a segment after a place.
    fn have_more(&self, members: &[usize], place: usize) -> bool {
        members.iter().all(|item| self.segment(*item, place + 1).is_some())
    }

    /// The words of a position that are no values.
    fn words<'m>(&self, by_segment: &'m BTreeMap<&'k str, Vec<usize>>) -> Vec<PositionWord<'m>>
    where
        'k: 'm,
    {
        let KeyEvidence { features, names, .. } = self.column.evidence;
        let word = |(text, members): (&&'k str, &'m Vec<usize>)| {
            let style = word_style(text)?;
            let is_named = names.has(text);
            let is_frequent = features.are_several(members)
                && (is_named || features.partitions(members) >= ENOUGH_PARTITIONS);
            (!self.column.evidence.is_value(text, style, members)).then(|| PositionWord {
                text,
                style,
                members,
                profile: features.profile(members),
                is_named,
                is_frequent,
            })
        };
        by_segment.iter().filter_map(word).collect()
    }

    /// The words whose items are of a kind that no other segment of the position has.
    fn kinds<'m>(
        &self,
        by_segment: &BTreeMap<&'k str, Vec<usize>>,
        words: &[PositionWord<'m>],
    ) -> BTreeSet<&'m str> {
        let (frequent, rare): (Vec<_>, Vec<_>) = words.iter().partition(|word| word.is_frequent);
        if frequent.len() > MOST_WORDS {
            return BTreeSet::new();
        }
        // Segments of few items, and values, are compared together.
        let is_own = |segment: &str| frequent.iter().any(|word| word.text == segment);
        let others = by_segment.iter().filter(|(segment, _)| !is_own(segment) && !segment.is_empty());
        let is_named = |segment: &str| rare.iter().any(|word| word.is_named && word.text == segment);
        let (named, values): (Vec<_>, Vec<_>) = others.partition(|(segment, _)| is_named(segment));
        let pools = [named, values].map(|pool| {
            let members: Vec<usize> = pool.into_iter().flat_map(|(_, members)| members).copied().collect();
            (!members.is_empty()).then(|| self.column.evidence.features.profile(&members))
        });
        let [named, values] = &pools;
        if frequent.len() + usize::from(named.is_some()) + usize::from(values.is_some()) < 2 {
            return BTreeSet::new();
        }
        let is_kind = |word: &&&PositionWord<'m>, known: &[&PositionWord<'m>]| {
            let has_kinds = known.iter().any(|kind| kind.text != word.text && kind.style == word.style);
            let mut others = frequent.iter().filter(|other| other.text != word.text);
            others.all(|other| word.is_apart_from(other, has_kinds))
                && named.as_ref().is_none_or(|pool| word.profile.differs_from(pool))
                && values.as_ref().is_none_or(|pool| word.profile.is_another_kind_than(pool))
        };
        let certain: Vec<&PositionWord<'m>> =
            frequent.iter().filter(|word| is_kind(word, &[])).copied().collect();
        frequent.iter().filter(|word| is_kind(word, &certain)).map(|word| word.text).collect()
    }

    /// Whether a word that is alone in its position has enough items: in capital letters, also items of other kinds count. A word before
    /// another such word may name a tenant.
    fn is_enough(&self, word: &PositionWord<'_>, path: &[KeySegment]) -> bool {
        let KeyColumn { evidence, is_partition, .. } = self.column;
        let next: BTreeSet<_> =
            word.members.iter().map(|item| self.segment(*item, path.len() + 1).unwrap_or_default()).collect();
        if !word.is_named && next.len() == 1 && next.iter().all(|next| word_style(next).is_some()) {
            return false;
        }
        let has_word = |item: &usize| self.segment(*item, path.len()) == Some(word.text);
        let all = || (0..self.segments.len()).filter(has_word).collect::<Vec<_>>();
        evidence.features.are_many(word.members)
            || (word.style == WordStyle::Upper && !is_partition && evidence.features.are_many(&all()))
    }
}
