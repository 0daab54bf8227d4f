//! The recorded exam platform's archive → datasets → what analysts see.

#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected must fail at once")]

mod compaction;
mod readers;
mod round_trip;
