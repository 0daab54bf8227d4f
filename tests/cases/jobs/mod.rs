//! Cases A. Jobs know what they run on.

mod basis;
mod deployment;
mod dropped;
mod exports;
mod inputs;
mod leases;
mod listing;
mod older_model;
mod other_table;
mod planning;
mod quiet_streams;
mod store;
mod units;
mod unwritable_mirrors;
