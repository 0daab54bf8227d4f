//! Deliveries to the relay in which records are damaged: the events of such a record are unknown until the next delivery.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite_tests::random::SeededRandom;

use super::super::relay_services::ExternalServices;
use super::super::stream::{StreamRecord, StreamSet};
use super::state::{EventBypass, EventOptions};

/// Damages records.
pub(crate) struct RecordDamage {
    random: SeededRandom,
    /// Records per thousand.
    rate: u64,
    damaged: fn(&StreamRecord) -> String,
    /// The damaged records that were delivered, by their JSON without the damage.
    delivered: BTreeMap<String, String>,
}

impl RecordDamage {
    /// Draws from a generator of its own, so that the deliveries of a seed are the same with damage and without.
    pub(crate) fn new(
        events: Option<EventOptions>,
        bypass: Option<EventBypass>,
        random: &SeededRandom,
    ) -> Self {
        let rate = match bypass {
            // A target that hides its order also gets the events after a damaged record.
            Some(EventBypass::HideOrder) => 0,
            Some(_) | None => events.map_or(0, |events| events.damages),
        };
        let damaged: fn(&StreamRecord) -> String = match bypass {
            Some(EventBypass::HideDamagedItem) => StreamRecord::damaged_without_item,
            Some(_) | None => StreamRecord::damaged,
        };
        let mut random = random.clone();
        let _of_queue = random.split();
        Self { random: random.split(), rate, damaged, delivered: BTreeMap::new() }
    }

    /// The lines that an archive lacks, and the lines that it should not have. A record is archived as it was delivered first, and once: its
    /// line may have the damage.
    pub(crate) fn archive_faults(
        &self,
        expected: &BTreeSet<&str>,
        archived: &BTreeSet<&str>,
    ) -> (usize, usize) {
        let has_damaged =
            |line: &&&str| self.delivered.get(**line).is_some_and(|damaged| archived.contains(&**damaged));
        let damaged: BTreeSet<&str> = self.delivered.values().map(String::as_str).collect();
        let missing = expected.difference(archived).filter(|line| !has_damaged(line)).count();
        let unexpected = archived.difference(expected).filter(|line| !damaged.contains(*line)).count();
        (missing, unexpected)
    }

    /// The event with these records, some of them damaged.
    pub(crate) fn event(
        &mut self,
        records: &[usize],
        streams: &StreamSet,
        services: &ExternalServices,
    ) -> String {
        let mut json = Vec::with_capacity(records.len());
        for record in records {
            let record = &streams.records[*record];
            if self.rate == 0 || !self.random.chance(self.rate) {
                json.push(record.json.clone());
                continue;
            }
            services.lock().coverage.record("event: record damaged");
            let damaged = (self.damaged)(record);
            self.delivered.insert(record.json.clone(), damaged.clone());
            json.push(damaged);
        }
        format!("{{\"Records\":[{}]}}", json.join(","))
    }
}
