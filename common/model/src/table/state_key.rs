//! The keys of Afterwrite's own items in the state table: their attributes, and the beginnings of partition keys that are reserved.

/// The key attributes of the state table.
pub(super) const STATE_KEY: [&str; 2] = ["PK", "SK"];

/// The attribute by which TTL deletes the items of rollups.
pub(super) const EXPIRES_AT: &str = "expires_at";

/// The attributes of a rollup that are not measures. Attributes that begin with [`SETTLED`] are not measures either.
const ROLLUP_ATTRIBUTES: [&str; 6] = ["PK", "SK", "EntityType", "rev", "updated_at", EXPIRES_AT];

/// Precedes a measure in the name of the attribute that has the part of expired items.
pub const SETTLED: &str = "settled_";

/// Whether a rollup's attribute can be one of a measure, by its name.
#[must_use]
pub fn can_hold_measure(attribute: &str) -> bool {
    !ROLLUP_ATTRIBUTES.contains(&attribute) && !attribute.starts_with(SETTLED)
}

/// The attributes of Afterwrite's own items in the state table. A measure with one of these names cannot be the key of an index.
pub const STATE_ATTRIBUTES: &[&str] = &[
    "EntityType",
    "PK",
    "SK",
    "arguments",
    "as_of",
    "basis",
    "behind",
    "contributions",
    "created_at",
    "earliest_ms",
    "epoch",
    "expires_at",
    "failure",
    "generation",
    "gives",
    "id",
    "kind",
    "latest_ms",
    "lease_owner",
    "lease_until",
    "model",
    "owner",
    "plan",
    "position",
    "progress",
    "rate",
    "rev",
    "sequence_number",
    "start_time",
    "started_at",
    "status",
    "stream_arn",
    "totals",
    "units",
    "unrecorded",
    "updated_at",
    "value",
    "version",
    "waiting",
    "work",
];

/// The beginnings of partition keys that are Afterwrite's own, in the state table.
pub(super) const RESERVED_PREFIXES: [&str; 3] = ["LEDGER#", "LOOKUP#", "AFTERWRITE#"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attributes_of_keys_and_rollups_are_attributes_of_the_state_table() {
        for attribute in STATE_KEY.into_iter().chain(ROLLUP_ATTRIBUTES) {
            assert!(STATE_ATTRIBUTES.contains(&attribute), "{attribute}");
        }
    }
}
