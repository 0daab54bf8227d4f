//! Passing on: what a batch's records mean to others than the ledger. Harmless when it is done twice.

pub mod archive;
