//! Whether items with one word in a place of their keys are another kind than items with another word: they have other attributes, or
//! keys of another number of segments.

use std::collections::{BTreeMap, BTreeSet};

use super::sample::TableSample;
use super::texts::text_of;

/// An attribute that so many items would have by chance, and none has, is one that those items cannot have.
const EXPECTED_ITEMS: usize = 5;

/// The least items of which one can be taken to lack an attribute.
const LEAST_ITEMS: usize = 3;

/// Two groups whose attributes are the same for more than one part in this number are alike.
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
        let key_names: Vec<&str> = sample.key.iter().map(|key| key.name.as_str()).collect();
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
        let mut counts = FeatureCounts { items: members.len(), ..FeatureCounts::default() };
        for list in members.iter().filter_map(|item| self.items.get(*item)) {
            for feature in &list.attributes {
                *counts.attributes.entry(*feature).or_default() += 1;
            }
            for feature in &list.structure {
                *counts.structure.entry(*feature).or_default() += 1;
            }
        }
        counts
    }
}

/// For each feature, the number of items that have it.
type FeatureNumbers = BTreeMap<Feature, usize>;

/// The number of items of a group, and how many of them have each feature.
#[derive(Clone, Debug, Default)]
pub(super) struct FeatureCounts {
    pub(super) items: usize,
    attributes: FeatureNumbers,
    structure: FeatureNumbers,
}

impl FeatureCounts {
    /// Adds the items of another group.
    pub(super) fn add(&mut self, other: &Self) {
        self.items += other.items;
        for (feature, count) in &other.attributes {
            *self.attributes.entry(*feature).or_default() += count;
        }
        for (feature, count) in &other.structure {
            *self.structure.entry(*feature).or_default() += count;
        }
    }

    /// Whether one of the two groups has a feature that the other cannot have.
    pub(super) fn differs_from(&self, other: &Self) -> bool {
        let sorts: [FeaturesOf; 2] = [attributes_of, structure_of];
        sorts.into_iter().any(|of| has_what_lacks(of, self, other) || has_what_lacks(of, other, self))
    }

    /// Whether the two groups are different kinds of items, and not items of one kind for two people or tenants: each has a feature that
    /// the other cannot have, and most attributes differ. Items with some additional attributes are not another kind.
    pub(super) fn is_another_kind_than(&self, other: &Self) -> bool {
        let is_mutual = |of: FeaturesOf| has_what_lacks(of, self, other) && has_what_lacks(of, other, self);
        is_mutual(structure_of) || (is_mutual(attributes_of) && !self.is_like(other))
    }

    /// Whether most attributes that nearly all items of one group have are also those of the other.
    fn is_like(&self, other: &Self) -> bool {
        let usual = |counts: &Self| -> BTreeSet<Feature> {
            let usual = counts.attributes.iter().filter(|(_, count)| **count * 10 >= counts.items * 9);
            usual.map(|(feature, _)| *feature).collect()
        };
        let (own, others) = (usual(self), usual(other));
        own.intersection(&others).count() * ALIKE_PARTS > own.union(&others).count()
    }
}

/// The features of one sort.
type FeaturesOf = fn(&FeatureCounts) -> &FeatureNumbers;

fn attributes_of(counts: &FeatureCounts) -> &FeatureNumbers {
    &counts.attributes
}

fn structure_of(counts: &FeatureCounts) -> &FeatureNumbers {
    &counts.structure
}

/// Whether the items of a group have a feature that those of another cannot have.
fn has_what_lacks(of: FeaturesOf, own: &FeatureCounts, other: &FeatureCounts) -> bool {
    let decides = |count: usize| {
        let is_of_all = count * 10 >= own.items * 9 && other.items >= LEAST_ITEMS;
        is_of_all || count * other.items >= EXPECTED_ITEMS * own.items
    };
    let mut lacking = of(own).iter().filter(|(feature, _)| !of(other).contains_key(feature));
    lacking.any(|(_, count)| *count >= LEAST_ITEMS && decides(*count))
}
