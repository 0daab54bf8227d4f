//! Afterwrite's Lambda functions: the stages that one batch passes through, and the functions that host them.

pub mod metrics;
pub mod pipeline;
pub mod response;

pub use pipeline::{Aggregator, Handled};
pub use response::Response;
