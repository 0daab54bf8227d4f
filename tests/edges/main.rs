//! The ledger at its edges: what scripts against release binaries broke, each as a test.

mod conditions;
mod copies;
mod expiries;
mod mirrors;
mod plans;
mod world;
