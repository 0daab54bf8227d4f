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
//! No module does I/O. Up to `projection` none reads a clock; [`clock`] is the trait by which the other crates do. The crate needs no
//! SDK and at most 60 packages, so that everything about a model (loading, decoding, computing) can be fuzzed and tested alone.

pub mod clock;
pub mod effect;
pub mod entity;
mod error;
pub mod harmless;
pub mod heartbeat;
pub mod projection;
pub mod record;
pub mod retry;
pub mod table;

pub use error::{Error, ErrorKind, Result};
