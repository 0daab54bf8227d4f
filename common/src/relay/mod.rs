//! The stream's second reader: what leaves the table besides counts.

pub mod invalidate;
mod paths;

pub use paths::{MAX_PATHS, MAX_WILDCARDS};
