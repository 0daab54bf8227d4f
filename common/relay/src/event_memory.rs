//! The events that a warm process has handled, so that a redelivered batch repeats nothing that is done.
//!
//! A batch is redelivered if any of its records failed, and it may have failed at one target only. The memory is bounded and is lost with the
//! process: it saves work and duplicates, and correctness does not depend on it.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use afterwrite_model::record::RecordBatch;
use sha2::{Digest as _, Sha256};

/// How many events a memory holds: many times the largest batch of the shards that one process handles. Takes about 4 MB.
const CAPACITY: usize = 100_000;

/// The identity of a change: its event id, table and position, as a hash of 128 bits. Two changes never share it in practice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventFingerprint(u128);

impl EventFingerprint {
    /// The fingerprint of the record with this index; `None` if it has no event id and cannot be recognised.
    #[must_use]
    pub fn of(batch: &RecordBatch<'_>, index: usize) -> Option<Self> {
        let (event_id, table, position) = match batch.records.get(index)? {
            Ok(record) => (&*record.event_id, &*record.table, Some(&record.position)),
            Err(bad) => (&*bad.event_id, bad.table.as_deref().unwrap_or_default(), bad.position.as_ref()),
        };
        if event_id.is_empty() {
            return None;
        }
        let label = position.map(|position| position.label()).unwrap_or_default();
        let number = position.map(|position| position.sequence_number()).unwrap_or_default();
        let mut hash = Sha256::new();
        for text in [event_id, table, label, number] {
            hash.update(text.len().to_be_bytes());
            hash.update(text);
        }
        let digest: [u8; 32] = hash.finalize().into();
        let (first, _) = digest.split_first_chunk::<16>()?;
        Some(Self(u128::from_be_bytes(*first)))
    }
}

impl EventFingerprint {
    /// The fingerprint of an event that a target gets, by its id of 32 hexadecimal digits; `None` for another text.
    #[must_use]
    pub fn of_event(id: &str) -> Option<Self> {
        u128::from_str_radix(id, 16).ok().map(Self)
    }
}

/// A bounded set of events. The events that were neither added nor found for the longest time are forgotten first.
#[derive(Debug)]
pub struct EventMemory {
    capacity: usize,
    halves: Mutex<MemoryHalves>,
}

/// New events are added to one half. When it is full, it replaces the other half, which is forgotten.
#[derive(Debug, Default)]
struct MemoryHalves {
    recent: HashSet<EventFingerprint>,
    older: HashSet<EventFingerprint>,
}

impl Default for EventMemory {
    fn default() -> Self {
        Self::with_capacity(CAPACITY)
    }
}

impl EventMemory {
    /// A memory of at most this many events, and at least half of it.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self { capacity, halves: Mutex::default() }
    }

    /// Whether the event was added before, as far as this process remembers.
    #[must_use]
    pub fn contains(&self, event: EventFingerprint) -> bool {
        let mut halves = self.lock();
        if halves.recent.contains(&event) {
            return true;
        }
        let is_known = halves.older.contains(&event);
        if is_known {
            self.add(&mut halves, event);
        }
        is_known
    }

    /// Adds events.
    pub fn extend(&self, events: impl IntoIterator<Item = EventFingerprint>) {
        let mut halves = self.lock();
        events.into_iter().for_each(|event| self.add(&mut halves, event));
    }

    fn add(&self, halves: &mut MemoryHalves, event: EventFingerprint) {
        if halves.recent.len() >= (self.capacity / 2).max(1) {
            halves.older = std::mem::take(&mut halves.recent);
        }
        halves.recent.insert(event);
    }

    fn lock(&self) -> MutexGuard<'_, MemoryHalves> {
        self.halves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use afterwrite_model::record::decode;
    use afterwrite_model::table::Model;

    use super::*;

    fn event(number: u128) -> EventFingerprint {
        EventFingerprint(number)
    }

    #[test]
    fn the_latest_events_are_remembered_and_the_number_is_bounded() {
        let memory = EventMemory::with_capacity(100);
        memory.extend((0..1_000).map(event));
        let remembered = (0..1_000).filter(|number| {
            let halves = memory.lock();
            halves.recent.contains(&event(*number)) || halves.older.contains(&event(*number))
        });
        let remembered: Vec<u128> = remembered.collect();
        assert!((50..=100).contains(&remembered.len()), "{}", remembered.len());
        assert_eq!(remembered.last(), Some(&999));
        assert!(remembered.windows(2).all(|pair| pair[0] + 1 == pair[1]), "the latest ones");
    }

    #[test]
    fn an_event_that_is_found_again_stays() {
        let memory = EventMemory::with_capacity(100);
        memory.extend([event(0)]);
        for number in 1..1_000 {
            memory.extend([event(number)]);
            assert!(memory.contains(event(0)), "{number}");
        }
        assert!(!memory.contains(event(1)));
    }

    #[test]
    fn a_fingerprint_depends_on_event_table_and_position() {
        let model = Model::load(Model::DEFAULT_NAME).unwrap();
        let fingerprint = |event_id: &str, table: &str, label: &str, number: &str| {
            let stream = format!("arn:aws:dynamodb:us-east-1:000000000000:table/{table}/stream/{label}");
            let record = serde_json::json!({
                "eventID": event_id, "eventName": "INSERT", "eventSourceARN": stream,
                "dynamodb": { "Keys": { "PK": { "S": "a" }, "SK": { "S": "b" } }, "SequenceNumber": number }
            });
            let event = serde_json::json!({ "Records": [record] }).to_string();
            let batch = decode(event.as_bytes(), &model.attributes).unwrap();
            EventFingerprint::of(&batch, 0)
        };
        let (one, two) = ("2026-02-06T10:00:00.000", "2026-02-07T10:00:00.000");
        let first = fingerprint("e1", "t", one, "100");
        assert!(first.is_some() && first == fingerprint("e1", "t", one, "100"));
        for other in [
            fingerprint("e2", "t", one, "100"),
            fingerprint("e1", "u", one, "100"),
            fingerprint("e1", "t", two, "100"),
            fingerprint("e1", "t", one, "101"),
            // A malformed record.
            fingerprint("e1", "t", one, "x"),
        ] {
            assert!(other.is_some() && other != first);
        }
        assert_eq!(fingerprint("", "t", one, "100"), None);
    }
}
