//! **Afterwrite** keeps counters, rollups, caches and Parquet in step with a DynamoDB table. It reads the table's
//! stream; one TOML file, the table model, declares what to derive.
//!
//! One record goes through the modules in this order:
//!
//! ```text
//! record ─▶ table + entity ─▶ projection ─▶ commit ─▶ effect ─▶ sink
//! bytes     the model,        C(image),     the        writes,   DynamoDB
//!           the item          pure          ledger     conditions
//! ```
//!
//! The second reader of the stream has `relay` in place of `commit`: it invalidates caches and writes the archive,
//! which need no ledger.
//!
//! Up to `projection` no module does I/O or reads a clock. Only `sink`, `commit` and `relay` are asynchronous. Only
//! `config` reads the environment.

pub mod clock;
pub mod commit;
pub mod config;
pub mod effect;
pub mod entity;
mod error;
pub mod harmless;
pub mod heartbeat;
pub mod projection;
pub mod record;
pub mod relay;
pub mod retry;
pub mod sink;
pub mod table;

pub use error::{Error, ErrorKind, Result};
