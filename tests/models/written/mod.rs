//! The built-in models except `exambuddy`, and a model of elements and percentiles, each with a workload and its results, written by hand.

mod algoitny;
mod glad;
mod measures;
mod quiz;
mod shop;
