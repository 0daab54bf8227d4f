//! Afterwrite's command line.

mod arguments;
pub mod backfill;
pub mod command;
pub mod compact;
pub mod datasets;
mod demo;
pub mod deployment;
pub mod export;
mod feed;
pub mod heartbeat;
mod inputs;
pub mod invoke;
mod item_table;
pub mod job_output;
pub mod jobs;
pub mod model;
mod model_option;
mod print;
pub mod query;
pub mod record;
pub mod redrive;
pub mod replay;
pub mod state;
mod streams;
pub mod tail;
pub mod verify;
