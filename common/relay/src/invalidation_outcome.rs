//! The result of sending stale paths: how many were sent, and which records failed.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite_model::Error;

/// The outcome of sending stale paths to a queue or to a distribution.
#[derive(Debug, Default)]
pub(super) struct PathOutcome {
    /// The first error of each record (or message) whose paths can be sent again, by its index.
    pub(super) failures: BTreeMap<usize, Error>,
    /// Paths that the distribution refuses, and would refuse again.
    pub(super) refused: Vec<RefusedPath>,
    /// Paths that were taken.
    pub(super) paths: usize,
    /// Requests that were sent.
    pub(super) requests: u64,
}

/// A path that the distribution refuses.
#[derive(Debug)]
pub struct RefusedPath {
    /// The path.
    pub path: String,
    /// The records (or messages) that need it invalidated, by their indexes.
    pub records: BTreeSet<usize>,
    /// Why it is refused.
    pub error: Error,
}

impl PathOutcome {
    /// Fails these records; a record keeps its first error.
    pub(super) fn fail(&mut self, records: impl IntoIterator<Item = usize>, error: &Error) {
        for record in records {
            self.failures.entry(record).or_insert_with(|| error.restated());
        }
    }
}
