//! Afterwrite's command line.

mod arguments;
pub mod command;
pub mod compact;
mod demo;
pub mod model;
mod print;
pub mod query;
