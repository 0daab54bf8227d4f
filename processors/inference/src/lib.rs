//! A table model inferred from a sample of a table's items.
//!
//! ```text
//! sample       the items, the key, the indexes
//!   │ evidence     which words are names of the design: what the items with a word share, and other items lack
//!   ▼
//! keys         key texts → shapes: constant words, variables between separators
//!   ▼
//! groups       items of one kind: keys of one shape, one type
//!   │ attributes, times
//!   ▼
//! entities     names, keys, attributes, doubts
//!   │ proposals    counts and sums for each parent, days, totals
//!   ▼
//! written_model   the TOML, in which proposals and doubts are comments
//! ```
//!
//! The result is a model that loads, and each proposal loads with it: the loader checks both before they are written. It has no
//! values of items except constant words of keys, and types and statuses that occur many times.

mod attributes;
mod entities;
mod evidence;
mod groups;
mod keys;
mod proposals;
mod sample;
mod texts;
mod times;
mod written_model;

pub use self::sample::{
    InferenceHints, KeyAttribute, SampledIndex, TableSample, infer_key, named_key, sample_items,
};
pub use self::written_model::InferredModel;
