//! The attributes of an entity's items: types, times, states and amounts.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite_model::record::{AttributeValue, Decimal};
use afterwrite_model::table::COMPANION_ENDINGS;

use super::evidence::SampleEvidence;
use super::texts::{is_index_key, is_plain_name, text_of};
use super::times::{ValueTime, is_time_name};

/// Endings of names of numbers that cannot be added up, in lower case.
const LABEL_NAMES: [&str; 18] = [
    "id", "year", "month", "day", "version", "number", "code", "zip", "phone", "lat", "lon", "lng", "rank",
    "order", "index", "port", "_rev", "position",
];

/// Endings of names of attributes with few values, of which each is worth a count, in lower case.
const STATE_NAMES: [&str; 14] = [
    "status", "state", "role", "level", "tier", "plan", "phase", "stage", "priority", "category", "mode",
    "method", "type", "kind",
];

/// An attribute is rare if fewer than one item in this many has it, or so few items of the sample that its name may be a value. Rare
/// attributes are not declared.
const RARE_ONE_IN: usize = 100;

/// If more names than this have other characters than letters, digits, `_` and `-`, they are values, and are not in the model.
const MOST_UNUSUAL_NAMES: usize = 10;

/// States of an entity that have a count of their own, and the longest state.
const MOST_STATES: usize = 8;
const LONGEST_STATE: usize = 20;

/// An attribute of an entity's items.
#[derive(Clone, Debug)]
pub(super) struct AttributeProfile {
    pub(super) name: String,
    /// DynamoDB's type, or `any` if there are several.
    pub(super) value_type: &'static str,
    pub(super) time: Option<ValueTime>,
    /// Its different values as texts.
    pub(super) values: BTreeSet<String>,
    /// Values that occur many times and are worth a count each, as TOML.
    pub(super) states: Vec<String>,
    /// Whether a sum of it has a meaning. Of type `S`, its values are numbers in texts, such as prices.
    pub(super) is_amount: bool,
    /// Whether every item has it.
    pub(super) is_complete: bool,
}

/// The attributes of these items without the attributes with these names, and a sentence about attributes that a model does not declare.
pub(super) fn profiles(
    evidence: &SampleEvidence<'_>,
    members: &[usize],
    without: &BTreeSet<String>,
    discriminator: Option<&str>,
) -> (Vec<AttributeProfile>, Option<String>) {
    let mut values: BTreeMap<&str, Vec<&AttributeValue<'_>>> = BTreeMap::new();
    for (name, value) in evidence.items(members).into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        values.entry(name).or_default().push(value);
    }
    values.retain(|name, _| !is_index_key(name) && !without.contains(*name));
    let all = values.len();
    values.retain(|name, values| {
        values.len() * RARE_ONE_IN >= members.len() && evidence.shared_names.contains(*name)
    });
    // A name with an `@` looks like the address of a person.
    let unusual = values.keys().filter(|name| !is_plain_name(name) && !name.contains('@')).count();
    values.retain(|name, _| is_plain_name(name) || (!name.contains('@') && unusual <= MOST_UNUSUAL_NAMES));
    let left_out = (all > values.len()).then(|| {
        format!(
            "attributes left out: {} (their names look like values, or fewer than 1 in {RARE_ONE_IN} of these items, 3 items or 2 partitions have them)",
            all - values.len()
        )
    });
    let profiles = values.iter().map(|(name, own)| {
        let mut profile = profile(evidence, name, own);
        let is_mirrored = is_mirrored(name, |other| values.contains_key(other));
        if is_mirrored || discriminator == Some(*name) {
            profile.states.clear();
        }
        profile.is_amount &= !is_mirrored;
        AttributeProfile { is_complete: own.len() == members.len(), ..profile }
    });
    (profiles.collect(), left_out)
}

/// Whether a mirror writes an attribute: `likes`, `likes_rev` and `likes_of` are all there.
fn is_mirrored(name: &str, is_there: impl Fn(&str) -> bool) -> bool {
    let shown = COMPANION_ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    is_there(shown) && COMPANION_ENDINGS.iter().all(|ending| is_there(&format!("{shown}{ending}")))
}

fn profile(evidence: &SampleEvidence<'_>, name: &str, values: &[&AttributeValue<'_>]) -> AttributeProfile {
    let types: BTreeSet<&'static str> = values.iter().map(|value| value.type_name()).collect();
    let value_type = if types.len() == 1 { types.first().copied() } else { None };
    let time = ValueTime::of_attribute(name, values);
    let texts: BTreeSet<String> =
        values.iter().filter_map(|value| text_of(value)).map(String::from).collect();
    AttributeProfile {
        name: name.to_owned(),
        value_type: value_type.unwrap_or("any"),
        time,
        states: states(evidence, name, values).unwrap_or_default(),
        is_amount: time.is_none() && is_amount(name, value_type, &texts),
        values: texts,
        is_complete: false,
    }
}

/// Whether an attribute's name has one of these endings, in lower case.
fn has_ending(name: &str, endings: &[&str]) -> bool {
    endings.iter().any(|ending| name.to_lowercase().ends_with(ending))
}

/// Whether numbers, also in texts, can be added up: they are not few, and their name is not the name of a label, a state or a time. Whole
/// numbers in texts may be labels, so one has decimal places.
fn is_amount(name: &str, value_type: Option<&str>, texts: &BTreeSet<String>) -> bool {
    let is_label = has_ending(name, &LABEL_NAMES) || has_ending(name, &STATE_NAMES) || is_time_name(name);
    let are_amounts = match value_type {
        Some("N") => texts.len() > 2,
        Some("S") => {
            texts.iter().all(|text| text.parse::<Decimal>().is_ok())
                && texts.iter().any(|text| text.contains('.'))
        }
        Some(_) | None => false,
    };
    !is_label && are_amounts
}

/// The values of a state attribute, each of which occurs many times, as TOML. A single value is not worth a count.
fn states(evidence: &SampleEvidence<'_>, name: &str, values: &[&AttributeValue<'_>]) -> Option<Vec<String>> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for value in values {
        let text = value.as_text().filter(|text| has_ending(name, &STATE_NAMES) && is_state(text));
        let flag = if let AttributeValue::Bool(flag) = value { Some(flag.to_string()) } else { None };
        *counts.entry(flag.or_else(|| text.map(|text| format!("\"{text}\"")))?).or_default() += 1;
    }
    if !(2..=MOST_STATES).contains(&counts.len()) {
        return None;
    }
    counts.retain(|written, count| {
        let text = written.trim_matches('"');
        *count * 50 >= values.len() && (text == written || is_of_design(evidence, name, text))
    });
    Some(counts.into_keys().collect())
}

/// Whether a text looks like a state: letters, digits and `_`, a letter first.
fn is_state(text: &str) -> bool {
    text.len() <= LONGEST_STATE
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
}

/// Whether a value of an attribute is a state and refers to nothing: many items have it, and keys and texts of other attributes do not contain
/// it as a word, or also in items with another state. The name of a person is in the texts of the person's items only.
fn is_of_design(evidence: &SampleEvidence<'_>, name: &str, value: &str) -> bool {
    let sample = evidence.sample;
    let is_copy = |other: &str| {
        let is_key = sample.indexes.iter().any(|index| index.keys.iter().any(|key| key == other));
        other == name || ((is_key || is_index_key(other)) && !sample.is_key(other))
    };
    let is_word = |text: &str| {
        let mut words = text.split(|one: char| !(one.is_ascii_alphanumeric() || one == '_'));
        text.contains(value) && words.any(|word| word == value)
    };
    let mut owners = Vec::new();
    // For each attribute: items with the word and this value, and items with the word and another value.
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (index, item) in sample.items.iter().enumerate() {
        let own = item.get(name).and_then(|own| own.as_text());
        owners.extend((own == Some(value)).then_some(index));
        for (other, text) in item.iter().filter_map(|(other, text)| Some((&**other, text.as_text()?))) {
            // The same state in two attributes is still one.
            if is_copy(other) || (has_ending(other, &STATE_NAMES) && text == value) || !is_word(text) {
                continue;
            }
            let (with, without) = counts.entry(other).or_default();
            *(if own == Some(value) { with } else { without }) += 1;
        }
    }
    evidence.are_many(&owners) && counts.values().all(|(with, without)| *with <= *without * 2)
}
