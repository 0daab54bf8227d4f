//! The attributes of an entity's items: types, times, statuses and numbers.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite_model::record::{AttributeValue, Item};
use afterwrite_model::table::COMPANION_ENDINGS;

use super::attribute_names::{is_index_key, is_status_name};
use super::states::{StateTexts, is_state_text};
use super::texts::is_plain_name;
use super::times::{TimeForm, time_form};

/// Endings of names of numbers that cannot be added up, in lower case.
const LABEL_NAMES: [&str; 26] = [
    "id",
    "year",
    "month",
    "day",
    "version",
    "number",
    "code",
    "zip",
    "phone",
    "lat",
    "lon",
    "lng",
    "rank",
    "order",
    "sequence",
    "index",
    "port",
    "ttl",
    "expires",
    "expiry",
    "_rev",
    "position",
    "edat",
    "_at",
    "date",
    "timestamp",
];

/// An attribute is rare if only one item has it, or fewer than one item in this many. Rare attributes are not declared.
const RARE_ONE_IN: usize = 100;

/// An entity with at most this many items declares all its attributes.
const FEW_ITEMS: usize = 20;

/// If more names than this have other characters than letters, digits, `_` and `-`, they are values, and are not in the model.
const MOST_UNUSUAL_NAMES: usize = 10;

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

/// The attributes of items, and those that are left out.
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
        let mut sentences = Vec::new();
        if self.unnamed > 0 {
            let noun = attribute_noun(self.unnamed);
            sentences.push(format!("left out: {} {noun} (names that look like values)", self.unnamed));
        }
        if self.rare > 0 {
            sentences.push(format!(
                "left out: {} {} that fewer than 1 in {RARE_ONE_IN} of these items have, or only one",
                self.rare,
                attribute_noun(self.rare)
            ));
        }
        sentences
    }
}

/// The attributes of items, without those with these names. `texts` decides which values are states.
pub(super) fn profiles(
    items: &[&Item],
    without: &BTreeSet<&str>,
    discriminator: Option<&str>,
    texts: &StateTexts,
) -> AttributeProfiles {
    let mut values: BTreeMap<&str, Vec<&AttributeValue<'_>>> = BTreeMap::new();
    for (name, value) in items.iter().flat_map(|item| item.iter()).filter(|(_, value)| !value.is_null()) {
        values.entry(name).or_default().push(value);
    }
    values.retain(|name, _| !is_index_key(name) && !without.contains(*name));
    let all = values.len();
    values.retain(|_, values| !is_rare(values.len(), items.len()));
    let rare = all - values.len();
    let unusual = values.keys().filter(|name| !is_plain_name(name) && !is_address(name)).count();
    let is_name = |name: &&str| is_plain_name(name) || (!is_address(name) && unusual <= MOST_UNUSUAL_NAMES);
    let (own, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
        values.into_iter().partition(|(name, _)| is_name(name));
    let described = own.iter().map(|(name, values)| {
        let mut profile = profile(name, values, items.len(), texts);
        if discriminator == Some(*name) {
            profile.statuses.clear();
        }
        if is_mirrored(name, |other| own.contains_key(other)) {
            profile.statuses.clear();
            profile.is_amount = false;
        }
        profile
    });
    AttributeProfiles {
        described: described.collect(),
        left_out: LeftOutAttributes { unnamed: others.len(), rare },
    }
}

/// Whether a name looks like the address of a person.
fn is_address(name: &str) -> bool {
    name.contains('@')
}

fn attribute_noun(count: usize) -> &'static str {
    if count == 1 { "attribute" } else { "attributes" }
}

/// Whether an attribute that this many of an entity's items have is rare.
fn is_rare(count: usize, items: usize) -> bool {
    items > FEW_ITEMS && (count <= 1 || count * RARE_ONE_IN < items)
}

/// Whether a mirror writes an attribute: `likes`, `likes_rev` and `likes_of` are all there.
fn is_mirrored(name: &str, is_there: impl Fn(&str) -> bool) -> bool {
    let shown = COMPANION_ENDINGS.iter().filter_map(|ending| name.strip_suffix(ending));
    std::iter::once(name).chain(shown).any(|shown| {
        is_there(shown) && COMPANION_ENDINGS.iter().all(|ending| is_there(&format!("{shown}{ending}")))
    })
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
    let is_label = LABEL_NAMES.iter().any(|ending| lower.ends_with(ending)) || is_status_name(name);
    let different: BTreeSet<String> =
        values.iter().take(200).filter_map(|value| value.as_number()).map(ToString::to_string).collect();
    !is_label && different.len() > 2
}
