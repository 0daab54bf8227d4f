//! Datasets for analysts: the exporter writes archived changes as Parquet, the compactor merges small files into large sorted ones,
//! and the catalogue makes the SQL that Athena needs from the table model.
//!
//! ```text
//! archive/…  ──exporter──▶  datasets/<name>/dt=…/….parquet  ──compactor──▶  few, large, sorted
//! ```

pub mod catalogue;
mod column_type;
pub mod compact;
pub mod export;
mod paths;
pub mod schema;
