//! The attributes of an entity's items: types, times, statuses and numbers.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite::record::{AttributeValue, Item};

use super::texts::{is_plain_name, word_style};
use super::times::{TimeForm, time_form};

/// Names of attributes that name an item's type, in lower case without `_`.
const TYPE_NAMES: [&str; 12] = [
    "type",
    "entitytype",
    "itemtype",
    "recordtype",
    "objecttype",
    "entity",
    "entityname",
    "kind",
    "et",
    "typename",
    "edbe",
    "model",
];

/// Endings of names of attributes with few values, of which each is worth a count, in lower case.
const STATUS_NAMES: [&str; 20] = [
    "status",
    "state",
    "role",
    "level",
    "tier",
    "plan",
    "phase",
    "stage",
    "priority",
    "category",
    "visibility",
    "result",
    "outcome",
    "method",
    "channel",
    "currency",
    "severity",
    "mode",
    "type",
    "kind",
];

/// Endings of names of numbers that cannot be added up, in lower case.
const LABEL_NAMES: [&str; 22] = [
    "id", "year", "month", "day", "version", "number", "code", "zip", "phone", "lat", "lon", "lng", "rank",
    "order", "sequence", "index", "port", "ttl", "expires", "expiry", "_rev", "position",
];

/// Statuses of an entity that have a count of their own.
const MOST_STATUSES: usize = 8;

/// The longest status.
const LONGEST_STATUS: usize = 40;

/// Whether an attribute of this name names the type of an item.
pub(super) fn is_type_name(name: &str) -> bool {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    TYPE_NAMES.contains(&name.to_lowercase().as_str())
}

/// Whether an attribute of this name holds a key of an index: a copy of other values.
pub(super) fn is_index_key(name: &str) -> bool {
    let lower = name.to_lowercase();
    lower.ends_with("pk") || lower.ends_with("sk")
}

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

/// The attributes of items, without those with these names.
pub(super) fn profiles(items: &[&Item], without: &BTreeSet<String>) -> Vec<AttributeProfile> {
    let mut values: BTreeMap<&str, Vec<&AttributeValue<'_>>> = BTreeMap::new();
    for (name, value) in items.iter().flat_map(|item| item.iter()).filter(|(_, value)| !value.is_null()) {
        values.entry(name).or_default().push(value);
    }
    let is_own = |name: &str| is_plain_name(name) && !is_index_key(name) && !without.contains(name);
    let own = values.into_iter().filter(|(name, _)| is_own(name));
    own.map(|(name, values)| profile(name, &values, items.len())).collect()
}

fn profile(name: &str, values: &[&AttributeValue<'_>], items: usize) -> AttributeProfile {
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
        statuses: statuses(name, values),
        is_amount: value_type == "N" && time.is_none() && is_amount(name, values),
        is_complete: values.len() == items,
    }
}

/// The values of a status attribute, each of which occurs many times.
fn statuses(name: &str, values: &[&AttributeValue<'_>]) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for value in values {
        let Some(written) = status(name, value) else { return Vec::new() };
        *counts.entry(written).or_default() += 1;
        if counts.len() > MOST_STATUSES {
            return Vec::new();
        }
    }
    let least = (values.len() / 50).max(3);
    counts.retain(|_, count| *count >= least);
    counts.into_keys().collect()
}

/// A value as a status in TOML; `None` if it may be more than a status.
fn status(name: &str, value: &AttributeValue<'_>) -> Option<String> {
    let name = name.to_lowercase();
    match value {
        AttributeValue::Bool(flag) => Some(flag.to_string()),
        AttributeValue::S(text) => {
            let is_status = STATUS_NAMES.iter().any(|ending| name.ends_with(ending));
            let is_short = text.len() <= LONGEST_STATUS && word_style(text).is_some();
            (is_status && is_short).then(|| format!("\"{text}\""))
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
