//! Names for kinds of items and for the variables of their keys.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite_model::record::Item;

use super::groups::ItemGroup;
use super::key_search::KeyEvidence;
use super::key_shapes::KeyShape;
use super::kinds::is_index_key;
use super::sample::{KeyAttribute, TableSample};
use super::texts::{folded, is_nearly_all, is_plain_name, snake, text_of};
use super::times::key_form;

/// A variable of a key, before it has a name.
struct KeyVariable<'g> {
    /// The word before it.
    prefix: Option<&'g str>,
    /// The number of variables since the prefix.
    distance: usize,
    /// The name of the key attribute.
    attribute: &'g str,
    /// Its value in each item of the group.
    values: Vec<String>,
    /// The attribute that has the same value in these items.
    same: Option<String>,
    /// The attributes of these items that have other values. A variable of such a name would hide the attribute.
    hidden: BTreeSet<String>,
}

/// For each group, the names of the variables of each of its shapes.
pub(super) fn variable_names(evidence: &KeyEvidence<'_>, groups: &[ItemGroup]) -> Vec<Vec<Vec<String>>> {
    let variables: Vec<Vec<Vec<KeyVariable<'_>>>> =
        groups.iter().map(|group| group_variables(evidence, group)).collect();
    let mut votes: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for variable in variables.iter().flatten().flatten().filter(|variable| variable.distance == 0) {
        if let (Some(prefix), Some(same)) = (variable.prefix, &variable.same) {
            *votes.entry(prefix).or_default().entry(same).or_default() += variable.values.len();
        }
    }
    let usual = |prefix: &str| {
        let names = votes.get(prefix)?.iter();
        names.max_by_key(|(_, count)| **count).map(|(name, _)| (*name).to_owned())
    };
    variables.iter().map(|shapes| group_names(shapes, &usual)).collect()
}

fn group_names(shapes: &[Vec<KeyVariable<'_>>], usual: &impl Fn(&str) -> Option<String>) -> Vec<Vec<String>> {
    let mut taken: Vec<(String, &[String])> = Vec::new();
    let mut names = Vec::new();
    for shape in shapes {
        let mut own = Vec::new();
        for variable in shape {
            let candidates = candidate_names(variable, usual);
            let free = candidates.iter().find(|name| !variable.hidden.contains(*name));
            let wanted = free.or(candidates.last()).cloned().unwrap_or_default();
            // A name twice in a key means the same value twice.
            let name = numbered(wanted, |name| {
                variable.hidden.contains(name)
                    || taken.iter().any(|(known, values)| known == name && *values != variable.values)
            });
            taken.push((name.clone(), &variable.values));
            own.push(name);
        }
        names.push(own);
    }
    names
}

/// A name, with a number if it is taken.
fn numbered(name: String, is_taken: impl Fn(&str) -> bool) -> String {
    let with_numbers = (2..).map(|number| format!("{name}_{number}"));
    let mut free = with_numbers.skip_while(|name| is_taken(name));
    if is_taken(&name) { free.next().unwrap_or_default() } else { name }
}

/// Names for a variable, the best first: of the attribute with its value, of the word before it, of the key attribute.
fn candidate_names(variable: &KeyVariable<'_>, usual: &impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut names: Vec<String> = variable.same.iter().cloned().collect();
    if let Some(prefix) = variable.prefix.filter(|_| variable.distance == 0) {
        names.extend(usual(prefix));
        if let Some(name) = snake(prefix) {
            names.extend([name.clone(), format!("{name}_id")]);
        }
    }
    if variable.prefix.is_none() && !is_index_key(variable.attribute) && is_plain_name(variable.attribute) {
        names.push(variable.attribute.to_owned());
    }
    if key_form(variable.values.iter().map(String::as_str)).is_some() {
        names.extend(["at", "date", "time"].map(str::to_owned));
    }
    names.extend(variable.prefix.and_then(snake));
    names.push("id".to_owned());
    names.extend(snake(variable.attribute));
    names
}

/// The variables of each key attribute of a group.
fn group_variables<'g>(evidence: &KeyEvidence<'g>, group: &'g ItemGroup) -> Vec<Vec<KeyVariable<'g>>> {
    let sample = evidence.sample;
    let items: Vec<&Item> = sample.items_at(&group.members).collect();
    let shapes = group.shapes.iter().zip(&sample.key);
    let of_shape = |(shape, key): (&'g KeyShape, &'g KeyAttribute)| {
        let texts = sample.key_texts(&key.name, &group.members);
        let rows: Vec<Vec<String>> = texts.iter().map(|text| shape.values(text)).collect();
        let variables = shape.prefixes().into_iter().enumerate().map(|(place, (prefix, distance))| {
            let values: Vec<String> =
                rows.iter().map(|row| row.get(place).cloned().unwrap_or_default()).collect();
            let (mut equal, hidden) = compared_attributes(&items, &values);
            equal.retain(|name, _| evidence.features.is_shared_name(name));
            let same = same_attribute(sample, items.len(), &values, prefix, &equal, &hidden);
            KeyVariable { prefix, distance, attribute: &key.name, values, same, hidden }
        });
        variables.collect()
    };
    shapes.map(of_shape).collect()
}

/// How many items have each attribute with the value of the variable, and the attributes that have another value in an item.
fn compared_attributes<'i>(
    items: &[&'i Item],
    values: &[String],
) -> (BTreeMap<&'i str, usize>, BTreeSet<String>) {
    let (mut equal, mut hidden): (BTreeMap<&str, usize>, BTreeSet<&str>) = (BTreeMap::new(), BTreeSet::new());
    for (item, value) in items.iter().zip(values) {
        for (name, own) in item.iter().filter(|(_, own)| !own.is_null()) {
            match text_of(own) {
                _ if hidden.contains(&**name) => {}
                Some(text) if text == value.as_str() => *equal.entry(name).or_default() += 1,
                Some(_) | None => drop(hidden.insert(name)),
            }
        }
    }
    (equal, hidden.into_iter().map(str::to_owned).collect())
}

/// The attribute that has the value of the variable in nearly all items, and another in none.
fn same_attribute(
    sample: &TableSample,
    items: usize,
    values: &[String],
    prefix: Option<&str>,
    equal: &BTreeMap<&str, usize>,
    hidden: &BTreeSet<String>,
) -> Option<String> {
    let prefix = folded(prefix.unwrap_or_default());
    let has_prefix = |name: &str| !prefix.is_empty() && folded(name).contains(&prefix);
    // One item, or a short value that all items share, may agree by chance.
    let is_sure =
        values.iter().collect::<BTreeSet<_>>().len() > 2 || values.iter().all(|value| value.len() > 3);
    let same = equal.iter().filter(|(name, count)| {
        is_plain_name(name)
            && !is_index_key(name)
            && !sample.is_key(name)
            && !hidden.contains(**name)
            && is_nearly_all(**count, items)
            && (is_sure || prefix.is_empty() || has_prefix(name))
    });
    let best = same.max_by_key(|(name, count)| (**count, has_prefix(name), std::cmp::Reverse(name.len())));
    best.map(|(name, _)| (*name).to_owned())
}

/// A name for a group that is not taken: its type, or the words of its key.
pub(super) fn entity_name(sample: &TableSample, group: &ItemGroup, taken: &[String]) -> String {
    let wanted = wanted_name(sample, group);
    let is_taken = |name: &str| taken.iter().any(|known| known == name);
    let partition = group.shapes.first().and_then(|shape| shape.constants().next()).and_then(snake);
    let name = match partition.filter(|partition| *partition != wanted && is_taken(&wanted)) {
        Some(partition) => format!("{partition}_{wanted}"),
        None => wanted,
    };
    numbered(name, is_taken)
}

fn wanted_name(sample: &TableSample, group: &ItemGroup) -> String {
    if let Some(name) = group.item_type.as_ref().and_then(|(_, item_type)| snake(item_type)) {
        return name;
    }
    // A sort key that is one word, such as `METADATA`, names a part of what the partition key names.
    let words = |shape: &KeyShape| {
        let words: Vec<String> = shape.constants().filter_map(snake).filter(|word| word.len() > 1).collect();
        (!words.is_empty()).then(|| words.join("_"))
    };
    let mut shapes = group.shapes.iter().rev();
    let with_values = shapes.clone().filter(|shape| !shape.prefixes().is_empty()).find_map(words);
    let is_part = group.shapes.last().is_some_and(|shape| shape.prefixes().is_empty());
    let of_shapes =
        if is_part { with_values.or_else(|| shapes.find_map(words)) } else { shapes.find_map(words) };
    of_shapes.or_else(|| snake(&sample.table)).unwrap_or_else(|| "item".to_owned())
}
