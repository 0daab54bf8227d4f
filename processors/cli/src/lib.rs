//! Afterwrite's command line.

mod arguments;
pub mod command;
pub mod compact;
pub mod datasets;
mod demo;
pub mod export;
mod feed;
pub mod heartbeat;
mod inputs;
pub mod invoke;
pub mod model;
mod model_option;
mod print;
pub mod query;
pub mod record;
mod streams;
pub mod tail;
