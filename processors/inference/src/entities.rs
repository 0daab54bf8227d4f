//! The entities of groups of items: names, keys, attributes, and what a person should check.

use std::collections::{BTreeMap, BTreeSet};

use super::attributes::{AttributeProfile, profiles};
use super::evidence::{SampleEvidence, is_nearly_all};
use super::groups::ItemGroup;
use super::keys::{KeyShape, MOST_WORDS};
use super::texts::{folded, is_index_key, is_plain_name, snake, text_of, word_style};
use super::times::ValueTime;

/// A variable of a group's key.
#[derive(Clone, Debug)]
pub(super) struct KeyVariable {
    pub(super) name: String,
    /// The place of its key attribute.
    pub(super) key: usize,
    /// The word before it, and whether it follows the word.
    prefix: Option<(String, bool)>,
    /// Its value in each item of the group.
    pub(super) values: Vec<String>,
    /// Its different values.
    pub(super) distinct: BTreeSet<String>,
    /// How its values are read, if they are times.
    pub(super) time: Option<ValueTime>,
    /// The attribute that has the same value in these items.
    same: Option<String>,
    /// The attributes of these items that have other values. A variable of such a name would hide the attribute.
    hidden: BTreeSet<String>,
}

impl KeyVariable {
    /// Names for it, the best first: of the attribute with its value, of the attribute that usually has the values after the same word, of the
    /// word, of the key attribute.
    fn candidates(&self, votes: &BTreeMap<(String, String), usize>, key: &str) -> Vec<String> {
        let (prefix, is_next) = self.prefix.clone().unzip();
        let is_next = is_next.unwrap_or_default();
        let own_votes = votes.iter().filter(|((word, _), _)| is_next && Some(word) == prefix.as_ref());
        let usual = own_votes.max_by_key(|(_, items)| **items).map(|((_, name), _)| name.clone());
        let word = prefix.as_deref().and_then(snake);
        let id = word.as_ref().filter(|_| is_next).map(|word| format!("{word}_id"));
        let key = Some(key).filter(|_| prefix.is_none() && !is_index_key(key) && is_plain_name(key));
        let times = ["at", "date", "time"].into_iter().filter(|_| self.time.is_some());
        let own =
            self.same.clone().into_iter().chain(usual).chain(word.clone().filter(|_| is_next)).chain(id);
        let others = key.into_iter().chain(times).map(str::to_owned).chain(word);
        own.chain(others).chain(["id".to_owned()]).collect()
    }
}

/// For each group, the variables of its keys.
fn key_variables(evidence: &SampleEvidence<'_>, groups: &[ItemGroup]) -> Vec<Vec<KeyVariable>> {
    let mut all: Vec<Vec<KeyVariable>> = groups.iter().map(|group| variables(evidence, group)).collect();
    let mut votes: BTreeMap<(String, String), usize> = BTreeMap::new();
    for variable in all.iter().flatten() {
        if let (Some((prefix, true)), Some(same)) = (&variable.prefix, &variable.same) {
            *votes.entry((prefix.clone(), same.clone())).or_default() += variable.values.len();
        }
    }
    for variables in &mut all {
        for place in 0..variables.len() {
            let (named, others) = variables.split_at_mut(place);
            let Some(variable) = others.first_mut() else { continue };
            let key = evidence.sample.key_names().nth(variable.key).unwrap_or_default();
            let candidates = variable.candidates(&votes, key);
            let free = candidates.iter().find(|name| !variable.hidden.contains(*name));
            let wanted = free.or(candidates.last()).cloned().unwrap_or_default();
            // A name twice in a key means the same value twice.
            let is_other =
                |name: &str| named.iter().any(|own| own.name == name && own.values != variable.values);
            variable.name = numbered(wanted, |name| variable.hidden.contains(name) || is_other(name));
        }
    }
    all
}

/// A name, with a number if it is taken.
fn numbered(name: String, is_taken: impl Fn(&str) -> bool) -> String {
    let with_numbers = (2..).map(|number| format!("{name}_{number}"));
    [name.clone()].into_iter().chain(with_numbers).find(|name| !is_taken(name)).unwrap_or_default()
}

/// The variables of a group's keys, without names.
fn variables(evidence: &SampleEvidence<'_>, group: &ItemGroup) -> Vec<KeyVariable> {
    let mut variables = Vec::new();
    for (key, shape) in group.shapes.iter().enumerate() {
        let texts = evidence.key_texts(key, &group.members);
        let rows: Vec<Vec<String>> = texts.into_iter().map(|text| shape.values(text)).collect();
        for (place, (prefix, distance)) in shape.prefixes().into_iter().enumerate() {
            let values: Vec<String> = rows.iter().filter_map(|row| row.get(place).cloned()).collect();
            let (same, hidden) = compared_attributes(evidence, group, &values, prefix.unwrap_or_default());
            variables.push(KeyVariable {
                name: String::new(),
                key,
                prefix: prefix.map(|prefix| (prefix.to_owned(), distance == 0)),
                time: ValueTime::of_key(values.iter().map(String::as_str)),
                distinct: values.iter().cloned().collect(),
                values,
                same,
                hidden,
            });
        }
    }
    variables
}

/// The attribute that has the value of a variable in nearly all items, and another in none; and the attributes that have another value.
fn compared_attributes(
    evidence: &SampleEvidence<'_>,
    group: &ItemGroup,
    values: &[String],
    prefix: &str,
) -> (Option<String>, BTreeSet<String>) {
    let (mut equal, mut hidden): (BTreeMap<&str, usize>, BTreeSet<String>) =
        (BTreeMap::new(), BTreeSet::new());
    for (item, value) in evidence.items(&group.members).into_iter().zip(values) {
        for (name, own) in item.iter().filter(|(_, own)| !own.is_null()) {
            match text_of(own) {
                Some(text) if text == value.as_str() => *equal.entry(name).or_default() += 1,
                Some(_) | None => drop(hidden.insert(name.to_string())),
            }
        }
    }
    equal.retain(|name, count| {
        let is_copy = is_index_key(name) || evidence.sample.is_key(name);
        let is_name = is_plain_name(name) && evidence.shared_names.contains(name) && !is_copy;
        is_name && !hidden.contains(*name) && is_nearly_all(*count, values.len())
    });
    let has_prefix = |name: &str| folded(name).contains(&folded(prefix));
    let best = equal
        .into_iter()
        .max_by_key(|(name, count)| (*count, has_prefix(name), std::cmp::Reverse(name.len())));
    (best.map(|(name, _)| name.to_owned()), hidden)
}

/// A name for a group that is not taken: its type, or the words of its key. A sort key that is one word, such as `METADATA`, names a part of
/// what the partition key names.
fn entity_name(table: &str, group: &ItemGroup, taken: &BTreeSet<String>) -> String {
    let mut shapes: Vec<&KeyShape> = group.shapes.iter().rev().collect();
    if group.shapes.last().is_some_and(|shape| shape.prefixes().is_empty()) {
        shapes.sort_by_key(|shape| shape.prefixes().is_empty());
    }
    let words = |shape: &KeyShape| {
        let words: Vec<String> = shape.constants().filter_map(snake).filter(|word| word.len() > 1).collect();
        Some(words.join("_")).filter(|name| !name.is_empty())
    };
    let item_type = group.item_type.as_ref().and_then(|(_, item_type)| snake(item_type));
    let wanted = item_type.or_else(|| shapes.into_iter().find_map(words)).or_else(|| snake(table));
    let wanted = wanted.unwrap_or_else(|| "item".to_owned());
    let partition = group.shapes.first().and_then(|shape| shape.constants().next()).and_then(snake);
    let longer = partition.filter(|partition| *partition != wanted && taken.contains(&wanted));
    numbered(longer.map_or(wanted.clone(), |partition| format!("{partition}_{wanted}")), |name| {
        taken.contains(name)
    })
}

/// An entity: its key, its attributes, and the number of its items in the sample.
#[derive(Clone, Debug)]
pub(super) struct InferredEntity {
    pub(super) name: String,
    /// For each key attribute, its name and its template.
    pub(super) key: Vec<(String, String)>,
    /// The attribute and the value that distinguish its items from others with such keys.
    pub(super) when: Option<(String, String)>,
    /// The variables of its key, each once.
    pub(super) variables: Vec<KeyVariable>,
    pub(super) attributes: Vec<AttributeProfile>,
    /// The names of all attributes that its items have.
    pub(super) attribute_names: BTreeSet<String>,
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

impl InferredEntity {
    /// The variables of the partition key.
    pub(super) fn partition(&self) -> Vec<&str> {
        let variables = self.variables.iter().filter(|variable| variable.key == 0);
        variables.map(|variable| variable.name.as_str()).collect()
    }

    /// The different values of a variable or an attribute.
    pub(super) fn values(&self, name: &str) -> Option<&BTreeSet<String>> {
        let variable = self.variables.iter().find(|own| own.name == name).map(|own| &own.distinct);
        variable.or_else(|| self.attributes.iter().find(|own| own.name == name).map(|own| &own.values))
    }
}

/// The entities of a sample, those with most items first.
pub(super) fn entities(evidence: &SampleEvidence<'_>, groups: &[ItemGroup]) -> Vec<InferredEntity> {
    let mut taken = BTreeSet::new();
    let mut entities = Vec::new();
    for (group, variables) in groups.iter().zip(key_variables(evidence, groups)) {
        let name = entity_name(&evidence.sample.table, group, &taken);
        taken.insert(name.clone());
        let refusal = refusal(evidence, groups, group);
        entities.push(InferredEntity { name, refusal, ..entity(evidence, group, variables) });
    }
    entities.sort_by_key(|entity| std::cmp::Reverse(entity.items));
    entities
}

/// The entity of a group, without a name.
fn entity(
    evidence: &SampleEvidence<'_>,
    group: &ItemGroup,
    mut variables: Vec<KeyVariable>,
) -> InferredEntity {
    let sample = evidence.sample;
    let templates = group.shapes.iter().enumerate().map(|(place, shape)| {
        let own = variables.iter().filter(|variable| variable.key == place);
        shape.template(own.map(|variable| variable.name.as_str()))
    });
    let key = sample.key_names().map(str::to_owned).zip(templates).collect();
    let mut names = BTreeSet::new();
    variables.retain(|variable| names.insert(variable.name.clone()));
    names.extend(sample.key_names().map(str::to_owned));
    let discriminator = group.item_type.as_ref().map(|(name, _)| name.as_str());
    let (attributes, left_out) = profiles(evidence, &group.members, &names, discriminator);
    let doubts = variables.iter().filter_map(|variable| doubt(variable, group.members.len()));
    let attribute_names = evidence.items(&group.members).into_iter().flat_map(|item| item.keys());
    InferredEntity {
        name: String::new(),
        key,
        when: group.item_type.clone().filter(|_| group.is_discriminated),
        attributes,
        attribute_names: attribute_names.map(ToString::to_string).collect(),
        constants: group.shapes.iter().flat_map(KeyShape::constants).map(str::to_owned).collect(),
        doubts: doubts.chain(left_out).collect(),
        refusal: None,
        variables,
        items: group.members.len(),
        is_single: evidence.partitions(&group.members) == group.members.len(),
    }
}

/// A sentence about a variable whose values may name kinds.
fn doubt(variable: &KeyVariable, items: usize) -> Option<String> {
    let values = &variable.distinct;
    let are_words = values.iter().all(|value| word_style(value).is_some());
    (are_words && (2..=MOST_WORDS.min(items / 2)).contains(&values.len())).then(|| {
        format!(
            "`{{{}}}` has {} values, all words, taken for names of people, tenants or states; if they name kinds of items, declare an entity for each.",
            variable.name,
            values.len()
        )
    })
}

/// Why a group is not described: its items lack the attribute that names the type of the others, or so few items have such keys that the
/// words with which the keys begin may name their kind, although they are variable.
fn refusal(evidence: &SampleEvidence<'_>, groups: &[ItemGroup], group: &ItemGroup) -> Option<String> {
    if let Some(name) = &group.untyped {
        return Some(format!(
            "all others with such keys have their type in {}, these have none or one of too few items; add it, or declare the entity yourself",
            serde_json::json!(name)
        ));
    }
    let may_name_kind = |key: usize| {
        let alike = groups.iter().filter(|other| other.shapes.get(..key) == group.shapes.get(..key));
        let begins_with_constant =
            |shape: &KeyShape| shape.segments.first().is_some_and(|first| first.constant().is_some());
        let begins = |other: &ItemGroup| other.shapes.get(key).is_some_and(begins_with_constant);
        !begins(group) && alike.clone().any(begins)
    };
    (!evidence.are_several(&group.members) && (0..group.shapes.len()).any(may_name_kind)).then(|| {
        format!(
            "only {} of {} sampled items have such a key, too few to tell names of kinds from values; take a larger --sample, or declare the entity yourself",
            group.members.len(),
            evidence.sample.items.len()
        )
    })
}
