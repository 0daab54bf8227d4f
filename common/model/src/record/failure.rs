//! A record of a batch that a reader of the stream could not process.

use crate::Error;

/// A record that was not counted, archived or invalidated.
#[derive(Debug)]
pub struct RecordFailure {
    /// The index in the batch.
    pub index: usize,
    /// Why it was not.
    pub error: Error,
}
