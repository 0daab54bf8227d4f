//! Event targets in memory, with the limits of an SQS queue.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind};
use afterwrite_services::events::sqs::MAX_BYTES;
use afterwrite_services::sqs::MAX_BATCH_MESSAGES;
use afterwrite_services::{EventEntry, EventLimits, EventOrder, EventTarget};

/// An event that a target took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenEvent {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its group.
    pub group: String,
    /// The time of the change.
    pub changed_at: Option<Timestamp>,
    /// The envelope.
    pub body: String,
}

/// Keeps the events of every request. A FIFO target drops an event whose id it has.
#[derive(Debug)]
pub struct MemoryEvents {
    order: EventOrder,
    requests: Mutex<Vec<Vec<TakenEvent>>>,
}

impl MemoryEvents {
    /// A target with this order.
    #[must_use]
    pub fn new(order: EventOrder) -> Self {
        Self { order, requests: Mutex::default() }
    }

    /// The requests so far: for each, its events without those that were dropped.
    #[must_use]
    pub fn requests(&self) -> Vec<Vec<TakenEvent>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All events in the order of arrival.
    #[must_use]
    pub fn events(&self) -> Vec<TakenEvent> {
        self.requests().concat()
    }
}

impl EventTarget for MemoryEvents {
    fn limits(&self) -> EventLimits {
        EventLimits { entries: MAX_BATCH_MESSAGES, bytes: MAX_BYTES }
    }

    fn order(&self) -> EventOrder {
        self.order
    }

    fn entry_bytes(&self, entry: &EventEntry<'_>) -> usize {
        entry.name.len() + entry.body.len()
    }

    async fn publish(
        &self,
        entries: &[EventEntry<'_>],
        _limit: Duration,
    ) -> Result<Vec<Result<(), Error>>, Error> {
        let bytes: usize = entries.iter().map(|entry| self.entry_bytes(entry)).sum();
        let limits = self.limits();
        if entries.is_empty() || entries.len() > limits.entries || bytes > limits.bytes {
            return Err(Error::new(ErrorKind::Rejected, "publish: the request is over a limit"));
        }
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken: Vec<TakenEvent> = Vec::new();
        for entry in entries {
            let is_known = requests.iter().flatten().chain(&taken).any(|event| event.id == entry.id);
            if self.order == EventOrder::Standard || !is_known {
                taken.push(TakenEvent {
                    id: entry.id.to_owned(),
                    name: entry.name.to_owned(),
                    group: entry.group.to_owned(),
                    changed_at: entry.changed_at,
                    body: entry.body.to_owned(),
                });
            }
        }
        requests.push(taken);
        Ok(entries.iter().map(|_| Ok(())).collect())
    }
}
