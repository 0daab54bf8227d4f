//! Cases F. Tables that other writers touched.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that meets the unexpected must fail at once"
)]

mod numbers;
mod other_writers;
mod types;
