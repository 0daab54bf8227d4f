//! Datasets for analysts, two Delta tables each: the exporter adds archived changes to the log, the compactor packs the log and derives
//! the current rows from it, and the catalogue makes the SQL that Athena needs from the table model.
//!
//! ```text
//! archive/…  ──exporter──▶  datasets/<name>_log/  every change  ──compactor──▶  datasets/<name>/  one row an item
//! ```

pub mod catalogue;
mod column_type;
pub mod compact;
pub mod delta;
pub mod export;
#[cfg(test)]
mod fixed_clock;
pub mod freshness;
mod heartbeat;
mod objects;
mod paths;
pub mod row_values;
pub mod schema;

pub use self::paths::DATASET_PREFIXES;
