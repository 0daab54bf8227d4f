//! Afterwrite's command line.

pub mod command;
pub mod compact;
mod demo;
pub mod model;
mod print;
pub mod query;
