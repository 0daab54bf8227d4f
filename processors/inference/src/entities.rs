//! The entities of groups of items: keys, attributes, and what a person should check.

use std::collections::BTreeSet;

use afterwrite_model::record::Item;

use super::attributes::{AttributeProfile, AttributeProfiles, LeftOutAttributes};
use super::groups::ItemGroup;
use super::key_search::{KeyEvidence, MOST_WORDS};
use super::key_shapes::KeyShape;
use super::names::{entity_name, variable_names};
use super::sample::TableSample;
use super::texts::word_style;
use super::times::{TimeForm, key_form};

/// A variable of an entity's key.
#[derive(Clone, Debug)]
pub(super) struct EntityVariable {
    pub(super) name: String,
    /// The values in the sample.
    pub(super) values: BTreeSet<String>,
    /// The form of the values, if they are times.
    pub(super) time: Option<TimeForm>,
}

/// An entity: its key, its attributes, and the number of its items in the sample.
#[derive(Clone, Debug)]
pub(super) struct InferredEntity {
    pub(super) name: String,
    /// For each key attribute, its name and its template.
    pub(super) key: Vec<(String, String)>,
    /// The attribute and the value that distinguish its items from others with such keys.
    pub(super) when: Option<(String, String)>,
    /// The variables of the partition key.
    pub(super) partition: Vec<String>,
    /// The number of different prefixes of the partition key: values of all its variables but the last.
    pub(super) prefixes: usize,
    /// All variables of its key, each once.
    pub(super) variables: Vec<EntityVariable>,
    pub(super) attributes: Vec<AttributeProfile>,
    /// The names of all attributes that its items have.
    pub(super) attribute_names: BTreeSet<String>,
    /// Attributes that the model does not declare.
    pub(super) left_out: LeftOutAttributes,
    /// The constants of its key.
    pub(super) constants: Vec<String>,
    /// Sentences about parts that a person should check.
    pub(super) doubts: Vec<String>,
    /// Why it is not described, if so.
    pub(super) refusal: Option<String>,
    pub(super) items: usize,
    /// Whether no partition has two of its items.
    pub(super) is_single: bool,
}

/// The entities of a sample, those with most items first.
pub(super) fn entities(evidence: &KeyEvidence<'_>, groups: &[ItemGroup]) -> Vec<InferredEntity> {
    let all_names = variable_names(evidence, groups);
    let mut taken: Vec<String> = Vec::new();
    let mut entities = Vec::new();
    for (group, names) in groups.iter().zip(all_names) {
        let name = entity_name(evidence.sample, group, &taken);
        taken.push(name.clone());
        entities.push(entity(evidence, groups, group, name, &names));
    }
    entities.sort_by_key(|entity| std::cmp::Reverse(entity.items));
    entities
}

/// The entity of a group. `names` has the names of the variables of each of its shapes.
fn entity(
    evidence: &KeyEvidence<'_>,
    groups: &[ItemGroup],
    group: &ItemGroup,
    name: String,
    names: &[Vec<String>],
) -> InferredEntity {
    let sample = evidence.sample;
    let items: Vec<&Item> = sample.items_at(&group.members).collect();
    let shapes = group.shapes.iter().zip(names).zip(&sample.key);
    let key = shapes.map(|((shape, names), key)| (key.name.clone(), shape.template(names))).collect();
    let partition = names.first().cloned().unwrap_or_default();
    let columns = key_values(sample, group, names);
    let mut variables: Vec<EntityVariable> = Vec::new();
    for (name, values) in &columns {
        if !variables.iter().any(|known| known.name == *name) {
            let time = key_form(values.iter().map(String::as_str));
            variables.push(EntityVariable {
                name: name.clone(),
                values: values.iter().cloned().collect(),
                time,
            });
        }
    }
    let without: BTreeSet<&str> =
        sample.key_names().chain(variables.iter().map(|variable| variable.name.as_str())).collect();
    let discriminator = group.item_type.as_ref().map(|(name, _)| name.as_str());
    let AttributeProfiles { described, left_out } =
        AttributeProfiles::of(evidence, &items, &without, discriminator);
    let partition_name = sample.key_names().next().unwrap_or_default();
    let partitions: BTreeSet<String> = sample.key_texts(partition_name, &group.members).into_iter().collect();
    InferredEntity {
        name,
        key,
        when: group.item_type.clone().filter(|_| group.is_discriminated),
        attributes: described,
        attribute_names: items.iter().flat_map(|item| item.keys()).map(ToString::to_string).collect(),
        left_out,
        constants: group.shapes.iter().flat_map(KeyShape::constants).map(str::to_owned).collect(),
        doubts: doubts(items.len(), &variables),
        refusal: refusal(evidence, groups, group),
        prefixes: different_rows(columns.get(..partition.len().saturating_sub(1)).unwrap_or_default()),
        partition,
        variables,
        items: items.len(),
        is_single: partitions.len() == items.len(),
    }
}

/// The variables of a group's keys, with their value in each item.
fn key_values(sample: &TableSample, group: &ItemGroup, names: &[Vec<String>]) -> Vec<(String, Vec<String>)> {
    let mut columns = Vec::new();
    for ((shape, names), key) in group.shapes.iter().zip(names).zip(&sample.key) {
        let texts = sample.key_texts(&key.name, &group.members);
        let rows: Vec<Vec<String>> = texts.iter().map(|text| shape.values(text)).collect();
        for (place, name) in names.iter().enumerate() {
            let column = rows.iter().map(|row| row.get(place).cloned().unwrap_or_default());
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

/// Sentences about parts of a group's keys that a person should check.
fn doubts(items: usize, variables: &[EntityVariable]) -> Vec<String> {
    let may_name_kinds = |EntityVariable { values, .. }: &&EntityVariable| {
        let are_words = values.iter().all(|value| word_style(value).is_some());
        are_words && (2..=MOST_WORDS.min(items / 2)).contains(&values.len())
    };
    let sentence = |EntityVariable { name, values, .. }: &EntityVariable| {
        format!(
            "`{{{name}}}` has {} values, all words, taken for names of people, tenants or states; if they name kinds of items, declare an entity for each.",
            values.len()
        )
    };
    variables.iter().filter(may_name_kinds).map(sentence).collect()
}

/// Why a group is not described: its items lack the attribute that names the type of the others, or so few items have such keys that the
/// words with which the keys begin may name their kind, although they are variable.
fn refusal(evidence: &KeyEvidence<'_>, groups: &[ItemGroup], group: &ItemGroup) -> Option<String> {
    if let Some(name) = &group.untyped {
        return Some(format!(
            "all others with such keys have their type in {}, these have none or one of too few items; add it, or declare the entity yourself",
            serde_json::json!(name)
        ));
    }
    let sample = evidence.sample;
    let is_few = !evidence.features.are_several(&group.members);
    let begins_with_word =
        group.shapes.iter().enumerate().zip(sample.key_names()).any(|((key, shape), name)| {
            let is_variable = shape.segments.first().is_some_and(|first| first.constant().is_none());
            let alike = groups.iter().filter(|other| other.shapes.get(..key) == group.shapes.get(..key));
            let mut others = alike.filter_map(|other| other.shapes.get(key));
            let has_constants = others.any(|other| other.constants().next().is_some());
            let separator = others.find_map(|other| other.separator).or(shape.separator);
            let texts = sample.key_texts(name, &group.members);
            let is_word = |text: &String| {
                text.split(|one| Some(one) == separator).next().is_some_and(|head| word_style(head).is_some())
            };
            is_variable && has_constants && texts.iter().all(is_word)
        });
    (is_few && begins_with_word).then(|| {
        format!(
            "only {} of {} sampled items have such a key, too few to tell names of kinds from values; take a larger --sample, or declare the entity yourself",
            group.members.len(),
            sample.items.len()
        )
    })
}
