//! Afterwrite's command line.

mod arguments;
pub mod backfill;
pub mod command;
pub mod compact;
pub mod datasets;
mod demo;
pub mod deployment;
pub mod export;
pub mod job_output;
pub mod jobs;
pub mod model;
mod print;
pub mod query;
pub mod verify;
