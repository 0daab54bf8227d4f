//! Tests of the product's libraries. They need no program and no server, except where a test is marked as ignored with what it needs;
//! `tests/run` provides that.
//!
//! All modules are one program: each test program compiles the product's generic code again.

mod archive;
mod broken_models;
mod catalogue;
mod conformance;
mod cost;
mod decimals;
mod edges;
mod golden;
mod mapping;
mod model_problems;
mod models;
mod operations;
mod replay;
