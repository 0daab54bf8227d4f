//! The handlers of the Lambda functions `aggregator` and `relay`.
//!
//! ```text
//! ProjectionHost ─┬─▶ StreamAggregator   counters, rollups and mirrors       aggregator
//!                 └─▶ StreamRelay        caches invalidated, changes archived     relay
//! ```

mod aggregator;
mod batch;
mod host;
pub mod metrics;
mod region;
mod relay;
mod tables;

pub use aggregator::{AggregatedBatch, StreamAggregator};
pub use batch::FailedRecord;
pub use host::ProjectionHost;
pub use region::StreamRegion;
pub use relay::{RelayedBatch, StreamRelay};
pub use tables::SourceTables;
