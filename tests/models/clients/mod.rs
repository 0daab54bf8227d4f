//! Typed readers: the clients that `afterwrite client` writes are accepted by the compilers of their languages, and read what was counted.
//!
//! `toolchain` runs TypeScript and Python, `read.mjs` and `read.py` answer requests with a client, `types` checks the clients of all built-in
//! models, `readings` a model with everything that built-in models lack (`readers.toml`), `names` a model with hostile names, and `extremes` values whose order differs between languages. `generated::clients`
//! compares the answers with the demo's recount.

mod extremes;
mod names;
mod readings;
pub(super) mod toolchain;
mod types;
