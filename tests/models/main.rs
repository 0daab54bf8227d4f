//! The built-in models beside the first: workloads written by hand through the real consumer, and what must be derived from them,
//! written by hand as well; and the demo's generated workloads, amid faults.

#![expect(clippy::indexing_slicing, reason = "a test that meets the unexpected must fail at once")]

mod algoitny;
mod evolution;
mod generated;
mod glad;
mod quiz;
mod reference;
mod shop;
mod workload;
