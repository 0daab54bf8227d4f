//! Names for kinds of items and for the variables of their keys.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite_model::record::Item;

use super::attribute_names::is_index_key;
use super::evidence::is_nearly_all;
use super::groups::ItemGroup;
use super::sample::TableSample;
use super::shapes::{KeyShape, is_usual_word};
use super::texts::{is_plain_name, snake, text_of};
use super::times::key_form;

/// A variable of a key, before it has a name.
struct KeyVariable<'g> {
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
pub(super) fn variable_names(sample: &TableSample, groups: &[ItemGroup]) -> Vec<Vec<Vec<String>>> {
    let variables: Vec<Vec<Vec<KeyVariable<'_>>>> =
        groups.iter().map(|group| group_variables(sample, group)).collect();
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

fn group_variables<'g>(sample: &'g TableSample, group: &'g ItemGroup) -> Vec<Vec<KeyVariable<'g>>> {
    let items: Vec<&Item> = sample.items_at(&group.members).collect();
    let key_names: BTreeSet<&str> = sample.key_names().collect();
    let shapes = group.shapes.iter().zip(&sample.key);
    shapes.map(|(shape, key)| shape_variables(shape, &key.name, &items, &key_names)).collect()
}

fn shape_variables<'g>(
    shape: &'g KeyShape,
    attribute: &'g str,
    items: &[&Item],
    key_names: &BTreeSet<&str>,
) -> Vec<KeyVariable<'g>> {
    let keys = items.iter().map(|item| {
        let text = item.get(attribute).and_then(text_of).unwrap_or_default();
        shape.values(&text)
    });
    let mut columns: Vec<Vec<String>> = vec![Vec::new(); shape.variables()];
    for values in keys {
        columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
    }
    let variables = shape.prefixes().into_iter().zip(columns);
    let variables = variables.map(|((prefix, distance), values)| {
        let same = same_attribute(items, &values, prefix, key_names);
        let hidden = hidden_attributes(items, &values);
        KeyVariable { prefix, distance, attribute, values, same, hidden }
    });
    variables.collect()
}

/// The attributes that have another value than the variable in an item.
fn hidden_attributes(items: &[&Item], values: &[String]) -> BTreeSet<String> {
    let mut hidden: BTreeSet<&str> = BTreeSet::new();
    for (item, value) in items.iter().zip(values) {
        for (name, own) in item.iter().filter(|(_, own)| !own.is_null()) {
            if !hidden.contains(&**name) && text_of(own).is_none_or(|text| text != value.as_str()) {
                hidden.insert(name);
            }
        }
    }
    hidden.into_iter().map(str::to_owned).collect()
}

/// The attribute that has the value of the variable in nearly all items, and another in none.
fn same_attribute(
    items: &[&Item],
    values: &[String],
    prefix: Option<&str>,
    key_names: &BTreeSet<&str>,
) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut others: BTreeSet<&str> = BTreeSet::new();
    for (item, value) in items.iter().zip(values) {
        for (name, own) in item
            .iter()
            .filter(|(name, _)| is_plain_name(name) && !is_index_key(name) && !key_names.contains(&***name))
        {
            match text_of(own) {
                Some(text) if text == value.as_str() => *counts.entry(name).or_default() += 1,
                Some(_) | None => drop(others.insert(name)),
            }
        }
    }
    let prefix = prefix.and_then(snake).unwrap_or_default();
    // One item, or a short value that all items share, may agree by chance.
    let is_sure = |name: &str| {
        let different: BTreeSet<&String> = values.iter().collect();
        different.len() > 2
            || values.iter().all(|value| value.len() > 3)
            || name.to_lowercase().contains(&prefix)
    };
    let same = counts.into_iter().filter(|(name, count)| {
        !others.contains(name) && is_nearly_all(*count, items.len()) && is_sure(name)
    });
    let best = same.max_by_key(|(name, count)| {
        let has_prefix =
            !prefix.is_empty() && name.to_lowercase().replace('_', "").contains(&prefix.replace('_', ""));
        (*count, has_prefix, std::cmp::Reverse(name.len()))
    });
    best.map(|(name, _)| name.to_owned())
}

/// A name for each group: its type, or the words of its key.
pub(super) fn entity_names(sample: &TableSample, groups: &[ItemGroup]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for group in groups {
        let wanted = entity_name(sample, group);
        let partition = group.shapes.first().and_then(|shape| shape.constants().next()).and_then(snake);
        let is_taken = |name: &str| names.iter().any(|taken| taken == name);
        let name = match partition.filter(|partition| *partition != wanted && is_taken(&wanted)) {
            Some(partition) => format!("{partition}_{wanted}"),
            None => wanted,
        };
        let name = numbered(name, is_taken);
        names.push(name);
    }
    names
}

fn entity_name(sample: &TableSample, group: &ItemGroup) -> String {
    if let Some(name) = group.item_type.as_ref().and_then(|(_, item_type)| snake(item_type)) {
        return name;
    }
    let words = |shape: &KeyShape| {
        let words: Vec<String> = shape.constants().filter_map(snake).collect();
        let is_name = |word: &String| word.len() > 1 && !is_usual_word(word);
        words.into_iter().filter(is_name).collect::<Vec<_>>()
    };
    let of_shapes = group.shapes.iter().rev().map(words).find(|words| !words.is_empty());
    let of_shapes = of_shapes.map(|words| words.join("_"));
    of_shapes.or_else(|| snake(&sample.table)).unwrap_or_else(|| "item".to_owned())
}
