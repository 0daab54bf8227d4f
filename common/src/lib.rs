//! **Afterwrite** keeps right what is derived from a DynamoDB table: counters, rollups and the copies of them that
//! an application's items show. It reads the table's stream; what to derive is declared in one TOML file, the table model.
//!
//! Data flows one way through the modules, in this order:
//!
//! ```text
//! record ─▶ table + entity ─▶ projection ─▶ commit ─▶ effect ─▶ sink
//! bytes     the model          pure:         the        what to    DynamoDB
//!           what it is of      C(image)      ledger     write
//! ```
//!
//! What is not counted but passed on (stale caches, the archive) goes through `relay` in place of `commit`. Up to `projection`
//! nothing performs I/O or reads a clock; only `sink`, `commit` and `relay` await anything; only `config` reads the environment.

pub mod clock;
pub mod commit;
pub mod config;
pub mod effect;
pub mod entity;
mod error;
pub mod projection;
pub mod record;
pub mod relay;
pub mod retry;
pub mod sink;
pub mod table;

pub use error::{Error, ErrorKind, Result};
