//! Afterwrite's command line: the commands, and the embedded servers they run on.

pub mod command;
pub mod compact;
pub mod demo;
pub mod local;
pub mod model;
mod print;
pub mod query;
