//! A table model inferred from a sample of a table's items.
//!
//! ```text
//! sample       the items, the key, the indexes; key_guess: the key of items from a file
//!   │ kinds        whether two groups of items are different kinds
//!   │ key_search   key texts → key_shapes: constant words, variables between separators
//!   ▼
//! groups       items of one kind: keys of one shape, one type
//!   │ names, attributes, times
//!   ▼
//! entities     keys, attributes, doubts
//!   │ proposals    counts and sums for each parent, days, totals
//!   ▼
//! written_model   the TOML, in which proposals and doubts are comments
//! ```
//!
//! The result is a model that loads, and each proposal loads with it: the loader checks both before they are written. It has no
//! values of items except constant words of keys, and types and statuses that occur many times.

mod attributes;
mod entities;
mod groups;
mod key_guess;
mod key_search;
mod key_shapes;
mod kinds;
mod names;
mod proposals;
mod sample;
mod texts;
mod times;
mod written_model;

pub use self::key_guess::{infer_key, named_key};
pub use self::sample::{InferenceHints, KeyAttribute, SampledIndex, TableSample, sample_items};
pub use self::written_model::InferredModel;
