//! Whether two groups of items are different kinds: their attributes and the outlines of their keys, and the names that a sample uses for
//! kinds of items.

use std::collections::{BTreeMap, BTreeSet};

use super::sample::{InferenceHints, TableSample};
use super::texts::{WordStyle, folded, is_plain_name, snake, text_of, word_style};
use super::times::TimeForm;

/// The most types of items that an attribute names.
pub(super) const MOST_TYPES: usize = 20;

/// Characters that divide keys into the parts of which an outline consists.
const DIVIDERS: [char; 5] = ['#', '|', '~', ':', '/'];

/// The shortest beginning of an attribute's name that a word in capital letters abbreviates: `CUST` of `customerId`.
const SHORTEST_ABBREVIATION: usize = 3;

/// A text of fewer items, or of fewer partitions, may be the value of one person: no model has it, whatever else speaks for it.
const LEAST_ITEMS: usize = 3;
const LEAST_PARTITIONS: usize = 2;

/// A text for which nothing speaks but its number has so many items in so many partitions.
const ENOUGH_ITEMS: usize = 5;
pub(super) const ENOUGH_PARTITIONS: usize = 3;

/// A name of several words has at most so many, each of this length at least.
const MOST_PARTS: usize = 3;
const SHORTEST_PART: usize = 2;

/// A feature of items, as a number: an attribute, or an outline of the keys.
type Feature = usize;

/// The features of each item of a sample.
#[derive(Clone, Debug)]
pub(super) struct ItemFeatures {
    attributes: Vec<Vec<Feature>>,
    outlines: Vec<Feature>,
    partitions: Vec<Feature>,
    shared_names: BTreeSet<String>,
}

impl ItemFeatures {
    /// The features of the items of a sample.
    pub(super) fn of(sample: &TableSample) -> Self {
        let mut numbers: BTreeMap<String, Feature> = BTreeMap::new();
        let mut number = |text: String| {
            let next = numbers.len();
            *numbers.entry(text).or_insert(next)
        };
        let mut features = Self {
            attributes: Vec::new(),
            outlines: Vec::new(),
            partitions: Vec::new(),
            shared_names: BTreeSet::new(),
        };
        let mut owners: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, item) in sample.items.iter().enumerate() {
            item.keys().for_each(|name| owners.entry(name).or_default().push(index));
            let own = item.keys().filter(|name| !sample.is_key(name));
            features.attributes.push(own.map(|name| number(format!("has {name}"))).collect());
            let texts: Vec<_> = sample.key_names().map(|name| item.get(name).and_then(text_of)).collect();
            let outlines = texts.iter().flatten().map(|text| outline(text));
            features.outlines.push(number(outlines.collect::<Vec<_>>().join(" ")));
            let partition = texts.first().cloned().flatten().unwrap_or_default();
            features.partitions.push(number(format!("in {partition}")));
        }
        owners.retain(|_, members| features.are_several(members));
        features.shared_names = owners.into_keys().map(str::to_owned).collect();
        features
    }

    /// Whether what these items share may be in a model: it is not the value of one item, or of the items of one partition.
    pub(super) fn are_several(&self, members: &[usize]) -> bool {
        members.len() >= LEAST_ITEMS && self.partitions(members) >= LEAST_PARTITIONS
    }

    /// Whether so many items have a text that it may be in a model although nothing else speaks for it.
    pub(super) fn are_many(&self, members: &[usize]) -> bool {
        members.len() >= ENOUGH_ITEMS && self.partitions(members) >= ENOUGH_PARTITIONS
    }

    /// Whether an attribute's name may be in a model. Other names may be values, as in a map with an entry for each person.
    pub(super) fn is_shared_name(&self, name: &str) -> bool {
        self.shared_names.contains(name)
    }

    /// The number of partitions that these items are in.
    pub(super) fn partitions(&self, members: &[usize]) -> usize {
        let partitions = members.iter().filter_map(|item| self.partitions.get(*item));
        partitions.collect::<BTreeSet<_>>().len()
    }

    /// How many of these items have each feature.
    pub(super) fn profile(&self, members: &[usize]) -> KindProfile {
        let mut profile = KindProfile { items: members.len(), ..KindProfile::default() };
        for item in members {
            for feature in self.attributes.get(*item).into_iter().flatten() {
                *profile.attributes.entry(*feature).or_default() += 1;
            }
            if let Some(outline) = self.outlines.get(*item) {
                *profile.outlines.entry(*outline).or_default() += 1;
            }
        }
        profile
    }
}

/// A key without its contents: what divides it, and the class of each part (digits, a time, a UUID, other text).
fn outline(key: &str) -> String {
    let class = |part: &str| match part.len() {
        0 => "",
        36 if part.matches('-').count() == 4 => "u",
        _ if part.bytes().all(|byte| byte.is_ascii_digit()) => "9",
        _ if TimeForm::of(part).is_some() => "t",
        _ => "x",
    };
    let parts = key.split_inclusive(DIVIDERS);
    let parts = parts.map(|part| match part.strip_suffix(DIVIDERS) {
        Some(text) => format!("{}{}", class(text), part.get(text.len()..).unwrap_or_default()),
        None => class(part).to_owned(),
    });
    parts.collect()
}

/// The number of items of a group, and how many of them have each feature.
#[derive(Clone, Debug, Default)]
pub(super) struct KindProfile {
    items: usize,
    attributes: BTreeMap<Feature, usize>,
    outlines: BTreeMap<Feature, usize>,
}

impl KindProfile {
    /// Whether the two groups are different kinds of items, and not items of one kind for two people or tenants: each has an attribute that
    /// the other cannot have, and most attributes differ. Items with some additional attributes are not another kind.
    pub(super) fn is_another_kind_than(&self, other: &Self) -> bool {
        self.has_attribute_missing_in(other) && other.has_attribute_missing_in(self) && {
            let names: BTreeSet<&Feature> = self.attributes.keys().chain(other.attributes.keys()).collect();
            let counts = |name: &Feature| {
                let [own, others] =
                    [self, other].map(|group| group.attributes.get(name).copied().unwrap_or(0));
                (own * other.items, others * self.items)
            };
            let shared: usize =
                names.iter().map(|name| counts(name)).map(|(own, others)| own.min(others)).sum();
            let all: usize = names.iter().map(|name| counts(name)).map(|(own, others)| own.max(others)).sum();
            shared * 2 <= all
        }
    }

    /// Whether nearly no item of one group has keys with the outline of an item of the other.
    pub(super) fn has_other_outlines_than(&self, other: &Self) -> bool {
        let shared = |group: &Self, other: &Self| -> usize {
            let shared = group.outlines.iter().filter(|(outline, _)| other.outlines.contains_key(outline));
            shared.map(|(_, count)| *count).sum()
        };
        let is_other = |group: &Self, other: &Self| shared(group, other) * 10 < group.items;
        self.items > 1 && other.items > 1 && is_other(self, other) && is_other(other, self)
    }

    /// Whether one of the two groups has an attribute that the other cannot have, or keys with other outlines.
    pub(super) fn differs_from(&self, other: &Self) -> bool {
        self.has_attribute_missing_in(other)
            || other.has_attribute_missing_in(self)
            || self.has_other_outlines_than(other)
    }

    /// Whether no item of another group has an attribute of this group, and that not by chance.
    fn has_attribute_missing_in(&self, other: &Self) -> bool {
        /// If by chance this many items of a group would have an attribute, and no item has it, the group cannot have it.
        const EXPECTED_ITEMS: usize = 5;
        let decides =
            |count: usize| count * 2 >= self.items || count * other.items >= EXPECTED_ITEMS * self.items;
        let mut missing = self.attributes.iter().filter(|(name, _)| !other.attributes.contains_key(name));
        missing.any(|(_, count)| decides(*count))
    }
}

/// The names of kinds of items that a sample uses itself: values of attributes that name types, and beginnings of attributes' names.
#[derive(Clone, Debug)]
pub(super) struct KindNames {
    /// The attributes that name types, the first the most likely.
    pub(super) type_attributes: Vec<String>,
    names: BTreeSet<String>,
    attributes: BTreeSet<String>,
}

impl KindNames {
    /// The names of a sample.
    pub(super) fn of(sample: &TableSample, features: &ItemFeatures, hints: &InferenceHints) -> Self {
        let attributes: BTreeSet<&str> = features.shared_names.iter().map(String::as_str).collect();
        let mut type_attributes: Vec<String> = hints.type_attribute.iter().cloned().collect();
        let others = attributes.iter().filter(|name| !sample.is_key(name) && hints.type_attribute.is_none());
        let (named, others): (Vec<&str>, Vec<&str>) = others.copied().partition(|name| is_type_name(name));
        type_attributes.extend(named.into_iter().map(str::to_owned));
        type_attributes.extend(
            others.into_iter().filter(|name| divides_kinds(sample, features, name)).map(str::to_owned),
        );
        let mut names = BTreeSet::new();
        for item in &sample.items {
            let types = type_attributes.iter().filter_map(|name| item.get(name.as_str())?.as_text());
            names.extend(types.filter(|text| word_style(text).is_some()).map(|text| singular(&folded(text))));
        }
        names.extend(repeated_heads(sample).into_iter().map(|word| singular(&folded(word))));
        // Other names may be values, such as the addresses of people.
        let plain = attributes.into_iter().chain([sample.table.as_str()]).filter(|name| is_plain_name(name));
        let plain: BTreeSet<String> = plain.filter_map(snake).collect();
        for name in &plain {
            let parts: Vec<&str> = name.split('_').collect();
            names.extend(
                (1..=parts.len())
                    .map(|count| singular(&parts.iter().copied().take(count).collect::<String>())),
            );
        }
        Self { type_attributes, names, attributes: plain }
    }

    /// Whether a word names a kind of items.
    pub(super) fn has(&self, word: &str) -> bool {
        // Without the version of `$tasks_1`.
        let plain = folded(word).trim_end_matches(|last: char| last.is_ascii_digit()).to_owned();
        let is_abbreviation =
            plain.len() >= SHORTEST_ABBREVIATION && word_style(word) == Some(WordStyle::Upper);
        self.has_words(&plain, MOST_PARTS)
            || (is_abbreviation && self.attributes.iter().any(|name| name.starts_with(&plain)))
    }

    /// Whether a word is a name, or several names together: `ISSUECOMMENT`.
    fn has_words(&self, word: &str, most: usize) -> bool {
        let begins_with_one = |end: usize| {
            word.split_at_checked(end).is_some_and(|(head, tail)| {
                tail.len() >= SHORTEST_PART
                    && self.names.contains(&singular(head))
                    && self.has_words(tail, most - 1)
            })
        };
        self.names.contains(&singular(word)) || (most > 1 && (SHORTEST_PART..word.len()).any(begins_with_one))
    }

    /// Whether an attribute names types.
    pub(super) fn is_type_attribute(&self, name: &str) -> bool {
        self.type_attributes.iter().any(|known| known == name)
    }
}

/// The words in capital letters with which both keys of items begin, such as `REPO#7` and `REPO#7`, in several partitions.
fn repeated_heads(sample: &TableSample) -> Vec<&str> {
    let mut partitions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for item in &sample.items {
        let texts: Vec<&str> = sample.key_names().filter_map(|name| item.get(name)?.as_text()).collect();
        let [partition, sort] = texts.as_slice() else { continue };
        if let Some((word, _)) = partition.split_once(DIVIDERS)
            && word_style(word) == Some(WordStyle::Upper)
            && sort.split_once(DIVIDERS).is_some_and(|(own, _)| own == word)
        {
            partitions.entry(word).or_default().insert(partition);
        }
    }
    partitions.retain(|_, partitions| partitions.len() >= ENOUGH_PARTITIONS);
    if partitions.len() > MOST_TYPES { Vec::new() } else { partitions.into_keys().collect() }
}

/// Whether an attribute of this name names the type of an item: `EntityType`, `_model_name`, `__typename`, `_et`, `__edb_e__`.
fn is_type_name(name: &str) -> bool {
    const PARTS: [&str; 4] = ["type", "kind", "model", "entity"];
    const ENDINGS: [&str; 4] = ["", "name", "type", "kind"];
    let plain = folded(name);
    let is_usual = PARTS.iter().any(|part| ENDINGS.iter().any(|ending| plain == format!("{part}{ending}")));
    is_usual || ["et", "edbe", "itemtype", "recordtype", "objecttype"].contains(&plain.as_str())
}

/// Whether an attribute's values are words of which each has items of another kind than all others.
fn divides_kinds(sample: &TableSample, features: &ItemFeatures, name: &str) -> bool {
    let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, item) in sample.items.iter().enumerate() {
        let value =
            item.get(name).and_then(|value| value.as_text()).filter(|text| word_style(text).is_some());
        let Some(word) = value else { return false };
        groups.entry(word).or_default().push(index);
        if groups.len() > MOST_TYPES {
            return false;
        }
    }
    let profiles: Vec<KindProfile> = groups.values().map(|members| features.profile(members)).collect();
    let is_kind = |place: usize, own: &KindProfile| {
        profiles
            .iter()
            .enumerate()
            .all(|(other, profile)| other == place || own.is_another_kind_than(profile))
    };
    groups.len() > 1
        && groups.values().all(|members| members.len() > 1)
        && profiles.iter().enumerate().all(|(place, own)| is_kind(place, own))
}

/// A word without the ending of a plural.
pub(super) fn singular(word: &str) -> String {
    match (word.strip_suffix("ies"), word.strip_suffix('s')) {
        (Some(stem), _) if stem.len() > 1 => format!("{stem}y"),
        (_, Some(stem)) if stem.len() > 1 && !stem.ends_with('s') => stem.to_owned(),
        _ => word.to_owned(),
    }
}

/// Whether an attribute of this name holds a key of an index: a copy of other values.
pub(super) fn is_index_key(name: &str) -> bool {
    let lower = name.to_lowercase();
    lower.ends_with("pk") || lower.ends_with("sk")
}
