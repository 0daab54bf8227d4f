//! The newest changes that were counted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use afterwrite_model::record::Timestamp;
use afterwrite_preview::trace::RecordTrace;

/// The most changes that are kept.
const MAX_CHANGES: usize = 500;
/// The most bytes of their records.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// A change that the counting function has taken.
#[derive(Debug)]
pub struct CountedChange {
    /// Its number: the first change of the process is 1.
    pub number: u64,
    /// The record as Lambda delivers it. It has the contents of the item, and is never shown.
    pub record: String,
    /// Everything that follows from it, with contents of the item only if they may be shown.
    pub trace: RecordTrace,
    /// When it was taken.
    pub counted_at: Timestamp,
}

impl CountedChange {
    /// How the function took it.
    pub(crate) fn taken(&self) -> &'static str {
        if self.trace.is_counted() { "counted" } else { "read, not counted" }
    }
}

/// The newest changes. The oldest are forgotten.
#[derive(Debug, Default)]
pub struct ChangeRing(Mutex<RingState>);

#[derive(Debug, Default)]
struct RingState {
    /// The number of the newest change.
    newest: u64,
    /// The cache keys that all changes of the process have made stale.
    stale_keys: usize,
    /// The bytes of the kept records.
    bytes: usize,
    /// The oldest first.
    changes: VecDeque<Arc<CountedChange>>,
}

impl ChangeRing {
    /// Adds a change that was counted at this time.
    pub fn add(&self, record: &str, trace: RecordTrace, counted_at: Timestamp) {
        let mut state = self.lock();
        state.newest += 1;
        state.stale_keys += trace.keys.len();
        state.bytes += record.len();
        let change = CountedChange { number: state.newest, record: record.to_owned(), trace, counted_at };
        state.changes.push_back(Arc::new(change));
        while state.changes.len() > MAX_CHANGES || (state.bytes > MAX_BYTES && state.changes.len() > 1) {
            let forgotten = state.changes.pop_front();
            state.bytes -= forgotten.map_or(0, |change| change.record.len());
        }
    }

    /// The kept changes after a number, the newest first.
    pub(crate) fn after(&self, number: u64) -> Vec<Arc<CountedChange>> {
        self.lock().changes.iter().rev().take_while(|change| change.number > number).cloned().collect()
    }

    /// A change by its number, if it is kept.
    pub(crate) fn get(&self, number: u64) -> Option<Arc<CountedChange>> {
        self.lock().changes.iter().find(|change| change.number == number).cloned()
    }

    /// The newest kept change of the item with this key in a deployed table.
    pub(crate) fn newest_of<'k>(
        &self,
        table: &str,
        key: impl Iterator<Item = &'k str> + Clone,
    ) -> Option<Arc<CountedChange>> {
        let is_of_item = |change: &&Arc<CountedChange>| {
            change.trace.table == table && change.trace.key.iter().map(String::as_str).eq(key.clone())
        };
        self.lock().changes.iter().rev().find(is_of_item).cloned()
    }

    /// The number of the newest change; 0 if there was none.
    pub(crate) fn newest(&self) -> u64 {
        self.lock().newest
    }

    /// The cache keys that all changes of the process have made stale.
    pub(crate) fn stale_keys(&self) -> usize {
        self.lock().stale_keys
    }

    fn lock(&self) -> MutexGuard<'_, RingState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_changes_are_kept_and_the_oldest_are_forgotten() {
        let ring = ChangeRing::default();
        let at = Timestamp::from_epoch_ms(0);
        (0..MAX_CHANGES + 10).for_each(|_| ring.add("{}", RecordTrace::default(), at));
        assert_eq!((ring.newest(), ring.after(0).len()), (510, MAX_CHANGES));
        let numbers: Vec<u64> = ring.after(508).iter().map(|change| change.number).collect();
        assert_eq!(numbers, [510, 509]);
        assert!(ring.get(10).is_none() && ring.get(11).is_some());
        let of_item = RecordTrace {
            table: "T".to_owned(),
            key: vec!["a".to_owned()],
            keys: vec!["user:a".to_owned(), "users".to_owned()],
            ..Default::default()
        };
        ring.add("{}", of_item, at);
        assert_eq!(ring.stale_keys(), 2);
        let newest_of = |table, key| ring.newest_of(table, std::iter::once(key)).map(|change| change.number);
        assert_eq!([newest_of("T", "a"), newest_of("T", "b"), newest_of("U", "a")], [Some(511), None, None]);
        // Large records are limited by their bytes.
        let large = "x".repeat(MAX_BYTES / 2);
        (0..4).for_each(|_| ring.add(&large, RecordTrace::default(), at));
        assert_eq!(ring.after(0).len(), 2);
    }
}
