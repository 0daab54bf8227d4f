//! The stream's second reader: stale caches are invalidated, every change is archived, and the model's events are published. All are idempotent.
//!
//! ```text
//! change ─▶ projection::StaleCaches ─▶ invalidate ─▶ keys: Redis ─ gone ─▶ paths ─┬─ enqueue ─▶ SQS ─▶ drain ─┐
//!                                                                                 └───────── distribute ◀──────┴─▶ CloudFront
//! record ─▶ projection::archive_line ─▶ archive ─▶ Firehose, S3
//! change ─▶ projection::events_of ─▶ notify ─┬─▶ EventBridge, SQS, SNS
//!                                            └─ busy ─▶ enqueue ─▶ SQS ─▶ notify::drain ─▶ EventBridge, SQS, SNS
//! ```

pub mod archive;
mod distribute;
pub mod drain;
mod enqueue;
mod event_memory;
mod event_messages;
pub mod invalidate;
mod invalidation_outcome;
mod messages;
pub mod notify;
mod paths;
mod pending_event;
mod queued_message;
mod requests;

pub use event_memory::{EventFingerprint, EventMemory};
pub use invalidation_outcome::RefusedPath;
pub use paths::{MAX_PATHS, MAX_WILDCARDS};
pub use queued_message::QueuedMessage;
