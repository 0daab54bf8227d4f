//! Datasets: from the recorded archive of the exam platform to the rows that readers see.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that meets the unexpected must fail at once"
)]

mod compaction;
mod dataset_shape;
#[cfg(feature = "sql")]
mod question_edits;
mod readers;
mod round_trip;
