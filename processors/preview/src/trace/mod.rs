//! One change record → a summary of everything that follows from it: entity, rollups, cache keys, paths, events and rows. Nothing is written.
//!
//! ```text
//! record ─▶ item and entity ─▶ lookups ─▶ C(new) − C(old) on each rollup
//!                                    ├──▶ stale cache keys and paths
//!                                    ├──▶ events
//!                                    └──▶ rows of datasets
//! ```

mod lookups;
mod summary;
mod tracer;

pub use self::lookups::TraceLookups;
pub use self::summary::{RecordTrace, TracedEvent, TracedRollup, TracedRow};
pub use self::tracer::RecordTracer;
