//! Bursts: many items at once, or many changes of one item.

use afterwrite_model::record::{Item, Timestamp};

use super::super::store::{EVENTS, MAIN, Store, key_of_item};
use super::items::text;
use super::{PROJECTS, SimulatedApplication};

/// From this size a burst has many items; a smaller one may change one item as often.
const MANY_ITEMS: u64 = 300;

impl SimulatedApplication {
    /// Writes `records` changes at once; returns their description.
    pub(super) fn burst<S: Store>(&mut self, store: &S, records: u64, now: Timestamp) -> String {
        let poison = std::mem::take(&mut self.poison);
        let kinds = if records < MANY_ITEMS { 4 } else { 2 };
        let what = match self.random.below(kinds) {
            0 => self.task_burst(store, records, now),
            1 => self.event_burst(store, records),
            2 => self.image_burst(store, records),
            _ => self.expiry_burst(store, records, now),
        };
        self.poison = poison;
        format!("{what} {records}")
    }

    fn task_burst<S: Store>(&mut self, store: &S, records: u64, now: Timestamp) -> &'static str {
        let project = self.random.below(PROJECTS);
        for number in 0..records {
            let mut task = self.task(project, 1000 + number, now);
            // The sum of so many prices could exceed 38 digits.
            task.remove("price");
            store.put(MAIN, task);
        }
        "flood"
    }

    fn event_burst<S: Store>(&mut self, store: &S, records: u64) -> &'static str {
        for number in 0..records {
            let mut event = self.event();
            event.insert("id".into(), text(format!("EVENT#{}", 1000 + number)));
            store.put(EVENTS, event);
        }
        "flood"
    }

    /// Moves one reading from place to place, so that its images change the extremes of as many rollups.
    fn image_burst<S: Store>(&mut self, store: &S, records: u64) -> &'static str {
        for place in 0..records {
            let reading = self.reading_at(0, 100 + place);
            store.put(MAIN, reading);
        }
        "flicker"
    }

    /// One session expires again and again.
    fn expiry_burst<S: Store>(&mut self, store: &S, records: u64, now: Timestamp) -> &'static str {
        for _ in 0..records.div_ceil(2) {
            let session: Item = self.session_of("0", "0", now);
            let key = key_of_item(MAIN, &session);
            store.put(MAIN, session);
            store.expire(&key);
        }
        "expire-often"
    }
}
