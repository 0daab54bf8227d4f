//! The totals of publishing the events of a batch.

use std::time::Duration;

/// The totals of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventTotals {
    /// Events that targets took.
    pub sent: usize,
    /// Events that went to the queue, because their target did not take them in time.
    pub queued: usize,
    /// Events that neither a target nor the queue took.
    pub failed: usize,
    /// Events whose `detail` was omitted, because the envelope was larger than the target takes.
    pub detail_omitted: usize,
    /// Requests sent to targets.
    pub requests: u64,
    /// Requests sent to the queue.
    pub queue_requests: u64,
    /// The age of the oldest change whose event a target took; `None` if no event was taken.
    pub oldest: Option<Duration>,
}

impl std::ops::AddAssign for EventTotals {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.queued += other.queued;
        self.failed += other.failed;
        self.detail_omitted += other.detail_omitted;
        self.requests += other.requests;
        self.queue_requests += other.queue_requests;
        self.oldest = self.oldest.max(other.oldest);
    }
}
