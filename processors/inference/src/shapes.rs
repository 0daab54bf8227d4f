//! Key texts → shapes: which segments are constant, and which are variable.
//!
//! ```text
//! ORDER#7#ITEM#1   ORDER#8#ITEM#4   ORDER#7   PROFILE
//!        │ grouped by their first segment, then by the next, …
//!        │ a segment is constant if it is a word in the place of a word; all other segments of the place are one variable
//!        ▼
//! ORDER#{}#ITEM#{}   ORDER#{}   PROFILE
//! ```
//!
//! Values of items must not become constants. So words are constants only where names usually are: at the beginning, and after a value.
//! Of several words in one place, those are constants that name a kind of items, or whose items are another kind than the others'. A word
//! that is alone in its place is constant if enough items have it. A word that an attribute of the items has as its value is a value.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite_model::record::Item;

use super::attribute_names::{is_index_key, is_type_name};
use super::evidence::{FeatureCounts, ItemFeatures, is_nearly_all};
use super::texts::{WordStyle, segments, text_of, word_style};
use super::vocabulary::KindVocabulary;

/// The most segments that a shape distinguishes; further ones are part of the last variable.
const MOST_SEGMENTS: usize = 12;

/// More different words than this in one place are values, unless they name kinds of items.
const MOST_WORDS: usize = 24;

/// A word that does not name a kind is constant if so many items in so many partitions have it.
pub(super) const ENOUGH_ITEMS: usize = 5;
const ENOUGH_PARTITIONS: usize = 3;

/// Words that name an item of its partition, in lower case.
const USUAL_WORDS: [&str; 16] = [
    "metadata", "meta", "profile", "info", "details", "detail", "config", "settings", "summary", "header",
    "state", "root", "self", "stats", "data", "main",
];

/// Whether a word usually names an item of its partition.
pub(super) fn is_usual_word(word: &str) -> bool {
    USUAL_WORDS.contains(&word.to_lowercase().as_str())
}

/// A segment of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum KeySegment {
    Constant(String),
    /// Any text. The last segment of a shape takes all that is left.
    Variable,
}

impl KeySegment {
    /// The text, if it is constant.
    pub(super) fn constant(&self) -> Option<&str> {
        match self {
            Self::Constant(text) => Some(text),
            Self::Variable => None,
        }
    }
}

/// The shape of a key attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyShape {
    pub(super) separator: Option<char>,
    pub(super) segments: Vec<KeySegment>,
}

impl KeyShape {
    /// A shape that matches every key.
    pub(super) fn open() -> Self {
        Self { separator: None, segments: vec![KeySegment::Variable] }
    }

    /// The shape as a template, with a name for each variable.
    pub(super) fn template(&self, names: &[String]) -> String {
        let mut names = names.iter();
        let segments = self.segments.iter().map(|segment| match segment {
            KeySegment::Constant(text) => text.clone(),
            KeySegment::Variable => format!("{{{}}}", names.next().map_or("", String::as_str)),
        });
        let separator = self.separator.map(String::from).unwrap_or_default();
        segments.collect::<Vec<_>>().join(&separator)
    }

    /// The values of the variables in a key of this shape.
    pub(super) fn values(&self, text: &str) -> Vec<String> {
        let parts = segments(text, self.separator);
        let separator = self.separator.map(String::from).unwrap_or_default();
        let last = self.segments.len().saturating_sub(1);
        let variables = self.segments.iter().enumerate();
        let variables = variables.filter(|(_, segment)| segment.constant().is_none());
        let value = |index: usize| match index == last {
            true => parts.get(index..).unwrap_or_default().join(&separator),
            false => parts.get(index).copied().unwrap_or_default().to_owned(),
        };
        variables.map(|(index, _)| value(index)).collect()
    }

    /// The constants, in order.
    pub(super) fn constants(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(KeySegment::constant)
    }

    /// For each variable, the constant right before it, and how many variables are between them.
    pub(super) fn prefixes(&self) -> Vec<(Option<&str>, usize)> {
        let (mut prefix, mut distance, mut prefixes) = (None, 0, Vec::new());
        for segment in &self.segments {
            match segment {
                KeySegment::Constant(text) => (prefix, distance) = (Some(text.as_str()), 0),
                KeySegment::Variable => {
                    prefixes.push((prefix, distance));
                    distance += 1;
                }
            }
        }
        prefixes
    }

    /// The number of variables.
    pub(super) fn variables(&self) -> usize {
        self.prefixes().len()
    }
}

/// A shape, and the items whose keys have it.
pub(super) type ShapeMembers = (KeyShape, Vec<usize>);

/// The keys of one key attribute.
pub(super) struct KeyTexts<'s> {
    pub(super) items: &'s [Item],
    /// The names of the table's key attributes.
    pub(super) key_names: &'s [&'s str],
    /// Words that are whole values of other attributes.
    pub(super) values: &'s BTreeSet<&'s str>,
    /// For each item, its key.
    pub(super) texts: &'s [String],
    pub(super) features: &'s ItemFeatures,
    pub(super) vocabulary: &'s KindVocabulary,
    pub(super) separator: Option<char>,
}

impl KeyTexts<'_> {
    /// The shapes of these items' keys.
    pub(super) fn shapes(&self, members: Vec<usize>) -> Vec<ShapeMembers> {
        let mut search = ShapeSearch {
            keys: self,
            segments: self.texts.iter().map(|text| segments(text, self.separator)).collect(),
            shapes: Vec::new(),
        };
        search.after_constant(members, Vec::new());
        let shapes = search.shapes.into_iter();
        shapes
            .map(|(segments, members)| (KeyShape { separator: self.separator, segments }, members))
            .collect()
    }
}

/// The place of a segment.
#[derive(Clone, Copy)]
enum SegmentPlace {
    Start,
    AfterConstant(Option<WordStyle>),
    /// With the style of the nearest constant.
    AfterVariable(Option<WordStyle>),
}

struct ShapeSearch<'k, 's> {
    keys: &'k KeyTexts<'s>,
    segments: Vec<Vec<&'k str>>,
    shapes: Vec<(Vec<KeySegment>, Vec<usize>)>,
}

impl<'k> ShapeSearch<'k, '_> {
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
        let values = self.take_constants(others, &path);
        if !values.is_empty() {
            self.after_variable(values, path);
        }
    }

    /// Adds a variable to a path, and continues it.
    fn after_variable(&mut self, members: Vec<usize>, mut path: Vec<KeySegment>) {
        path.push(KeySegment::Variable);
        if path.len() >= MOST_SEGMENTS {
            self.shapes.push((path, members));
            return;
        }
        let (mut ended, others) = self.ended(members, path.len());
        let mut values = self.take_constants(others, &path);
        if !ended.is_empty() {
            // The separator is part of some values.
            ended.append(&mut values);
            self.shapes.push((path, ended));
        } else if !values.is_empty() {
            self.after_variable(values, path);
        }
    }

    /// Continues the path with each constant; returns the items with other segments.
    fn take_constants(&mut self, members: Vec<usize>, path: &[KeySegment]) -> Vec<usize> {
        let mut by_segment: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for item in members {
            by_segment.entry(self.segment(item, path.len()).unwrap_or_default()).or_default().push(item);
        }
        let constants = self.constants(&by_segment, path);
        let mut values = Vec::new();
        for (segment, mut members) in by_segment {
            if constants.contains(segment) {
                let mut path = path.to_vec();
                path.push(KeySegment::Constant(segment.to_owned()));
                self.after_constant(members, path);
            } else {
                values.append(&mut members);
            }
        }
        values
    }

    fn constants(
        &self,
        by_segment: &BTreeMap<&'k str, Vec<usize>>,
        path: &[KeySegment],
    ) -> BTreeSet<&'k str> {
        let nearest = path.iter().rev().find_map(KeySegment::constant).map(word_style);
        let place = match path.last() {
            None => SegmentPlace::Start,
            // After a separator that begins the key.
            Some(KeySegment::Constant(text)) if text.is_empty() && path.len() == 1 => SegmentPlace::Start,
            Some(KeySegment::Constant(_)) => SegmentPlace::AfterConstant(nearest.flatten()),
            Some(KeySegment::Variable) => SegmentPlace::AfterVariable(nearest.flatten()),
        };
        let group = SegmentGroup {
            total: by_segment.values().map(Vec::len).sum(),
            all: by_segment.len(),
            kinds: self.kinds(by_segment),
            different: self.different(by_segment),
        };
        let is_constant = |segment: &str, members: &[usize]| match (segment.is_empty(), word_style(segment)) {
            // A variable never matches empty text.
            (true, _) => true,
            (false, None) => false,
            (false, Some(style)) => self.is_constant((segment, style), members, place, &group),
        };
        let constants = by_segment.iter().filter(|(segment, members)| is_constant(segment, members));
        constants.map(|(segment, _)| *segment).collect()
    }

    /// The words whose items are another kind than those of every other word of the place. Any difference distinguishes them from a word that
    /// names a kind of items; from other words, they must differ as two kinds do.
    fn kinds(&self, by_segment: &BTreeMap<&'k str, Vec<usize>>) -> BTreeSet<&'k str> {
        let words = by_segment.iter().filter(|(segment, _)| word_style(segment).is_some());
        let words: Vec<(&&str, &Vec<usize>)> = words.collect();
        if words.len() < 2 || words.len() > MOST_WORDS {
            return BTreeSet::new();
        }
        // Words of few items are compared together: those that name kinds of items, and the others.
        let [mut named, mut rare] = [true, false].map(WordFeatures::of_several);
        let mut frequent = Vec::new();
        for (segment, members) in words {
            let (counts, is_named) =
                (self.keys.features.counts(members), self.keys.vocabulary.names(segment));
            match (self.is_enough(members), is_named) {
                (true, _) => frequent.push(WordFeatures { word: Some(*segment), is_named, counts }),
                (false, true) => named.counts.add(&counts),
                (false, false) => rare.counts.add(&counts),
            }
        }
        let together = [named, rare];
        let is_kind = |own: &&WordFeatures<'_>| {
            let others = frequent.iter().filter(|other| other.word != own.word);
            let together = together.iter().filter(|words| !words.counts.is_empty());
            others.chain(together).all(|other| own.differs_from(other))
        };
        frequent.iter().filter(is_kind).filter_map(|own| own.word).collect()
    }

    /// The usual words whose items differ from those of all other segments of the place together.
    fn different(&self, by_segment: &BTreeMap<&'k str, Vec<usize>>) -> BTreeSet<&'k str> {
        let usual = by_segment.iter().filter(|(segment, _)| is_usual_word(segment));
        let different = usual.filter(|(segment, members)| {
            let others = by_segment.iter().filter(|(other, _)| other != segment);
            let others: Vec<usize> = others.flat_map(|(_, members)| members).copied().collect();
            let features = self.keys.features;
            others.is_empty() || features.counts(members).differs_from(&features.counts(&others))
        });
        different.map(|(segment, _)| *segment).collect()
    }

    fn is_enough(&self, members: &[usize]) -> bool {
        members.len() >= ENOUGH_ITEMS && self.keys.features.partitions(members) >= ENOUGH_PARTITIONS
    }

    /// Whether most of these items have further segments.
    fn have_more(&self, members: &[usize], place: usize) -> bool {
        members.iter().filter(|item| self.segment(**item, place + 1).is_some()).count() * 2 > members.len()
    }

    fn is_constant(
        &self,
        (segment, style): (&str, WordStyle),
        members: &[usize],
        place: SegmentPlace,
        group: &SegmentGroup<'_>,
    ) -> bool {
        let is_usual = is_usual_word(segment);
        let is_named = self.keys.vocabulary.names(segment);
        let is_alone = group.all == 1 && self.is_enough(members);
        let is_kind = is_named || group.kinds.contains(segment);
        let may_be = match place {
            SegmentPlace::Start => is_kind || is_alone || (is_usual && !self.have_more(members, 0)),
            SegmentPlace::AfterConstant(nearest) => {
                // A name has two of these signs.
                let signs = [is_named, style == WordStyle::Upper, nearest == Some(style)];
                let is_name = signs.into_iter().filter(|is_present| *is_present).count() >= 2;
                group.different.contains(segment) || (is_alone && is_name)
            }
            SegmentPlace::AfterVariable(nearest) => {
                nearest.unwrap_or(style) == style && (is_kind || is_alone || is_usual)
            }
        };
        let is_frequent = members.len() > 1 || group.total <= 20;
        let is_value = style != WordStyle::Upper && self.keys.values.contains(segment);
        may_be && is_frequent && !is_value && !self.is_attribute_value(segment, members)
    }

    /// Whether an attribute of nearly all of these items has this value. (An attribute that names their type does not count.)
    fn is_attribute_value(&self, segment: &str, members: &[usize]) -> bool {
        let items: Vec<&Item> =
            members.iter().take(50).filter_map(|item| self.keys.items.get(*item)).collect();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (name, value) in items.iter().flat_map(|item| item.iter()) {
            let is_own = is_type_name(name) || is_index_key(name) || self.keys.key_names.contains(&&**name);
            if !is_own && text_of(value).is_some_and(|text| text == segment) {
                *counts.entry(name).or_default() += 1;
            }
        }
        counts.values().any(|count| is_nearly_all(*count, items.len()))
    }
}

/// The segments of one place.
struct SegmentGroup<'k> {
    /// Items.
    total: usize,
    /// Different segments.
    all: usize,
    /// Words whose items are another kind than those of the other words.
    kinds: BTreeSet<&'k str>,
    /// Usual words whose items differ from all others of the place.
    different: BTreeSet<&'k str>,
}

/// The features of the items that have a word in one place.
struct WordFeatures<'k> {
    /// `None` for several words together.
    word: Option<&'k str>,
    /// Whether the word names a kind of items.
    is_named: bool,
    counts: FeatureCounts,
}

impl WordFeatures<'_> {
    /// The features of several words of few items; all or none of them name kinds of items.
    fn of_several(is_named: bool) -> Self {
        Self { word: None, is_named, counts: FeatureCounts::default() }
    }

    /// Whether the items are another kind than those of another word.
    fn differs_from(&self, other: &Self) -> bool {
        match other.is_named {
            true => self.counts.differs_from(&other.counts),
            false => self.counts.is_another_kind_than(&other.counts),
        }
    }
}
