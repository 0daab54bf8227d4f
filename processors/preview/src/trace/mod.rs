//! One change record → a summary of everything that follows from it: entity, rollups, cache keys, paths and rows. Nothing is written.
//!
//! ```text
//! record ─▶ item and entity ─▶ lookups ─▶ C(new) − C(old) on each rollup
//!                                    ├──▶ stale cache keys and paths
//!                                    └──▶ rows of datasets
//! ```

mod lookups;
mod summary;
mod tracer;

pub use self::lookups::TraceLookups;
pub use self::summary::{RecordTrace, TracedRollup, TracedRow};
pub use self::tracer::RecordTracer;
