//! The attributes of an entity's items: types, times, states and amounts.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite_model::record::{AttributeValue, Decimal, Item};
use afterwrite_model::table::COMPANION_ENDINGS;

use super::key_search::KeyEvidence;
use super::kinds::is_index_key;
use super::sample::TableSample;
use super::texts::is_plain_name;
use super::times::{TimeForm, time_form};

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
    pub(super) time: Option<TimeForm>,
    /// The middle of its values in the sample, in order as texts; of a time, an early time sorts first.
    pub(super) middle: String,
    /// Values that occur many times and are worth a count each, as TOML.
    pub(super) states: Vec<String>,
    /// Whether a sum of it has a meaning.
    pub(super) is_amount: bool,
    /// Whether its values are numbers in texts, such as prices.
    pub(super) is_text_amount: bool,
    /// Whether every item has it.
    pub(super) is_complete: bool,
}

/// The attributes of items, and the attributes that are left out.
pub(super) struct AttributeProfiles {
    pub(super) described: Vec<AttributeProfile>,
    pub(super) left_out: LeftOutAttributes,
}

/// Attributes that a model does not declare.
#[derive(Clone, Debug, Default)]
pub(super) struct LeftOutAttributes {
    /// The number of attributes whose names look like values, such as the addresses of people.
    unnamed: usize,
    /// The number of rare attributes.
    rare: usize,
}

impl LeftOutAttributes {
    /// Sentences about them.
    pub(super) fn sentences(&self) -> Vec<String> {
        let rare = format!(
            "that fewer than 1 in {RARE_ONE_IN} of these items have, or fewer than 3 items or 2 partitions"
        );
        let causes = [(self.unnamed, "(names that look like values)"), (self.rare, &rare)];
        let sentences = causes.into_iter().filter(|(count, _)| *count > 0).map(|(count, cause)| {
            let noun = if count == 1 { "attribute" } else { "attributes" };
            format!("left out: {count} {noun} {cause}")
        });
        sentences.collect()
    }
}

impl AttributeProfiles {
    /// The attributes of items of a sample, without the attributes with these names.
    pub(super) fn of(
        evidence: &KeyEvidence<'_>,
        items: &[&Item],
        without: &BTreeSet<&str>,
        discriminator: Option<&str>,
    ) -> Self {
        let mut values: BTreeMap<&str, Vec<&AttributeValue<'_>>> = BTreeMap::new();
        for (name, value) in items.iter().flat_map(|item| item.iter()).filter(|(_, value)| !value.is_null()) {
            values.entry(name).or_default().push(value);
        }
        values.retain(|name, _| !is_index_key(name) && !without.contains(*name));
        let all = values.len();
        values.retain(|name, values| {
            values.len() * RARE_ONE_IN >= items.len() && evidence.features.is_shared_name(name)
        });
        let rare = all - values.len();
        // A name with an `@` looks like the address of a person.
        let unusual = values.keys().filter(|name| !is_plain_name(name) && !name.contains('@')).count();
        let is_name =
            |name: &&str| is_plain_name(name) || (!name.contains('@') && unusual <= MOST_UNUSUAL_NAMES);
        let (own, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            values.into_iter().partition(|(name, _)| is_name(name));
        let described = own.iter().map(|(name, values)| {
            let mut profile = profile(evidence, name, values, items.len());
            let is_mirrored = is_mirrored(name, |other| own.contains_key(other));
            if is_mirrored || discriminator == Some(*name) {
                profile.states.clear();
            }
            profile.is_amount &= !is_mirrored;
            profile
        });
        Self { described: described.collect(), left_out: LeftOutAttributes { unnamed: others.len(), rare } }
    }
}

/// Whether a mirror writes an attribute: `likes`, `likes_rev` and `likes_of` are all there.
fn is_mirrored(name: &str, is_there: impl Fn(&str) -> bool) -> bool {
    let shown = COMPANION_ENDINGS.iter().filter_map(|ending| name.strip_suffix(ending));
    std::iter::once(name).chain(shown).any(|shown| {
        is_there(shown) && COMPANION_ENDINGS.iter().all(|ending| is_there(&format!("{shown}{ending}")))
    })
}

fn profile(
    evidence: &KeyEvidence<'_>,
    name: &str,
    values: &[&AttributeValue<'_>],
    items: usize,
) -> AttributeProfile {
    let types: BTreeSet<&'static str> = values.iter().map(|value| value.type_name()).collect();
    let value_type = match (types.len(), types.first()) {
        (1, Some(one)) => *one,
        _ => "any",
    };
    let time = time_form(name, values);
    let mut texts: Vec<_> = values.iter().filter_map(|value| super::texts::text_of(value)).collect();
    texts.sort_unstable();
    AttributeProfile {
        name: name.to_owned(),
        value_type,
        time,
        middle: texts.get(texts.len() / 2).map(ToString::to_string).unwrap_or_default(),
        states: states(evidence, name, values),
        is_amount: value_type == "N" && time.is_none() && is_amount(name, values),
        is_text_amount: value_type == "S" && time.is_none() && is_text_amount(name, values),
        is_complete: values.len() == items,
    }
}

/// Whether an attribute of this name has states, types or categories as its values.
fn is_state_name(name: &str) -> bool {
    let name = name.to_lowercase();
    STATE_NAMES.iter().any(|ending| name.ends_with(ending))
}

/// Whether an attribute of this name has labels or times as its values.
fn is_label(name: &str) -> bool {
    let lower = name.to_lowercase();
    LABEL_NAMES.iter().any(|ending| lower.ends_with(ending))
        || is_state_name(name)
        || super::times::is_time_name(name)
}

/// Whether texts are numbers that can be added up. Whole numbers may be labels, so one of the numbers has decimal places.
fn is_text_amount(name: &str, values: &[&AttributeValue<'_>]) -> bool {
    let texts = || values.iter().filter_map(|value| value.as_text());
    let are_numbers = texts().all(|text| text.parse::<Decimal>().is_ok());
    !is_label(name) && are_numbers && texts().any(|text| text.contains('.'))
}

/// Whether numbers can be added up: they are not few, and their name is not the name of a label or a time.
fn is_amount(name: &str, values: &[&AttributeValue<'_>]) -> bool {
    let numbers = values.iter().take(200).filter_map(|value| value.as_number());
    !is_label(name) && numbers.map(ToString::to_string).collect::<BTreeSet<_>>().len() > 2
}

/// The values of a state attribute, each of which occurs many times, as TOML. A single value is not worth a count.
fn states(evidence: &KeyEvidence<'_>, name: &str, values: &[&AttributeValue<'_>]) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for value in values {
        let text = value.as_text().filter(|text| is_state_name(name) && is_state(text));
        let flag = if let AttributeValue::Bool(flag) = value { Some(flag.to_string()) } else { None };
        let Some(written) = flag.or_else(|| text.map(|text| format!("\"{text}\""))) else {
            return Vec::new();
        };
        *counts.entry(written).or_default() += 1;
        if counts.len() > MOST_STATES {
            return Vec::new();
        }
    }
    if counts.len() < 2 {
        return Vec::new();
    }
    let least = values.len() / 50;
    counts.retain(|written, count| {
        let is_known = |text: &str| has_many(evidence, name, text) && !is_shared(evidence.sample, name, text);
        *count >= least && (!written.starts_with('"') || is_known(written.trim_matches('"')))
    });
    counts.into_keys().collect()
}

/// Whether so many items have this value of an attribute that it is not the value of a person.
fn has_many(evidence: &KeyEvidence<'_>, name: &str, value: &str) -> bool {
    let items = evidence.sample.items.iter().enumerate();
    let with = items.filter(|(_, item)| item.get(name).and_then(|own| own.as_text()) == Some(value));
    evidence.features.are_many(&with.map(|(index, _)| index).collect::<Vec<_>>())
}

/// Whether a text looks like a state: letters, digits and `_`, a letter first.
fn is_state(text: &str) -> bool {
    text.len() <= LONGEST_STATE
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
}

/// Whether a value of an attribute refers to something: keys or texts of other attributes contain it as a word, and not only in items that
/// do not depend on the value. The name of a person is in the texts of the person's items only; a word of a text that all items have is not.
fn is_shared(sample: &TableSample, name: &str, value: &str) -> bool {
    let copies: Vec<&str> = sample
        .indexes
        .iter()
        .flat_map(|index| &index.keys)
        .map(String::as_str)
        .filter(|key| !sample.is_key(key))
        .collect();
    let is_word = |text: &str| {
        text.contains(value) && {
            let mut words = text.split(|one: char| !(one.is_ascii_alphanumeric() || one == '_'));
            words.any(|word| word == value)
        }
    };
    // For each attribute: items with the word and this value, and items with the word and another value.
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for item in &sample.items {
        let own = item.get(name).and_then(|own| own.as_text());
        for (other, text) in item.iter().filter_map(|(other, text)| Some((&**other, text.as_text()?))) {
            let is_copy =
                other == name || copies.contains(&other) || (is_index_key(other) && !sample.is_key(other));
            // The same state in two attributes is still one.
            if is_copy || (is_state_name(other) && text == value) || !is_word(text) {
                continue;
            }
            if own.is_none() && (text == value || sample.is_key(other)) {
                return true;
            }
            let (with, without) = counts.entry(other).or_default();
            *(if own == Some(value) { with } else { without }) += 1;
        }
    }
    counts.values().any(|(with, without)| *with > *without * 2)
}
