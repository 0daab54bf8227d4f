//! The keys of Afterwrite's own items in the state table: their attributes, and the beginnings of partition keys that are reserved.

/// The key attributes of the state table.
pub(super) const STATE_KEY: [&str; 2] = ["PK", "SK"];

/// The beginnings of partition keys that are Afterwrite's own, in the state table.
pub(super) const RESERVED_PREFIXES: [&str; 3] = ["LEDGER#", "LOOKUP#", "AFTERWRITE#"];
