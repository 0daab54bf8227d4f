//! Which values are states. A value of a status attribute is one only if it looks like a state and occurs in no other place: a name that
//! is also part of a key or of another attribute's text is a value.

use std::collections::{BTreeMap, BTreeSet};

use super::attribute_names::{is_index_key, is_status_name, is_type_name};
use super::sample::TableSample;
use super::texts::text_of;

/// The longest state.
const LONGEST_STATE: usize = 20;

/// States that are the same word in most designs, in lower case: they are states wherever else they occur.
const COMMON_STATES: [&str; 50] = [
    "accepted",
    "active",
    "admin",
    "approved",
    "archived",
    "basic",
    "cancelled",
    "canceled",
    "closed",
    "completed",
    "confirmed",
    "created",
    "declined",
    "deleted",
    "delivered",
    "disabled",
    "done",
    "draft",
    "enabled",
    "enterprise",
    "expired",
    "failed",
    "free",
    "high",
    "inactive",
    "low",
    "medium",
    "member",
    "new",
    "ok",
    "open",
    "owner",
    "paid",
    "pending",
    "placed",
    "premium",
    "private",
    "pro",
    "processing",
    "public",
    "published",
    "queued",
    "refunded",
    "rejected",
    "running",
    "shipped",
    "standard",
    "started",
    "succeeded",
    "user",
];

/// Whether a text looks like a state: letters, digits and `_`, a letter first.
pub(super) fn is_state_text(text: &str) -> bool {
    text.len() <= LONGEST_STATE
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
}

/// The words of a sample's keys and texts.
#[derive(Clone, Debug)]
pub(super) struct StateTexts {
    /// For each word, the attributes that have it.
    words: BTreeMap<String, BTreeSet<String>>,
}

impl StateTexts {
    /// The words of a sample.
    pub(super) fn of(sample: &TableSample) -> Self {
        let key_names: BTreeSet<&str> = sample.key_names().collect();
        let of_indexes = sample.indexes.iter().flat_map(|index| &index.keys).map(String::as_str);
        let copies: BTreeSet<&str> = of_indexes.filter(|name| !key_names.contains(name)).collect();
        let is_copy = |name: &str| copies.contains(name) || (is_index_key(name) && !key_names.contains(name));
        let mut words: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, value) in
            sample.items.iter().flat_map(|item| item.iter()).filter(|(name, _)| !is_copy(name))
        {
            let Some(text) = text_of(value).filter(|_| value.as_text().is_some()) else { continue };
            let parts =
                text.split(|character: char| !(character.is_ascii_alphanumeric() || character == '_'));
            // The same state in two attributes is still one.
            let has_states = is_status_name(name) || is_type_name(name);
            for part in parts.filter(|part| is_state_text(part) && !(has_states && *part == text)) {
                if !words.get(part).is_some_and(|names| names.contains(&**name)) {
                    words.entry(part.to_owned()).or_default().insert(name.to_string());
                }
            }
        }
        Self { words }
    }

    /// Whether a value of this attribute is part of a key or of the text of another attribute.
    pub(super) fn have(&self, name: &str, value: &str) -> bool {
        let is_common = COMMON_STATES.contains(&value.to_ascii_lowercase().as_str());
        let elsewhere = self.words.get(value).is_some_and(|names| names.iter().any(|other| other != name));
        elsewhere && !is_common
    }
}
