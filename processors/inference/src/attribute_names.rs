//! The meaning of an attribute by its name: a type, a status, or the key of an index.

use super::kind_words::folded;

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

/// Whether an attribute of this name names the type of an item.
pub(super) fn is_type_name(name: &str) -> bool {
    TYPE_NAMES.contains(&folded(name).as_str())
}

/// Whether an attribute of this name holds a key of an index: a copy of other values.
pub(super) fn is_index_key(name: &str) -> bool {
    let lower = name.to_lowercase();
    lower.ends_with("pk") || lower.ends_with("sk")
}

/// Whether an attribute of this name has states, types or categories as its values.
pub(super) fn is_status_name(name: &str) -> bool {
    let name = name.to_lowercase();
    STATUS_NAMES.iter().any(|ending| name.ends_with(ending))
}
