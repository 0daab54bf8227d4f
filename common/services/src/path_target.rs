//! Where the relay sends stale paths.

/// Where stale paths are sent.
#[derive(Clone, Debug)]
pub enum PathTarget<D, Q> {
    /// To the distribution.
    Distribution(D),
    /// To the queue that the invalidator drains.
    Queue(Q),
}
