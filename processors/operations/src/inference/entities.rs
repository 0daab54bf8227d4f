//! The entities of an inferred model.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite::record::Item;

use super::attributes::{AttributeProfile, profiles};
use super::groups::ItemGroup;
use super::names::{entity_names, variable_names};
use super::sample::TableSample;
use super::texts::text_of;
use super::times::{TimeForm, key_form};

/// An entity: its key, its attributes, and the number of its items in the sample.
#[derive(Clone, Debug)]
pub(super) struct InferredEntity {
    pub(super) name: String,
    /// For each key attribute, its name and its template.
    pub(super) key: Vec<(String, String)>,
    /// The attribute and the value that distinguish its items from others with such keys.
    pub(super) when: Option<(String, String)>,
    /// The variables of the partition key, and whether it has text of its own.
    pub(super) partition: (Vec<String>, bool),
    /// All variables of its key, each once.
    pub(super) variables: Vec<String>,
    pub(super) attributes: Vec<AttributeProfile>,
    /// Variables of the key that are times.
    pub(super) key_times: Vec<(String, TimeForm)>,
    pub(super) items: usize,
    /// Whether no partition has two of its items.
    pub(super) is_single: bool,
}

/// The entities of the groups, those with most items first.
pub(super) fn entities(sample: &TableSample, groups: &[ItemGroup]) -> Vec<InferredEntity> {
    let names = entity_names(sample, groups);
    let variables = variable_names(sample, groups);
    let all = groups.iter().zip(names).zip(variables);
    let mut entities: Vec<InferredEntity> =
        all.map(|((group, name), variables)| entity(sample, group, name, &variables)).collect();
    entities.sort_by_key(|entity| std::cmp::Reverse(entity.items));
    entities
}

fn entity(sample: &TableSample, group: &ItemGroup, name: String, names: &[Vec<String>]) -> InferredEntity {
    let items: Vec<&Item> = group.members.iter().filter_map(|index| sample.items.get(*index)).collect();
    let shapes = group.shapes.iter().zip(names).zip(&sample.key);
    let key = shapes.map(|((shape, names), key)| (key.name.clone(), shape.template(names))).collect();
    let partition_names = names.first().cloned().unwrap_or_default();
    let has_text = group.shapes.first().is_some_and(|shape| shape.constants().next().is_some());
    let mut variables: Vec<String> = Vec::new();
    for name in names.iter().flatten() {
        if !variables.contains(name) {
            variables.push(name.clone());
        }
    }
    let key_names = sample.key.iter().map(|key| key.name.clone());
    let without: BTreeSet<String> = key_names.chain(variables.iter().cloned()).collect();
    InferredEntity {
        name,
        key,
        when: group.item_type.clone().filter(|_| group.is_discriminated),
        partition: (partition_names, has_text),
        attributes: profiles(&items, &without),
        key_times: key_times(sample, group, names, &items),
        items: items.len(),
        is_single: is_single(sample, &items),
        variables,
    }
}

fn key_times(
    sample: &TableSample,
    group: &ItemGroup,
    names: &[Vec<String>],
    items: &[&Item],
) -> Vec<(String, TimeForm)> {
    let mut times: BTreeMap<String, TimeForm> = BTreeMap::new();
    for ((shape, names), key) in group.shapes.iter().zip(names).zip(&sample.key) {
        let texts = items.iter().map(|item| item.get(&*key.name).and_then(text_of).unwrap_or_default());
        let values: Vec<Vec<String>> = texts.map(|text| shape.values(&text)).collect();
        for (place, name) in names.iter().enumerate() {
            let column = values.iter().map(|values| values.get(place).map_or("", String::as_str));
            times.extend(key_form(column).map(|form| (name.clone(), form)));
        }
    }
    times.into_iter().collect()
}

fn is_single(sample: &TableSample, items: &[&Item]) -> bool {
    let mut seen = BTreeSet::new();
    let partition = sample.key.first().map_or("", |key| key.name.as_str());
    items.iter().all(|item| item.get(partition).and_then(text_of).is_some_and(|text| seen.insert(text)))
}
