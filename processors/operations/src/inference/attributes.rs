//! The attributes of an entity's items: types, times, statuses and numbers.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite::record::{AttributeValue, Item};

use super::attribute_names::{is_index_key, is_status_name};
use super::states::{StateTexts, is_state_text};
use super::texts::is_plain_name;
use super::times::{TimeForm, time_form};

/// Endings of names of numbers that cannot be added up, in lower case.
const LABEL_NAMES: [&str; 22] = [
    "id", "year", "month", "day", "version", "number", "code", "zip", "phone", "lat", "lon", "lng", "rank",
    "order", "sequence", "index", "port", "ttl", "expires", "expiry", "_rev", "position",
];

/// Statuses of an entity that have a count of their own.
const MOST_STATUSES: usize = 8;

/// An attribute of an entity's items.
#[derive(Clone, Debug)]
pub(super) struct AttributeProfile {
    pub(super) name: String,
    /// DynamoDB's type, or `any` if there are several.
    pub(super) value_type: &'static str,
    pub(super) time: Option<TimeForm>,
    /// Values that occur many times and are worth a count each, as TOML.
    pub(super) statuses: Vec<String>,
    /// Whether a sum of it has a meaning.
    pub(super) is_amount: bool,
    /// Whether every item has it.
    pub(super) is_complete: bool,
}

/// The attributes of items, and those that a model cannot name.
pub(super) struct AttributeProfiles {
    pub(super) described: Vec<AttributeProfile>,
    /// Names of attributes that are left out.
    pub(super) left_out: Vec<String>,
}

/// The attributes of items, without those with these names. `texts` decides which values are states.
pub(super) fn profiles(
    items: &[&Item],
    without: &BTreeSet<String>,
    discriminator: Option<&str>,
    texts: &StateTexts,
) -> AttributeProfiles {
    let mut values: BTreeMap<&str, Vec<&AttributeValue<'_>>> = BTreeMap::new();
    for (name, value) in items.iter().flat_map(|item| item.iter()).filter(|(_, value)| !value.is_null()) {
        values.entry(name).or_default().push(value);
    }
    values.retain(|name, _| !is_index_key(name) && !without.contains(*name));
    let (own, others): (Vec<_>, Vec<_>) = values.into_iter().partition(|(name, _)| is_plain_name(name));
    let described = own.into_iter().map(|(name, values)| {
        let mut profile = profile(name, &values, items.len(), texts);
        if discriminator == Some(name) {
            profile.statuses.clear();
        }
        profile
    });
    AttributeProfiles {
        described: described.collect(),
        left_out: others.into_iter().map(|(name, _)| name.to_owned()).collect(),
    }
}

fn profile(name: &str, values: &[&AttributeValue<'_>], items: usize, texts: &StateTexts) -> AttributeProfile {
    let types: BTreeSet<&'static str> = values.iter().map(|value| value.type_name()).collect();
    let value_type = match (types.len(), types.first()) {
        (1, Some(one)) => *one,
        _ => "any",
    };
    let time = time_form(name, values);
    AttributeProfile {
        name: name.to_owned(),
        value_type,
        time,
        statuses: statuses(name, values, texts),
        is_amount: value_type == "N" && time.is_none() && is_amount(name, values),
        is_complete: values.len() == items,
    }
}

/// The values of a status attribute, each of which occurs many times. A single value is not worth a count.
fn statuses(name: &str, values: &[&AttributeValue<'_>], texts: &StateTexts) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for value in values {
        let Some(written) = status(name, value, texts) else { return Vec::new() };
        *counts.entry(written).or_default() += 1;
        if counts.len() > MOST_STATUSES {
            return Vec::new();
        }
    }
    if counts.len() < 2 {
        return Vec::new();
    }
    let least = (values.len() / 50).max(3);
    counts.retain(|_, count| *count >= least);
    counts.into_keys().collect()
}

/// A value as a status in TOML; `None` if it may be more than a status.
fn status(name: &str, value: &AttributeValue<'_>, texts: &StateTexts) -> Option<String> {
    match value {
        AttributeValue::Bool(flag) => Some(flag.to_string()),
        AttributeValue::S(text) => {
            let is_state = is_status_name(name) && is_state_text(text) && !texts.have(name, text);
            is_state.then(|| format!("\"{text}\""))
        }
        AttributeValue::N(_)
        | AttributeValue::B(_)
        | AttributeValue::Null
        | AttributeValue::M(_)
        | AttributeValue::L(_)
        | AttributeValue::Ss(_)
        | AttributeValue::Ns(_)
        | AttributeValue::Bs(_) => None,
    }
}

fn is_amount(name: &str, values: &[&AttributeValue<'_>]) -> bool {
    let lower = name.to_lowercase();
    let is_label = LABEL_NAMES.iter().any(|ending| lower.ends_with(ending));
    let different: BTreeSet<String> =
        values.iter().take(200).filter_map(|value| value.as_number()).map(ToString::to_string).collect();
    !is_label && different.len() > 2
}
