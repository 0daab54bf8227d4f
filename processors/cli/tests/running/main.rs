//! The commands that run until they are stopped.

#![cfg(unix)]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that meets the unexpected must fail at once"
)]

mod adopt;
mod background;
mod dev;
mod pipes;
mod run;
mod unreachable;
