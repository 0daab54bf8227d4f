//! The stream's second reader: stale caches are invalidated and every change is archived. Both are idempotent.
//!
//! ```text
//! change ─▶ projection::StaleCaches ─▶ invalidate ─▶ keys: Redis ─ gone ─▶ paths ─┬─ enqueue ─▶ SQS ─▶ drain ─┐
//!                                                                                 └───────── distribute ◀──────┴─▶ CloudFront
//! record ─▶ projection::archive_line ─▶ archive ─▶ Firehose, S3
//! ```

pub mod archive;
mod distribute;
pub mod drain;
mod enqueue;
mod event_memory;
pub mod invalidate;
mod invalidation_outcome;
mod messages;
mod paths;

pub use event_memory::{EventFingerprint, EventMemory};
pub use invalidation_outcome::RefusedPath;
pub use messages::parse_message;
pub use paths::{MAX_PATHS, MAX_WILDCARDS};
