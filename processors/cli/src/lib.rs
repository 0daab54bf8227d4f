//! Afterwrite's command line.

mod arguments;
pub mod backfill;
pub mod command;
pub mod compact;
pub mod datasets;
mod demo;
pub mod deployment;
mod dev;
pub mod export;
mod hosted;
pub mod job_output;
pub mod jobs;
pub mod model;
mod print;
pub mod query;
mod run;
mod signals;
pub mod verify;
