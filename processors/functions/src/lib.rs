//! Afterwrite's Lambda functions: the stages that one batch passes through, and the functions that host them.

pub mod host;
pub mod metrics;
pub mod pipeline;
pub mod relay;
mod response;
pub mod tables;

pub use pipeline::{Aggregator, Handled};
pub use relay::{Relay, Relayed};
pub use response::FailedRecord;
pub use tables::SourceTables;
