//! The built-in models except `exambuddy`, each with a workload and its results, written by hand.

mod algoitny;
mod glad;
mod quiz;
mod shop;
