//! The keys of Afterwrite's own items in the state table: their attributes, and the beginnings of partition keys that are reserved.

/// The key attributes of the state table.
pub(super) const STATE_KEY: [&str; 2] = ["PK", "SK"];

/// The attributes of items of the state table that are not rollups. A measure with one of these names cannot be the key of an index.
pub(super) const STATE_ATTRIBUTES: &[&str] = &[
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
