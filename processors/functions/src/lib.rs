//! Afterwrite's Lambda functions: the stages that one batch passes through, and the functions that host them.

pub mod host;
pub mod metrics;
pub mod pipeline;
pub mod relay;
pub mod response;
pub mod tables;

pub use pipeline::{Aggregator, Handled};
pub use relay::{Relay, Relayed};
pub use response::{FailedRecord, Response};
pub use tables::SourceTables;
