//! Operations on deployed tables: jobs, backfill, verification and repair.
#![expect(clippy::unwrap_used, reason = "an unexpected value fails a test with its place")]

mod backfill;
mod bulk;
mod bulk_command;
mod command_line;
mod datasets;
mod exports;
mod jobs;
mod lake;
mod verify;
mod world;
