//! Whether items with one word in a place of their keys are another kind than items with another word: they have other attributes, or
//! keys of another number of segments.

use std::collections::{BTreeMap, BTreeSet};

use super::sample::TableSample;
use super::texts::text_of;

/// An attribute that so many items would have by chance, and none has, is one that those items cannot have.
const EXPECTED_ITEMS: usize = 5;

/// The least items of which one can be taken to lack an attribute.
const LEAST_ITEMS: usize = 3;

/// Characters whose number in a key is part of its structure.
const STRUCTURAL: [char; 5] = ['#', '|', '~', ':', '/'];

/// A feature of an item, as a number: an attribute that it has, or the number of segments of its keys.
type Feature = usize;

/// The features of each item of a sample.
#[derive(Clone, Debug)]
pub(super) struct ItemFeatures {
    items: Vec<Vec<Feature>>,
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
        let key_names: Vec<&str> = sample.key.iter().map(|key| key.name.as_str()).collect();
        let partition = key_names.first().copied().unwrap_or_default();
        let (mut items, mut partitions) = (Vec::new(), Vec::new());
        for item in &sample.items {
            let own = item.keys().filter(|name| !key_names.contains(&&***name));
            let mut features: Vec<Feature> = own.map(|name| number(format!("has {name}"))).collect();
            for name in &key_names {
                let text = item.get(*name).and_then(text_of).unwrap_or_default();
                features.extend(STRUCTURAL.into_iter().map(|separator| {
                    number(format!("{name} {separator} {}", text.matches(separator).count()))
                }));
            }
            items.push(features);
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
        let mut features: BTreeMap<Feature, usize> = BTreeMap::new();
        for feature in members.iter().filter_map(|item| self.items.get(*item)).flatten() {
            *features.entry(*feature).or_default() += 1;
        }
        FeatureCounts { items: members.len(), features }
    }
}

/// The number of items of a group, and how many of them have each feature.
#[derive(Clone, Debug, Default)]
pub(super) struct FeatureCounts {
    pub(super) items: usize,
    features: BTreeMap<Feature, usize>,
}

impl FeatureCounts {
    /// Adds the items of another group.
    pub(super) fn add(&mut self, other: &Self) {
        self.items += other.items;
        for (feature, count) in &other.features {
            *self.features.entry(*feature).or_default() += count;
        }
    }

    /// Whether the two groups are different kinds of items.
    pub(super) fn differs_from(&self, other: &Self) -> bool {
        self.has_what_lacks(other) || other.has_what_lacks(self)
    }

    /// Whether these items have a feature that the others cannot have.
    fn has_what_lacks(&self, other: &Self) -> bool {
        let decides = |count: usize| {
            let is_of_all = count * 10 >= self.items * 9 && other.items >= LEAST_ITEMS;
            is_of_all || count * other.items >= EXPECTED_ITEMS * self.items
        };
        let mut own = self.features.iter().filter(|(feature, _)| !other.features.contains_key(feature));
        own.any(|(_, count)| *count >= LEAST_ITEMS && decides(*count))
    }
}
