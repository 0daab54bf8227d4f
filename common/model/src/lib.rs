//! The pure half of **Afterwrite**, which keeps counters, rollups, caches and Parquet in step with a DynamoDB table. It reads the
//! table's stream; one TOML file, the table model, declares what to derive.
//!
//! One record goes through the modules in this order, then through other crates:
//!
//! ```text
//! record ─▶ table + entity ─▶ projection ─▶ effect      ─▶ ledger              ─▶ services
//! bytes     the model,        C(image),     writes and     counts exactly once    DynamoDB
//!           the item          pure          conditions     (afterwrite-ledger)    (afterwrite-services)
//! ```
//!
//! The second reader of the stream is `afterwrite-relay` in place of the ledger: it invalidates caches and writes the archive.
//!
//! | module | task |
//! |---|---|
//! | [`record`] | stream records as strict types: records, images, values, decimals, positions, times |
//! | [`table`] | the table model, one file or folder per part: the type, its TOML form, its checks, its description and the decisions about it; `load` reads and compiles it |
//! | [`entity`] | an item's key + the model → the entities that it can be of. Mostly one; an image decides among several |
//! | [`projection`] | an image → its contributions; a change → stale keys and paths; a record → its archive line and its rows |
//! | [`effect`] | what to write and on which condition; names no service |
//! | [`heartbeat`] | the item whose age each stage reports |
//! | [`clock`], [`retry`] | time and randomness as a trait; the one retry policy with its back-off and deadline |
//! | [`harmless`] | text that is harmless in terminals and logs |
//!
//! No module does I/O. Up to `projection` none reads a clock; [`clock`] is the trait by which the other crates do. The crate needs no
//! SDK and at most 60 packages, so that everything about a model (loading, decoding, computing) can be fuzzed and tested alone.

pub mod clock;
pub mod effect;
pub mod entity;
mod error;
pub mod harmless;
pub mod heartbeat;
mod hex;
pub mod projection;
pub mod record;
pub mod retry;
mod stable_hash;
pub mod table;

pub use error::{Error, ErrorKind, Result};
pub use hex::hex;
