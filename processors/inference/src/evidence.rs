//! Whether items with one word in a place of their keys are another kind than items with another word: they have other attributes, or
//! keys of another number of segments.

use std::collections::{BTreeMap, BTreeSet};

use super::sample::TableSample;
use super::texts::text_of;

/// If by chance this many items of a group would have a feature, and none has it, the group cannot have it.
const EXPECTED_ITEMS: usize = 5;

/// Fewer items than this can have or lack a feature by chance.
const LEAST_ITEMS: usize = 3;

/// Two groups are alike if they share more than one in this many of their usual attributes.
const ALIKE_PARTS: usize = 2;

/// Characters whose number in a key is part of its structure.
const STRUCTURAL: [char; 5] = ['#', '|', '~', ':', '/'];

/// A feature of an item, as a number: an attribute that it has, or the number of segments of its keys.
type Feature = usize;

/// The features of an item.
#[derive(Clone, Debug)]
struct FeatureList {
    attributes: Vec<Feature>,
    /// The numbers of segments of its keys.
    structure: Vec<Feature>,
}

/// The features of each item of a sample.
#[derive(Clone, Debug)]
pub(super) struct ItemFeatures {
    items: Vec<FeatureList>,
    /// For each item, its partition as a number.
    partitions: Vec<usize>,
}

impl ItemFeatures {
    /// The features of the items of a sample.
    pub(super) fn of(sample: &TableSample) -> Self {
        let mut numbers: BTreeMap<String, Feature> = BTreeMap::new();
        let mut number = |text: String| {
            let next = numbers.len();
            *numbers.entry(text).or_insert(next)
        };
        let key_names: Vec<&str> = sample.key_names().collect();
        let partition = key_names.first().copied().unwrap_or_default();
        let (mut items, mut partitions) = (Vec::new(), Vec::new());
        for item in &sample.items {
            let own = item.keys().filter(|name| !key_names.contains(&&***name));
            let attributes = own.map(|name| number(format!("has {name}"))).collect();
            let mut structure = Vec::new();
            for name in &key_names {
                let text = item.get(*name).and_then(text_of).unwrap_or_default();
                structure.extend(STRUCTURAL.into_iter().map(|separator| {
                    number(format!("{name} {separator} {}", text.matches(separator).count()))
                }));
            }
            items.push(FeatureList { attributes, structure });
            let text = item.get(partition).and_then(text_of).unwrap_or_default();
            partitions.push(number(format!("in {text}")));
        }
        Self { items, partitions }
    }

    /// The number of partitions that these items are in.
    pub(super) fn partitions(&self, members: &[usize]) -> usize {
        let partitions = members.iter().filter_map(|item| self.partitions.get(*item));
        partitions.collect::<BTreeSet<_>>().len()
    }

    /// How many of these items have each feature.
    pub(super) fn counts(&self, members: &[usize]) -> FeatureCounts {
        let mut counts = FeatureCounts::default();
        for list in members.iter().filter_map(|item| self.items.get(*item)) {
            counts.attributes.add_item(&list.attributes);
            counts.structure.add_item(&list.structure);
        }
        counts
    }
}

/// The number of items of a group, and how many of them have each feature of one sort.
#[derive(Clone, Debug, Default)]
struct SortCounts {
    items: usize,
    counts: BTreeMap<Feature, usize>,
}

impl SortCounts {
    /// Adds an item with these features.
    fn add_item(&mut self, features: &[Feature]) {
        self.items += 1;
        for feature in features {
            *self.counts.entry(*feature).or_default() += 1;
        }
    }

    /// Adds the items of another group.
    fn add(&mut self, other: &Self) {
        self.items += other.items;
        for (feature, count) in &other.counts {
            *self.counts.entry(*feature).or_default() += count;
        }
    }

    /// Whether this group has a feature that the other group cannot have.
    fn has_feature_missing_in(&self, other: &Self) -> bool {
        let decides = |count: usize| {
            let is_of_all = is_nearly_all(count, self.items) && other.items >= LEAST_ITEMS;
            is_of_all || count * other.items >= EXPECTED_ITEMS * self.items
        };
        let mut lacking = self.counts.iter().filter(|(feature, _)| !other.counts.contains_key(feature));
        lacking.any(|(_, count)| *count >= LEAST_ITEMS && decides(*count))
    }

    /// The features that nearly all items have.
    fn usual(&self) -> BTreeSet<Feature> {
        let usual = self.counts.iter().filter(|(_, count)| is_nearly_all(**count, self.items));
        usual.map(|(feature, _)| *feature).collect()
    }
}

/// The number of items of a group, and how many of them have each feature.
#[derive(Clone, Debug, Default)]
pub(super) struct FeatureCounts {
    attributes: SortCounts,
    structure: SortCounts,
}

impl FeatureCounts {
    /// Whether the group has no items.
    pub(super) fn is_empty(&self) -> bool {
        self.attributes.items == 0
    }

    /// Adds the items of another group.
    pub(super) fn add(&mut self, other: &Self) {
        self.attributes.add(&other.attributes);
        self.structure.add(&other.structure);
    }

    /// Whether one of the two groups has a feature that the other cannot have.
    pub(super) fn differs_from(&self, other: &Self) -> bool {
        let mut sorts = self.sorts_with(other).into_iter();
        sorts.any(|(own, other)| own.has_feature_missing_in(other) || other.has_feature_missing_in(own))
    }

    /// Whether the two groups are different kinds of items, and not items of one kind for two people or tenants: each has a feature that
    /// the other cannot have, and most attributes differ. Items with some additional attributes are not another kind.
    pub(super) fn is_another_kind_than(&self, other: &Self) -> bool {
        let [attributes, structure] = self
            .sorts_with(other)
            .map(|(own, other)| own.has_feature_missing_in(other) && other.has_feature_missing_in(own));
        structure || (attributes && !self.is_like(other))
    }

    /// The attributes of both groups, and the structures of both.
    fn sorts_with<'c>(&'c self, other: &'c Self) -> [(&'c SortCounts, &'c SortCounts); 2] {
        [(&self.attributes, &other.attributes), (&self.structure, &other.structure)]
    }

    /// Whether most attributes that nearly all items of one group have are also those of the other.
    fn is_like(&self, other: &Self) -> bool {
        let (own, others) = (self.attributes.usual(), other.attributes.usual());
        own.intersection(&others).count() * ALIKE_PARTS > own.union(&others).count()
    }
}

/// Whether a number of items is at least nine tenths of all.
pub(super) fn is_nearly_all(count: usize, all: usize) -> bool {
    count * 10 >= all * 9
}
