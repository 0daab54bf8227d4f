//! The table model: what a table's items are, and what is derived from them. Loaded whole from one TOML file, validated,
//! and compiled once: names become indexes, templates become pieces, conditions become matchers.
//!
//! ```text
//! entity     what an item is, told by its primary key
//! lookup     what an item does not know itself, asked of an index once and remembered
//! rollup     an item of the state table that holds measures
//! aggregate  which measures an entity's items contribute to which rollups
//! mirror     a copy of a rollup's measure on an application's item
//! ```

mod aggregate;
mod entity;
mod load;
mod pattern;
mod template;

use std::sync::Arc;

pub use aggregate::{
    Aggregate, Average, Destination, Expiry, Measure, MeasureKind, Mirror, MirroredAttribute, Rollup,
};
pub use entity::{
    AttributePath, BoundTemplate, Derivation, DerivationKind, Entity, KeyPattern, Lookup, LookupKey,
    OnExpiry, Piece, Term,
};
pub use load::{ModelErrors, Problem};
pub use pattern::{Operand, Pattern};
pub use template::{Format, Template, TemplatePiece};

use crate::record::Vocabulary;

/// A table model, validated and compiled. The indexes in its parts point into its lists.
#[derive(Debug)]
pub struct Model {
    /// The model's name.
    pub name: Arc<str>,
    /// Grows with every change of the model; ledger entries carry it.
    pub generation: u64,
    /// The source tables.
    pub tables: Vec<Table>,
    /// What items are.
    pub entities: Vec<Entity>,
    /// What is looked up of other items.
    pub lookups: Vec<Lookup>,
    /// The items that hold measures.
    pub rollups: Vec<Rollup>,
    /// What is counted into them.
    pub aggregates: Vec<Aggregate>,
    /// What applications' items show of them.
    pub mirrors: Vec<Mirror>,
    /// The names of all attributes that anything above reads; all others are skipped while decoding.
    pub vocabulary: Vocabulary,
}

/// A source table.
#[derive(Debug)]
pub struct Table {
    /// Its name in the model; `AFTERWRITE_TABLES` may say that it lives under another.
    pub name: Arc<str>,
    /// The name of its partition key.
    pub partition_key: Arc<str>,
    /// The name of its sort key, if it has one.
    pub sort_key: Option<Arc<str>>,
}
