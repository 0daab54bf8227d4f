//! The newest comparison of everything that is derived with the items.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use afterwrite_model::record::Timestamp;
use afterwrite_operations::verify::VerifyFinding;
use tokio::sync::Notify;

/// How long a comparison is recent enough: then the next one may begin.
const REPEAT_AFTER: Duration = Duration::from_secs(3);

/// The newest comparison, and whether another one is under way.
#[derive(Debug, Default)]
pub(crate) struct RecountBoard {
    state: Mutex<RecountState>,
    asked: Notify,
}

#[derive(Debug, Default)]
struct RecountState {
    latest: Option<RecountResult>,
    is_running: bool,
}

/// The result of a comparison.
#[derive(Clone, Debug)]
pub(crate) struct RecountResult {
    /// The verdict.
    pub(crate) verdict: RecountVerdict,
    /// The number of items that were read, and the number of items that are equal to their counted state.
    pub(crate) items: (u64, u64),
    /// The number of rollups that were read, and the number of rollups that are equal to the sum of the items.
    pub(crate) rollups: (u64, u64),
    /// When it began, and how long it took.
    pub(crate) began: Timestamp,
    pub(crate) took: Duration,
}

/// How derived data compares with the items.
#[derive(Clone, Debug)]
pub(crate) enum RecountVerdict {
    /// Everything was judged, and is equal.
    Equal,
    /// There is nothing that could be judged.
    Nothing,
    /// Nothing is known to be wrong, and this is not judged yet.
    Counting(String),
    /// Differences that no change in flight explains.
    Different(Vec<VerifyFinding>),
    /// The comparison failed.
    Failed(String),
}

impl RecountBoard {
    /// The newest result.
    pub(crate) fn latest(&self) -> Option<RecountResult> {
        self.lock().latest.clone()
    }

    /// Asks for a comparison, unless one is under way, or has just ended.
    pub(crate) fn ask(&self, now: Timestamp) {
        let mut state = self.lock();
        let ended = state.latest.as_ref().map(|latest| latest.began.plus(latest.took));
        let is_recent = ended.is_some_and(|ended| now.since(ended) < REPEAT_AFTER);
        if !state.is_running && !is_recent {
            state.is_running = true;
            self.asked.notify_one();
        }
    }

    /// Waits until a comparison is asked for.
    pub(crate) async fn asked(&self) {
        self.asked.notified().await;
    }

    /// Sets the result of a comparison that has begun.
    pub(crate) fn end(&self, result: RecountResult) {
        *self.lock() = RecountState { latest: Some(result), is_running: false };
    }

    fn lock(&self) -> MutexGuard<'_, RecountState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
