//! Key texts → shapes: which segments are constant, and which are variable.
//!
//! ```text
//! ORDER#7#ITEM#1   ORDER#8#ITEM#4   ORDER#7   PROFILE
//!        │ grouped by their first segment, then by the next, …
//!        │ a segment is constant if it is a word in the position of a word; all other segments of the position are one variable
//!        ▼
//! ORDER#{}#ITEM#{}   ORDER#{}   PROFILE
//! ```

use std::collections::BTreeSet;

use super::evidence::{ItemsByText, KindProfile, LEAST_ITEMS, SampleEvidence};
use super::texts::{WordStyle, folded, is_index_key, segments, word_style};

/// The characters that separate segments of keys, the most usual first; then characters that texts contain too, such as names and addresses.
const SEPARATORS: [char; 5] = ['#', '|', '~', ':', '/'];
const OF_TEXT: [char; 3] = ['.', '_', '-'];

/// Separators that values rarely contain.
pub(super) const USUAL_SEPARATORS: [char; 2] = ['#', '|'];

/// The most segments of a key; the last one takes the rest.
const MOST_SEGMENTS: usize = 12;

/// More words in one position are values.
pub(super) const MOST_WORDS: usize = 24;

/// A segment of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum KeySegment {
    Constant(String),
    /// Any text after the prefix. The last segment of a shape takes all that is left.
    Variable(String),
}

impl KeySegment {
    /// The text, if it is constant.
    pub(super) fn constant(&self) -> Option<&str> {
        match self {
            Self::Constant(text) => Some(text),
            Self::Variable(_) => None,
        }
    }
}

/// The shape of a key attribute: constant words and variables between separators.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyShape {
    pub(super) separator: Option<char>,
    pub(super) segments: Vec<KeySegment>,
}

impl KeyShape {
    /// A shape that matches every key.
    pub(super) fn open() -> Self {
        Self { separator: None, segments: vec![KeySegment::Variable(String::new())] }
    }

    /// The shape as a template, with a name for each variable.
    pub(super) fn template<'n>(&self, mut names: impl Iterator<Item = &'n str>) -> String {
        let segments = self.segments.iter().map(|segment| match segment {
            KeySegment::Constant(text) => text.clone(),
            KeySegment::Variable(prefix) => format!("{prefix}{{{}}}", names.next().unwrap_or_default()),
        });
        segments.collect::<Vec<_>>().join(&self.separator_text())
    }

    /// The values of the variables in a key of this shape.
    pub(super) fn values(&self, text: &str) -> Vec<String> {
        let parts = segments(text, self.separator);
        let value = |(index, segment): (usize, &KeySegment)| {
            let KeySegment::Variable(prefix) = segment else { return None };
            let end = if index + 1 == self.segments.len() { parts.len() } else { index + 1 };
            let value = parts.get(index..end).unwrap_or_default().join(&self.separator_text());
            Some(value.strip_prefix(prefix.as_str()).map(str::to_owned).unwrap_or(value))
        };
        self.segments.iter().enumerate().filter_map(value).collect()
    }

    fn separator_text(&self) -> String {
        self.separator.map(String::from).unwrap_or_default()
    }

    /// The constants, in order.
    pub(super) fn constants(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(KeySegment::constant)
    }

    /// For each variable, the word before it, and the number of variables between them.
    pub(super) fn prefixes(&self) -> Vec<(Option<&str>, usize)> {
        let (mut word, mut distance, mut prefixes) = (None, 0, Vec::new());
        for segment in &self.segments {
            match segment {
                KeySegment::Constant(text) => (word, distance) = (Some(text.as_str()), 0),
                KeySegment::Variable(prefix) => {
                    if !prefix.is_empty() {
                        (word, distance) = (Some(prefix.as_str()), 0);
                    }
                    prefixes.push((word, distance));
                    distance += 1;
                }
            }
        }
        prefixes
    }
}

/// A shape, and the items whose keys have it.
type ShapeMembers = (KeyShape, Vec<usize>);

/// The texts of one key attribute, cut at a separator.
struct KeyColumn<'e> {
    evidence: &'e SampleEvidence<'e>,
    separator: Option<char>,
    /// 0 for the partition key, 1 for the sort key.
    key: usize,
    /// For each item, the segments of its key.
    segments: Vec<Vec<&'e str>>,
}

/// The shapes of the keys of these items. `place` is 0 for the partition key, 1 for the sort key.
pub(super) fn shapes<'e>(
    evidence: &'e SampleEvidence<'e>,
    place: usize,
    separator: Option<char>,
    members: Vec<usize>,
) -> Vec<ShapeMembers> {
    let mut shapes = Vec::new();
    KeyColumn::of(evidence, place, separator).search(members, Vec::new(), &mut shapes);
    shapes
}

/// The character that separates the segments of most keys: it shows most constants. If none does, a usual one that most keys have.
pub(super) fn separator(evidence: &SampleEvidence<'_>, place: usize) -> Option<char> {
    let shown =
        |separator: char| (KeyColumn::of(evidence, place, Some(separator)).constant_heads(), separator);
    let best = |separators: &[char]| {
        let shown =
            separators.iter().rev().map(|separator| shown(*separator)).max_by_key(|(items, _)| *items);
        shown.filter(|(items, _)| *items > 0).map(|(_, separator)| separator)
    };
    let texts = evidence.keys.get(place).map(Vec::as_slice).unwrap_or_default();
    let is_usual =
        |separator: &char| texts.iter().filter(|text| text.contains(*separator)).count() * 2 > texts.len();
    best(&SEPARATORS).or_else(|| USUAL_SEPARATORS.into_iter().find(is_usual)).or_else(|| best(&OF_TEXT))
}

impl<'e> KeyColumn<'e> {
    fn of(evidence: &'e SampleEvidence<'e>, key: usize, separator: Option<char>) -> Self {
        let texts = evidence.keys.get(key).into_iter().flatten();
        Self { evidence, separator, key, segments: texts.map(|text| segments(text, separator)).collect() }
    }

    fn segment(&self, item: usize, place: usize) -> Option<&'e str> {
        self.segments.get(item)?.get(place).copied()
    }

    /// The number of keys that begin with a constant before the separator; 0 if the separator may be part of values.
    fn constant_heads(&self) -> usize {
        let all: Vec<usize> = (0..self.segments.len()).collect();
        let is_cut = |item: &usize| self.segment(*item, 1).is_some();
        if all.iter().filter(|item| is_cut(item)).count() < LEAST_ITEMS {
            return 0;
        }
        let (mut heads, _) = self.divided(&all, &[]);
        heads.values_mut().for_each(|members| members.retain(is_cut));
        heads.retain(|_, members| self.evidence.are_several(members));
        let is_of_text = self.separator.is_some_and(|separator| OF_TEXT.contains(&separator));
        // A word in lower case before such a character may be part of all identifiers, as in `u-17`, which attributes have, too.
        let is_part = |word: &str, members: &[usize]| {
            let texts = self.evidence.key_texts(self.key, members);
            word.len() == 1
                || !self.evidence.sample.key_names().nth(self.key).is_some_and(is_index_key)
                || self.evidence.are_values(texts.into_iter(), members)
        };
        let is_name = |word: &str, members: &[usize]| match word_style(word) {
            Some(WordStyle::Lower) => heads.len() > 1 || !is_of_text || !is_part(word, members),
            Some(WordStyle::Upper | WordStyle::Mixed) => true,
            None => !is_of_text,
        };
        heads.iter().filter(|(word, members)| is_name(word, members)).map(|(_, members)| members.len()).sum()
    }

    /// Adds the shapes of keys that begin with a path.
    fn search(&self, members: Vec<usize>, path: Vec<KeySegment>, shapes: &mut Vec<ShapeMembers>) {
        let is_variable = path.last().is_some_and(|last| last.constant().is_none());
        let place = path.len();
        let is_ended =
            |item: &usize| self.segment(*item, place).is_none() || (is_variable && place >= MOST_SEGMENTS);
        let (mut ended, others): (Vec<usize>, Vec<usize>) = members.into_iter().partition(is_ended);
        let (constants, mut values) = self.divided(&others, &path);
        let with = |segment| path.iter().cloned().chain([segment]).collect();
        for (text, members) in constants {
            self.search(members, with(KeySegment::Constant(text.to_owned())), shapes);
        }
        if is_variable && !ended.is_empty() {
            // The separator is part of some values.
            ended.append(&mut values);
        }
        if !values.is_empty() {
            let prefix = self.prefix(&values, place);
            self.search(values, with(KeySegment::Variable(prefix)), shapes);
        }
        if !ended.is_empty() {
            shapes.push((KeyShape { separator: self.separator, segments: path }, ended));
        }
    }

    /// A text that begins all these segments and is the name of an attribute, as in ElectroDB's `employee_{employee}`.
    fn prefix(&self, members: &[usize], place: usize) -> String {
        let values: Vec<&str> = members.iter().filter_map(|item| self.segment(*item, place)).collect();
        let names: BTreeSet<String> = self.evidence.shared_names.iter().map(|name| folded(name)).collect();
        let first = values.first().copied().unwrap_or_default();
        let ends = first.match_indices(|one| OF_TEXT.contains(&one) || ":=".contains(one));
        let mut heads =
            ends.filter_map(|(end, _)| first.get(..=end)).filter(|head| names.contains(&folded(head)));
        let is_prefix =
            |head: &&str| values.iter().all(|value| value.len() > head.len() && value.starts_with(head));
        let found = heads.rfind(is_prefix).filter(|_| self.evidence.are_several(members));
        found.unwrap_or_default().to_owned()
    }

    /// The items of each constant in the position after a path, and the items that have values there.
    fn divided(&self, members: &[usize], path: &[KeySegment]) -> (ItemsByText<'e>, Vec<usize>) {
        let mut by_segment = ItemsByText::new();
        for item in members {
            by_segment.entry(self.segment(*item, path.len()).unwrap_or_default()).or_default().push(*item);
        }
        let constants = self.constants(&by_segment, path);
        // A variable never matches empty text.
        let constants: ItemsByText<'e> =
            by_segment.extract_if(.., |text, _| text.is_empty() || constants.contains(text)).collect();
        (constants, by_segment.into_values().flatten().collect())
    }

    /// The words of a position that are constants: their items are of a kind that no other segment has, or the sample names them, or they are
    /// alone. After a constant, a word that is alone is written as the constant is, or named.
    fn constants(&self, by_segment: &ItemsByText<'e>, path: &[KeySegment]) -> BTreeSet<&'e str> {
        let words: Vec<PositionWord<'e>> =
            by_segment.iter().filter_map(|(text, members)| self.word(text, members, path.len())).collect();
        let kinds = self.kinds(by_segment, &words);
        let nearest = path.iter().rev().find_map(KeySegment::constant).and_then(word_style);
        let last =
            path.last().and_then(KeySegment::constant).filter(|text| !text.is_empty() || path.len() > 1);
        let is_constant = |word: &&PositionWord<'e>| {
            let is_kind = kinds.contains(word.text);
            let is_alone = by_segment.len() == 1 && word.may_be_alone;
            let is_alike = nearest.is_none_or(|nearest| nearest == word.style);
            match last {
                Some(_) => is_kind || (is_alone && (word.is_named || is_alike)),
                None => is_alike && (is_kind || word.is_named || is_alone),
            }
        };
        words.iter().filter(is_constant).map(|word| word.text).collect()
    }

    /// A word in a position, if several items have it and it is no value.
    fn word(&self, text: &'e str, members: &[usize], place: usize) -> Option<PositionWord<'e>> {
        let evidence = self.evidence;
        let style = word_style(text)?;
        let are_many = evidence.are_many(members);
        // Both keys of the items begin with it, as in `REPO#7` and `REPO#7`.
        let others = evidence.key_texts(1 - self.key, members);
        let begins = |other: &&str| {
            let rest = other.strip_prefix(text).and_then(|rest| rest.chars().next());
            rest.is_some() && rest == self.separator
        };
        let is_first = place == 0 && are_many && style == WordStyle::Upper;
        let begins_both = is_first && !others.is_empty() && others.iter().all(begins);
        let is_named = begins_both || evidence.is_named(text);
        // A word before another word that is alone may name a tenant.
        let next: BTreeSet<_> =
            members.iter().map(|item| self.segment(*item, place + 1).unwrap_or_default()).collect();
        let may_be_tenant = next.len() == 1 && next.iter().all(|next| word_style(next).is_some());
        (evidence.are_several(members) && !evidence.are_values(std::iter::repeat(text), members)).then(|| {
            PositionWord {
                text,
                style,
                profile: evidence.profile(members),
                is_named,
                may_be_alone: are_many && (is_named || !may_be_tenant),
            }
        })
    }

    /// The words whose items are of another kind than the items of every other segment of the position. Next to a kind, any difference makes
    /// a word that is not in lower case another kind.
    fn kinds(&self, by_segment: &ItemsByText<'e>, words: &[PositionWord<'e>]) -> BTreeSet<&'e str> {
        // Segments of few items, and values, are compared together.
        let is_word = |segment: &str| segment.is_empty() || words.iter().any(|word| word.text == segment);
        let others =
            by_segment.iter().filter(|(segment, _)| !is_word(segment)).flat_map(|(_, members)| members);
        let others: Vec<usize> = others.copied().collect();
        let values = (!others.is_empty()).then(|| self.evidence.profile(&others));
        if !(2..=MOST_WORDS).contains(&(words.len() + usize::from(values.is_some()))) {
            return BTreeSet::new();
        }
        let apart = |known: &dyn Fn(&PositionWord<'e>) -> bool| {
            let is_kind = |word: &&PositionWord<'e>| {
                let mut others = words.iter().filter(|other| other.text != word.text);
                let is_next_to_kind = word.style != WordStyle::Lower
                    && others.clone().any(|other| other.style == word.style && known(other));
                others.all(|other| {
                    let differs = is_next_to_kind
                        && other.style == word.style
                        && word.profile.differs_from(&other.profile);
                    differs || word.profile.is_another_kind_than(&other.profile)
                }) && values.as_ref().is_none_or(|values| word.profile.is_another_kind_than(values))
            };
            words.iter().filter(is_kind).map(|word| word.text).collect::<BTreeSet<&str>>()
        };
        let certain = apart(&|word| word.is_named);
        apart(&|word| certain.contains(word.text))
    }
}

/// A word in a position.
struct PositionWord<'e> {
    text: &'e str,
    style: WordStyle,
    profile: KindProfile<'e>,
    /// Whether the sample uses it as the name of a kind.
    is_named: bool,
    /// Whether it is a constant if no other segment is in its position.
    may_be_alone: bool,
}
