//! The character that separates the segments of keys.

use std::collections::BTreeMap;

use super::evidence::{FeatureCounts, ItemFeatures, is_nearly_all};
use super::texts::{WordStyle, time_length, word_style};
use super::vocabulary::KindVocabulary;

/// The characters that keys are separated by, the most usual first.
const SEPARATORS: [char; 8] = ['#', '|', '~', ':', '/', '.', '_', '-'];

/// Separators that values rarely contain.
const USUAL: [char; 2] = ['#', '|'];

/// Characters that texts contain too, such as names and addresses.
const OF_TEXT: [char; 3] = ['.', '_', '-'];

/// Kinds of items that a separator other than the usual ones can separate.
const MOST_HEADS: usize = 12;

/// The keys of a sample of which the separator is searched.
pub(super) struct SeparatorSearch<'s> {
    pub(super) texts: &'s [String],
    pub(super) features: &'s ItemFeatures,
    pub(super) vocabulary: &'s KindVocabulary,
}

impl SeparatorSearch<'_> {
    /// The character that separates the segments of most keys.
    pub(super) fn separator(&self) -> Option<char> {
        let mut best: Option<(usize, char)> = None;
        for separator in SEPARATORS {
            let covered =
                if USUAL.contains(&separator) { self.usual(separator) } else { self.structural(separator) };
            if covered > 0 && best.is_none_or(|(most, _)| covered > most) {
                best = Some((covered, separator));
            }
        }
        best.map(|(_, separator)| separator)
    }

    /// The keys that a usual separator separates: those in which a word or a time precedes it, or all if most keys have it.
    fn usual(&self, separator: char) -> usize {
        let with = self.texts.iter().filter(|text| text.contains(separator)).count();
        let heads = self.texts.iter().filter_map(|text| text.split_once(separator));
        let plain = heads.filter(|(head, _)| word_style(head).is_some() || time_length(head) > 0).count();
        if with * 2 > self.texts.len() { with } else { plain }
    }

    /// The keys that another separator separates; 0 if it may be part of values. It is structural only if few words precede it, and
    /// each is the name of a kind of items, or of items that are another kind than those of the other words.
    fn structural(&self, separator: char) -> usize {
        let mut heads: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (item, text) in self.texts.iter().enumerate() {
            if let Some((head, _)) = text.split_once(separator)
                && word_style(head).is_some()
            {
                heads.entry(head).or_default().push(item);
            }
        }
        let covered: usize = heads.values().map(Vec::len).sum();
        let is_named = heads.keys().all(|head| self.vocabulary.names(head));
        let is_sole = heads.len() == 1 && covered == self.texts.len() && self.is_sole_name(&heads, separator);
        let is_few = covered > 2 && heads.len() <= MOST_HEADS.min(covered / 10 + 2);
        // The one letter of all identifiers, as in `u-17`, is part of them.
        let is_part = heads.keys().all(|head| head.len() == 1);
        let is_structural = is_few && !is_part && (is_named || is_sole || self.are_kinds(&heads, covered));
        if is_structural { covered } else { 0 }
    }

    /// Whether the one word that begins all keys is a name: it is in capital letters or CamelCase, or precedes a character that words
    /// of a text rarely precede.
    fn is_sole_name(&self, heads: &BTreeMap<&str, Vec<usize>>, separator: char) -> bool {
        let is_spread = heads.values().all(|members| self.features.partitions(members) > 2);
        let is_plain = heads.keys().all(|head| word_style(head) == Some(WordStyle::Lower));
        is_spread && (!is_plain || !OF_TEXT.contains(&separator))
    }

    /// Whether nearly all items have words of which each is of another kind of items, or names one.
    fn are_kinds(&self, heads: &BTreeMap<&str, Vec<usize>>, covered: usize) -> bool {
        let counts: Vec<FeatureCounts> =
            heads.values().map(|members| self.features.counts(members)).collect();
        let is_kind = |place: usize, head: &str, members: &[usize]| {
            let own = counts.get(place);
            let mut others = counts.iter().enumerate().filter(|(other, _)| *other != place);
            let differs = others.all(|(_, other)| own.is_some_and(|own| own.is_another_kind_than(other)));
            self.vocabulary.names(head)
                || (heads.len() > 1 && differs && self.features.partitions(members) > 2)
        };
        let kinds =
            heads.iter().enumerate().filter(|(place, (head, members))| is_kind(*place, head, members));
        let of_kinds: usize = kinds.map(|(_, (_, members))| members.len()).sum();
        of_kinds > 0 && is_nearly_all(of_kinds, covered)
    }
}
