//! Datasets: what analysts ask. The archive's lines become Parquet, many small files become few, and the SQL to ask them is made
//! from the table model.
//!
//! ```text
//! archive/…  ──exporter──▶  datasets/<name>/dt=…/….parquet  ──compactor──▶  few, large, sorted
//! ```

pub mod catalogue;
pub mod compact;
pub mod export;
pub mod schema;
