//! The entities of an inferred model.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite_model::record::Item;

use super::attributes::{AttributeProfile, LeftOutAttributes, profiles};
use super::groups::ItemGroup;
use super::names::{entity_names, variable_names};
use super::sample::TableSample;
use super::shapes::KeyShape;
use super::states::StateTexts;
use super::texts::text_of;
use super::times::{TimeForm, key_form};
use super::uncertain::{is_rare_kind, lone_words};
use super::vocabulary::KindVocabulary;

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
    /// The number of different prefixes of the partition key: values of all its variables but the last.
    pub(super) prefixes: usize,
    /// All variables of its key, each once.
    pub(super) variables: Vec<String>,
    pub(super) attributes: Vec<AttributeProfile>,
    /// The names of all attributes that its items have.
    pub(super) attribute_names: BTreeSet<String>,
    /// Attributes that the model does not declare.
    pub(super) left_out: LeftOutAttributes,
    /// The constants of its key.
    pub(super) constants: Vec<String>,
    /// Constants of its key that may be values: each is the only text in its place in the sample.
    pub(super) lone_words: BTreeSet<String>,
    /// Whether it has so few items that variable words of their keys may name their kind.
    pub(super) is_rare: bool,
    /// The attribute that names the type of all other items with such keys, if these lack it.
    pub(super) untyped: Option<String>,
    /// For each variable of its key, the values in the sample.
    pub(super) values: Vec<BTreeSet<String>>,
    /// Variables of the key that are times.
    pub(super) key_times: Vec<(String, TimeForm)>,
    pub(super) items: usize,
    /// Whether no partition has two of its items.
    pub(super) is_single: bool,
}

/// The entities of the groups, those with most items first.
pub(super) fn entities(
    sample: &TableSample,
    groups: &[ItemGroup],
    vocabulary: &KindVocabulary,
) -> Vec<InferredEntity> {
    let names = entity_names(sample, groups);
    let variables = variable_names(sample, groups);
    let sampled = SampledGroups { sample, groups, vocabulary, texts: StateTexts::of(sample) };
    let all = groups.iter().zip(names).zip(variables);
    let entities = all.map(|((group, name), variables)| sampled.entity(group, name, &variables));
    let mut entities: Vec<InferredEntity> = entities.collect();
    entities.sort_by_key(|entity| std::cmp::Reverse(entity.items));
    entities
}

/// The groups of a sample, with the words that decide about their entities.
struct SampledGroups<'s> {
    sample: &'s TableSample,
    groups: &'s [ItemGroup],
    vocabulary: &'s KindVocabulary,
    texts: StateTexts,
}

impl SampledGroups<'_> {
    /// The entity of a group. `names` has the names of the variables of each of its shapes.
    fn entity(&self, group: &ItemGroup, name: String, names: &[Vec<String>]) -> InferredEntity {
        let Self { sample, groups, vocabulary, texts } = self;
        let items: Vec<&Item> = sample.items_at(&group.members).collect();
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
        let without: BTreeSet<&str> =
            sample.key_names().chain(variables.iter().map(String::as_str)).collect();
        let discriminator = group.item_type.as_ref().map(|(name, _)| name.as_str());
        let profiles = profiles(&items, &without, discriminator, texts);
        let columns = key_values(sample, group, names, &items);
        let of_variable = |variable: &String| {
            let column = columns.iter().find(|(name, _)| name == variable);
            column.map(|(_, values)| values.iter().cloned().collect()).unwrap_or_default()
        };
        InferredEntity {
            name,
            key,
            when: group.item_type.clone().filter(|_| group.is_discriminated),
            attributes: profiles.described,
            attribute_names: items.iter().flat_map(|item| item.keys()).map(ToString::to_string).collect(),
            left_out: profiles.left_out,
            constants: group.shapes.iter().flat_map(KeyShape::constants).map(str::to_owned).collect(),
            lone_words: lone_words(groups, group, vocabulary),
            is_rare: is_rare_kind(sample, groups, group),
            untyped: group.untyped.clone(),
            prefixes: different_rows(
                columns.get(..partition_names.len().saturating_sub(1)).unwrap_or_default(),
            ),
            values: variables.iter().map(of_variable).collect(),
            key_times: key_times(&columns),
            items: items.len(),
            is_single: is_single(sample, &items),
            partition: (partition_names, has_text),
            variables,
        }
    }
}

/// The variables of a group's keys, with their value in each item.
fn key_values(
    sample: &TableSample,
    group: &ItemGroup,
    names: &[Vec<String>],
    items: &[&Item],
) -> Vec<(String, Vec<String>)> {
    let mut columns = Vec::new();
    for ((shape, names), key) in group.shapes.iter().zip(names).zip(&sample.key) {
        let texts = items.iter().map(|item| item.get(&*key.name).and_then(text_of).unwrap_or_default());
        let values: Vec<Vec<String>> = texts.map(|text| shape.values(&text)).collect();
        for (place, name) in names.iter().enumerate() {
            let column = values.iter().map(|values| values.get(place).cloned().unwrap_or_default());
            columns.push((name.clone(), column.collect()));
        }
    }
    columns
}

/// The number of different rows that these columns have.
fn different_rows(columns: &[(String, Vec<String>)]) -> usize {
    let items = columns.first().map_or(0, |(_, values)| values.len());
    let row = |item: usize| columns.iter().map(|(_, values)| values.get(item)).collect::<Vec<_>>();
    (0..items).map(row).collect::<BTreeSet<_>>().len()
}

fn key_times(columns: &[(String, Vec<String>)]) -> Vec<(String, TimeForm)> {
    let times = columns.iter();
    let times =
        times.filter_map(|(name, values)| Some((name.clone(), key_form(values.iter().map(String::as_str))?)));
    times.collect::<BTreeMap<_, _>>().into_iter().collect()
}

fn is_single(sample: &TableSample, items: &[&Item]) -> bool {
    let mut seen = BTreeSet::new();
    let partition = sample.key_names().next().unwrap_or_default();
    items.iter().all(|item| item.get(partition).and_then(text_of).is_some_and(|text| seen.insert(text)))
}
