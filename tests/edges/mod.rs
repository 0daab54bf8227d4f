//! The ledger at its edges: what scripts against release binaries broke, each as a test.

#![expect(
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "records are JSON objects, which take any name; a test fails if it meets another type"
)]

mod conditions;
mod configuration;
mod copies;
mod crashes;
mod delays;
mod expired_sources;
mod expiries;
mod failing;
mod generations;
mod hanging;
mod isolation;
mod long_keys;
mod lookups;
mod marks;
mod mirrors;
mod models;
mod moves;
mod observed;
mod over_http;
mod parking;
mod plans;
mod races;
mod regions;
mod requests;
mod slow_tables;
mod stopped;
mod throttled;
mod totals;
mod unreadable;
mod values;
mod world;
