//! A table model inferred from a sample of a table's items.
//!
//! ```text
//! sample     the items, the key, the indexes
//!   │ shapes      key texts → templates: constant words, variables between separators
//!   │ groups      items of one kind: by the shapes of their keys, and by an attribute that names their type
//!   │ names       of kinds and variables
//!   │ attributes  types, times, statuses, amounts
//!   ▼
//! entities ─▶ proposals: counts, sums, days ─▶ the TOML, in which proposals are comments
//! ```
//!
//! The result is a model that loads, and each proposal loads with it: the loader checks both before they are written. It has no
//! values of items except constant words of keys, and types and statuses that occur many times.

mod attribute_names;
mod attributes;
mod entities;
mod evidence;
mod groups;
mod kind_words;
mod names;
mod proposals;
mod sample;
mod sampling;
mod separators;
mod shapes;
mod states;
mod texts;
mod times;
mod uncertain;
mod vocabulary;
mod written;

pub use self::sample::{KeyAttribute, SampledIndex, TableSample, infer_key, named_key};
pub use self::sampling::sample_items;
pub use self::written::InferredModel;
