//! The built-in models beside the first: workloads written by hand through the real consumer, and what must be derived from them,
//! written by hand as well.

#![expect(clippy::indexing_slicing, reason = "a test that meets the unexpected must fail at once")]

mod algoitny;
mod glad;
mod quiz;
mod reference;
mod shop;
mod workload;
