//! The waits of a job, for those who watch it: what it waits for, and until when.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use afterwrite_model::clock::Clock;
use afterwrite_model::record::Timestamp;
use serde::{Deserialize, Serialize};

/// Why a job waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitReason {
    /// A difference must last longer than any record is in flight.
    Tolerance,
    /// A snapshot replaces a row only some time after the row's change.
    SnapshotOrder,
}

impl WaitReason {
    /// The reason in words.
    #[must_use]
    pub fn described(self) -> &'static str {
        match self {
            Self::Tolerance => "the tolerance",
            Self::SnapshotOrder => "rows that a snapshot may replace",
        }
    }
}

/// A wait that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobWait {
    /// The reason of the wait.
    pub reason: WaitReason,
    /// When it ends.
    pub until: Timestamp,
    /// The differences that are judged again then; 0 if they are not known.
    pub differences: u64,
}

impl JobWait {
    /// `waits for the tolerance until 10:15:00Z: 9 differences may be of changes in flight (--tolerance)`.
    #[must_use]
    pub fn line(&self) -> String {
        let (before, after) = self.around_time();
        format!("{before}{}{after}", time_of_day(self.until))
    }

    /// The parts of the line before and after the time at which the wait ends.
    #[must_use]
    pub fn around_time(&self) -> (String, String) {
        let differences = match self.differences {
            0 => String::new(),
            1 => ": 1 difference may be of a change in flight (--tolerance)".to_owned(),
            number => format!(": {number} differences may be of changes in flight (--tolerance)"),
        };
        (format!("waits for {} until ", self.reason.described()), differences)
    }
}

/// The time of day of a moment that is near: `10:15:00Z`.
pub(super) fn time_of_day(moment: Timestamp) -> String {
    let text = moment.to_string();
    text.split_once('T').map_or_else(|| text.clone(), |(_, time)| time.to_owned())
}

/// The waits that go on. Copies share them.
#[derive(Clone, Debug, Default)]
pub struct WaitBoard(Arc<Mutex<Vec<JobWait>>>);

impl WaitBoard {
    /// Waits to judge so many differences again, and shows it meanwhile.
    pub async fn sleep(&self, clock: &impl Clock, reason: WaitReason, duration: Duration, differences: u64) {
        if duration.is_zero() {
            return;
        }
        let _shown = self.show(JobWait { reason, until: clock.now().plus(duration), differences });
        clock.sleep(duration).await;
    }

    /// The wait that ends last; `None` if nothing waits.
    #[must_use]
    pub fn current(&self) -> Option<JobWait> {
        self.lock().iter().copied().max_by_key(|wait| wait.until)
    }

    fn show(&self, wait: JobWait) -> ShownWait<'_> {
        self.lock().push(wait);
        ShownWait { board: self, wait }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<JobWait>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a wait from the board, also if its future is dropped.
struct ShownWait<'b> {
    board: &'b WaitBoard,
    wait: JobWait,
}

impl Drop for ShownWait<'_> {
    fn drop(&mut self) {
        let mut waits = self.board.lock();
        if let Some(index) = waits.iter().position(|wait| *wait == self.wait) {
            waits.swap_remove(index);
        }
    }
}

/// The later of two waits.
pub(crate) fn later(one: Option<JobWait>, other: Option<JobWait>) -> Option<JobWait> {
    one.into_iter().chain(other).max_by_key(|wait| wait.until)
}
