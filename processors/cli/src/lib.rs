//! Afterwrite's command line.

mod arguments;
pub mod command;
pub mod compact;
pub mod datasets;
mod demo;
pub mod export;
pub mod model;
mod print;
pub mod query;
