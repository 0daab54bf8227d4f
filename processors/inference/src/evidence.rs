//! The evidence of a sample for names of its design. A word is such a name only if several items in several partitions have it, and these
//! items share what others lack. All other texts may be values of a person.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use afterwrite_model::record::Item;

use super::sample::{InferenceHints, TableSample};
use super::texts::{folded, is_index_key, is_plain_name, snake, text_of, word_style};

/// A text of fewer items, or of fewer partitions, may be the value of one person: no model has it, whatever else speaks for it.
pub(super) const LEAST_ITEMS: usize = 3;
const LEAST_PARTITIONS: usize = 2;

/// A text for which nothing speaks but its number has so many items in so many partitions.
const ENOUGH_ITEMS: usize = 5;
const ENOUGH_PARTITIONS: usize = 3;

/// Names of attributes that name types, in lower case without `_`.
const TYPE_NAMES: [&str; 16] = [
    "type",
    "typename",
    "itemtype",
    "recordtype",
    "objecttype",
    "kind",
    "kindname",
    "model",
    "modelname",
    "modeltype",
    "entity",
    "entityname",
    "entitytype",
    "entitykind",
    "et",
    "edbe",
];

/// For each text, the indexes of the items that have it.
pub(super) type ItemsByText<'s> = BTreeMap<&'s str, Vec<usize>>;

/// A sample, and the names of its design.
pub(super) struct SampleEvidence<'s> {
    pub(super) sample: &'s TableSample,
    /// For each key attribute, its text in each item.
    pub(super) keys: Vec<Vec<Cow<'s, str>>>,
    /// The attributes that several items have. Other names may be values, as in a map with an entry for each person.
    pub(super) shared_names: BTreeSet<&'s str>,
    /// The attributes that name types: the stated one, or those with a usual name.
    pub(super) type_attributes: BTreeSet<&'s str>,
    /// The attributes whose values may divide items into kinds, although their names are not usual; none if one is stated.
    pub(super) other_attributes: BTreeSet<&'s str>,
    /// Types, and beginnings of names of attributes: folded, in the singular.
    kind_names: BTreeSet<String>,
}

impl<'s> SampleEvidence<'s> {
    /// The evidence of a sample.
    pub(super) fn of(sample: &'s TableSample, hints: &'s InferenceHints) -> Self {
        let text = |item: &'s Item, name| item.get(name).and_then(text_of).unwrap_or_default();
        let texts = |name| sample.items.iter().map(|item| text(item, name)).collect();
        let mut evidence = Self {
            sample,
            keys: sample.key_names().map(texts).collect(),
            shared_names: BTreeSet::new(),
            type_attributes: hints.type_attribute.iter().map(String::as_str).collect(),
            other_attributes: BTreeSet::new(),
            kind_names: BTreeSet::new(),
        };
        let mut owners = ItemsByText::new();
        for (index, item) in sample.items.iter().enumerate() {
            item.keys().for_each(|name| owners.entry(name).or_default().push(index));
        }
        owners.retain(|_, members| evidence.are_several(members));
        evidence.shared_names = owners.into_keys().collect();
        if hints.type_attribute.is_none() {
            let names = evidence.shared_names.iter().copied().filter(|name| !sample.is_key(name));
            let is_usual = |name: &&str| TYPE_NAMES.contains(&folded(name).as_str());
            (evidence.type_attributes, evidence.other_attributes) = names.partition(is_usual);
        }
        evidence.kind_names = evidence.kind_names();
        evidence
    }

    fn kind_names(&self) -> BTreeSet<String> {
        let all: Vec<usize> = (0..self.sample.items.len()).collect();
        let mut names = BTreeSet::new();
        for name in &self.type_attributes {
            names.extend(self.by_word(name, &all).0.into_keys().map(singular));
        }
        for name in self.shared_names.iter().filter(|name| is_plain_name(name)).filter_map(|name| snake(name))
        {
            let ends = name.match_indices('_').map(|(end, _)| end).chain([name.len()]);
            names.extend(ends.filter_map(|end| name.get(..end).map(singular)));
        }
        names
    }

    /// The items with these indexes.
    pub(super) fn items(&self, members: &[usize]) -> Vec<&'s Item> {
        members.iter().filter_map(|index| self.sample.items.get(*index)).collect()
    }

    /// The texts of a key attribute of these items.
    pub(super) fn key_texts(&self, key: usize, members: &[usize]) -> Vec<&str> {
        let Some(texts) = self.keys.get(key) else { return Vec::new() };
        members.iter().filter_map(|item| texts.get(*item)).map(|text| &**text).collect()
    }

    /// The number of partitions that these items are in.
    pub(super) fn partitions(&self, members: &[usize]) -> usize {
        self.key_texts(0, members).into_iter().collect::<BTreeSet<_>>().len()
    }

    /// Whether a text that these items share may be in a model.
    pub(super) fn are_several(&self, members: &[usize]) -> bool {
        members.len() >= LEAST_ITEMS && self.partitions(members) >= LEAST_PARTITIONS
    }

    /// Whether a text that these items share may be in a model although nothing else speaks for it.
    pub(super) fn are_many(&self, members: &[usize]) -> bool {
        members.len() >= ENOUGH_ITEMS && self.partitions(members) >= ENOUGH_PARTITIONS
    }

    /// The items of each word that is the value of an attribute, and the items without such a value.
    pub(super) fn by_word(&self, name: &str, members: &[usize]) -> (ItemsByText<'s>, Vec<usize>) {
        let (mut words, mut others) = (ItemsByText::new(), Vec::new());
        for (index, item) in members.iter().zip(self.items(members)) {
            match item.get(name).and_then(|value| value.as_text()).filter(|text| word_style(text).is_some()) {
                Some(word) => words.entry(word).or_default().push(*index),
                None => others.push(*index),
            }
        }
        (words, others)
    }

    /// Whether a word is a type, or the beginning of an attribute's name. ElectroDB's `$tasks_1` ends with a version.
    pub(super) fn is_named(&self, word: &str) -> bool {
        self.kind_names.contains(&singular(word.trim_end_matches(|last: char| last.is_ascii_digit())))
    }

    /// Whether an attribute has these texts of the items as its values, nearly always. Types, keys and copies of keys have names of the design.
    pub(super) fn are_values<'t>(
        &self,
        texts: impl Iterator<Item = &'t str> + Clone,
        members: &[usize],
    ) -> bool {
        let items = self.items(members.get(..50).unwrap_or(members));
        let is_design = |name: &str| {
            self.type_attributes.contains(&name) || is_index_key(name) || self.sample.is_key(name)
        };
        let mut names = self.shared_names.iter().filter(|name| !is_design(name));
        names.any(|name| {
            let own = items.iter().map(|item| item.get(*name).and_then(|own| own.as_text()));
            let equal = own.zip(texts.clone()).filter(|(own, text)| *own == Some(*text));
            is_nearly_all(equal.count(), items.len())
        })
    }

    /// The features of these items, each with the number of items that have it.
    pub(super) fn profile(&self, members: &[usize]) -> KindProfile<'s> {
        let mut features = BTreeMap::new();
        for item in self.items(members) {
            let names = item.keys().filter(|name| !self.sample.is_key(name)).map(|name| (&**name, 0));
            let texts = self.sample.key_names().filter_map(|name| item.get(name)?.as_text());
            let parts = texts.map(|text| text.matches(['#', '|', '~', ':', '/']).count()).sum();
            for feature in names.chain([("", parts)]) {
                *features.entry(feature).or_default() += 1;
            }
        }
        KindProfile { items: members.len(), features }
    }
}

/// A word in lower case, letters and digits only, without the ending of a plural.
fn singular(word: &str) -> String {
    folded(word).trim_end_matches('s').to_owned()
}

/// Whether a number of items is at least nine tenths of all.
pub(super) fn is_nearly_all(count: usize, all: usize) -> bool {
    count * 10 >= all * 9
}

/// How many items of a group have each feature: an attribute, or a number of parts of its keys.
#[derive(Clone, Debug)]
pub(super) struct KindProfile<'s> {
    items: usize,
    features: BTreeMap<(&'s str, usize), usize>,
}

impl KindProfile<'_> {
    /// Whether the two groups are different kinds of items, and not items of one kind for two people or tenants: each has a feature that
    /// the other cannot have, and most features differ. Items with some additional attributes are not another kind.
    pub(super) fn is_another_kind_than(&self, other: &Self) -> bool {
        let features: BTreeSet<_> = self.features.keys().chain(other.features.keys()).collect();
        let count = |group: &Self, feature| group.features.get(feature).copied().unwrap_or(0);
        let counts = features
            .iter()
            .map(|feature| (count(self, feature) * other.items, count(other, feature) * self.items));
        let (shared, all) = counts
            .fold((0, 0), |(shared, all), (own, others)| (shared + own.min(others), all + own.max(others)));
        shared * 2 <= all && self.has_more_than(other) && other.has_more_than(self)
    }

    /// Whether one of the two groups has a feature that the other cannot have.
    pub(super) fn differs_from(&self, other: &Self) -> bool {
        self.has_more_than(other) || other.has_more_than(self)
    }

    /// Whether no item of the other group has a feature of this group, and that not by chance: half of this group have it, or so many that by
    /// chance 5 items of the other group would have it.
    fn has_more_than(&self, other: &Self) -> bool {
        let mut missing = self.features.iter().filter(|(feature, _)| !other.features.contains_key(feature));
        missing.any(|(_, count)| count * 2 >= self.items || count * other.items >= 5 * self.items)
    }
}
