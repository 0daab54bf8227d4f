//! The handlers of the Lambda functions `aggregator`, `relay` and `invalidator`.
//!
//! ```text
//! ProjectionHost ─┬─▶ StreamAggregator   counters, rollups and mirrors           aggregator
//!                 └─▶ StreamRelay        caches invalidated, changes archived,   relay
//!                            │ SQS           events published
//!                            ▼
//!                     QueueInvalidator   paths of CloudFront, events whose       invalidator
//!                                        target was busy
//! ```

mod aggregator;
mod batch;
mod heartbeat;
mod host;
mod invalidator;
mod notifying;
mod relay;

pub use afterwrite_lambda::MetricsLabels;
pub use aggregator::{AggregatedBatch, StreamAggregator};
pub use batch::{FailedRecord, SourceTables, StreamRegion, observe_failures};
pub use heartbeat::write_heartbeats;
pub use host::{HEARTBEAT_REQUEST, NOT_COUNTED, NOT_RELAYED, ProjectionHost, event_notifier};
pub use invalidator::{FailedMessage, InvalidatedMessages, InvalidatorFunction, QueueInvalidator};
pub use relay::{RelayedBatch, StreamRelay};
