//! The stream's second reader: stale caches are invalidated and every change is archived. Both are idempotent and keep no state.
//!
//! ```text
//! change ─▶ projection::StaleCaches ─▶ invalidate, paths ─▶ Redis, CloudFront
//! record ─▶ projection::archive_line ─▶ archive ─▶ Firehose, S3
//! ```

pub mod archive;
pub mod invalidate;
mod paths;

pub use paths::{MAX_PATHS, MAX_WILDCARDS};
