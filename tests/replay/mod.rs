//! Operations on change records: fixtures, dry runs, recordings, replay and redrive. The engine is the deployed one; tables and buckets
//! are in memory, or embedded where a test is about the service.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod beginnings;
mod command_line;
mod dry_runs;
mod fixtures;
mod heartbeat;
mod invocation;
mod recordings;
mod redriving;
mod streams;
mod world;
