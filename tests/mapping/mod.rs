//! The event source mapping behaves like Lambda's: one test for each rule. `docs/ESM.md` lists the rules with their tests.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that meets the unexpected must fail at once"
)]

mod at_time;
mod batches;
mod destination;
mod faults;
mod filters;
mod harness;
mod lanes;
mod model_filters;
mod page;
mod reached;
mod response;
mod restarts;
mod retries;
mod runtime;
mod settings;
mod shards;
mod simulated_stream;
