//! Operations on deployed tables: jobs, backfill, verification and repair.
#![expect(clippy::unwrap_used, reason = "an unexpected value fails a test with its place")]

mod acknowledged;
mod backfill;
mod bulk;
mod bulk_command;
mod clock;
mod command_line;
mod created;
mod dataset_drift;
mod datasets;
mod dropped_contributions;
mod expired_sources;
mod exports;
mod jobs;
mod lake;
mod latest;
mod levels;
mod live_lake;
mod quiet_lake;
mod ranks;
mod rebuilt_levels;
mod resuming;
mod timed;
mod verify;
pub(crate) mod world;
