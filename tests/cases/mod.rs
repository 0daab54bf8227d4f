//! Cases that strangers and operators broke, by kind. A test's name begins with the case's letter and number.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that meets the unexpected must fail at once"
)]

mod counting;
mod deployment;
mod development;
mod jobs;
mod names;
mod previews;
mod proof;
mod recovery;
mod strangers;
