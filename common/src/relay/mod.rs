//! The stream's second reader: what a batch's records mean to others than the ledger. Harmless when it is done twice.

pub mod archive;
pub mod invalidate;
mod paths;

pub use paths::{MAX_PATHS, MAX_WILDCARDS};
