//! The ledger at its edges: what scripts against release binaries broke, each as a test.

mod conditions;
mod copies;
mod expiries;
mod mirrors;
mod over_http;
mod parking;
mod plans;
mod regions;
mod world;
