//! The targets of events, and the queue that takes events whose target is busy.

use std::collections::BTreeMap;
use std::time::Duration;

use afterwrite_model::{Error, ErrorKind};
use afterwrite_relay::notify::TargetName;
use afterwrite_services::{EventEntry, EventLimits, EventOrder, EventTarget, PathQueue};
use serde_json::json;

use super::super::relay_services::{ExternalServices, ExternalState, unavailable};
use super::state::{EventBypass, EventTargetKind, TakenEvent};

/// How many of the requests that fail take effect later, per thousand.
const LATE: u64 = 300;
/// How many errors are refusals, per thousand: a request that is refused as a whole is split.
const REJECTED: u64 = 150;

/// How often a target becomes busy while calls fail, per thousand requests.
const BUSY: u64 = 40;
/// How many requests a busy target refuses, at most: a standard target is busy for longer than the invalidator waits.
const BUSY_REQUESTS: u64 = 40;
const BUSY_REQUESTS_OF_STANDARD: u64 = 200;

impl ExternalState {
    fn event_error(&mut self) -> Error {
        if self.random.chance(REJECTED) { Error::new(ErrorKind::Rejected, "injected") } else { unavailable() }
    }

    /// Whether a target refuses a request because it is busy.
    fn is_busy(&mut self, target: EventTargetKind) -> bool {
        if self.events.faults == 0 {
            return false;
        }
        let begins = self.random.chance(BUSY);
        let most = self.random.below(match target {
            EventTargetKind::Fifo => BUSY_REQUESTS,
            EventTargetKind::Standard => BUSY_REQUESTS_OF_STANDARD,
        });
        let requests = self.events.busy.entry(target).or_default();
        if begins {
            *requests = most;
        }
        let is_busy = *requests > 0;
        *requests = requests.saturating_sub(1);
        is_busy
    }

    /// A request to a target.
    fn take_events(
        &mut self,
        target: EventTargetKind,
        entries: &[EventEntry<'_>],
    ) -> Result<Vec<Result<(), Error>>, Error> {
        let events: Vec<TakenEvent> =
            entries.iter().map(|entry| self.events.arriving(target, entry)).collect();
        let faults = self.events.faults;
        if self.is_busy(target) {
            self.coverage.record("event: target busy");
            return Err(unavailable());
        }
        if self.random.chance(faults) {
            if self.random.chance(LATE) {
                self.coverage.record("event: request took effect after its author stopped waiting");
                self.events.late.push(events);
                return Err(unavailable());
            }
            self.coverage.record("event: request failed");
            return Err(self.event_error());
        }
        let mut results = Vec::with_capacity(events.len());
        for event in events {
            if self.random.chance(faults) {
                self.coverage.record("event: entry failed");
                results.push(Err(self.event_error()));
            } else {
                self.events.taken.push(event);
                results.push(Ok(()));
            }
        }
        if self.random.chance(faults) {
            self.coverage.record("event: response lost");
            return Err(unavailable());
        }
        Ok(results)
    }

    /// A request to the queue.
    fn take_messages(&mut self, texts: &[String]) -> Result<Vec<Result<(), Error>>, Error> {
        let faults = self.events.faults;
        let mut results = Vec::with_capacity(texts.len());
        for text in texts {
            if self.random.chance(faults) {
                self.coverage.record("event: queue refused a message");
                results.push(Err(unavailable()));
            } else {
                self.coverage.record("event: queued");
                self.events.enqueue(text.clone());
                results.push(Ok(()));
            }
        }
        if self.random.chance(faults) { Err(unavailable()) } else { Ok(results) }
    }
}

/// A target of events.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedTarget {
    services: ExternalServices,
    kind: EventTargetKind,
    /// The guard that is switched off for the process that publishes to it.
    bypass: Option<EventBypass>,
}

impl SimulatedTarget {
    /// The targets by the names that rules give them.
    pub(crate) fn all(
        services: &ExternalServices,
        bypass: Option<EventBypass>,
    ) -> BTreeMap<TargetName, Self> {
        let target = |kind: EventTargetKind| (kind.name(), Self { services: services.clone(), kind, bypass });
        EventTargetKind::ALL.map(target).into()
    }

    /// The entries that were refused go to the queue.
    fn enqueue_refused(&self, entries: &[EventEntry<'_>], results: &[bool]) {
        let refused = entries.iter().zip(results).filter(|(_, is_taken)| !**is_taken);
        let events: Vec<_> = refused
            .map(|(EventEntry { id, name, group, body, .. }, _)| {
                let body: serde_json::Value = serde_json::from_str(body).unwrap();
                json!({ "id": id, "name": name, "group": group, "body": body })
            })
            .collect();
        if !events.is_empty() {
            self.services.lock().events.enqueue(json!({ "version": 2, "events": events }).to_string());
        }
    }
}

impl EventTarget for SimulatedTarget {
    fn limits(&self) -> EventLimits {
        EventLimits { entries: 10, bytes: 256 * 1024 }
    }

    fn order(&self) -> EventOrder {
        let hides_order = self.bypass == Some(EventBypass::HideOrder);
        match self.kind {
            EventTargetKind::Fifo if !hides_order => EventOrder::Fifo,
            EventTargetKind::Fifo | EventTargetKind::Standard => EventOrder::Standard,
        }
    }

    fn entry_bytes(&self, entry: &EventEntry<'_>) -> usize {
        entry.name.len() + entry.body.len()
    }

    /// A process may crash before the target takes the entries, and before it has the response.
    async fn publish(
        &self,
        entries: &[EventEntry<'_>],
        _: Duration,
    ) -> Result<Vec<Result<(), Error>>, Error> {
        self.services.yield_turns().await;
        let results = self.services.lock().take_events(self.kind, entries);
        self.services.yield_turns().await;
        let all_taken = || entries.iter().map(|_| Ok(())).collect();
        match self.bypass {
            Some(EventBypass::HideRefusals) => Ok(all_taken()),
            Some(EventBypass::QueueRefused) if self.kind == EventTargetKind::Fifo => {
                let is_taken = |index: usize| results.as_ref().is_ok_and(|results| results[index].is_ok());
                let results: Vec<bool> = (0..entries.len()).map(is_taken).collect();
                self.enqueue_refused(entries, &results);
                Ok(all_taken())
            }
            Some(_) | None => results,
        }
    }
}

impl PathQueue for ExternalServices {
    async fn send_batch(&self, messages: &[String], _: Duration) -> Result<Vec<Result<(), Error>>, Error> {
        self.yield_turns().await;
        let (bypass, results) = {
            let mut outside = self.lock();
            (outside.events.bypass, outside.take_messages(messages))
        };
        self.yield_turns().await;
        match bypass {
            Some(EventBypass::HideQueueRefusals) => Ok(messages.iter().map(|_| Ok(())).collect()),
            Some(_) | None => results,
        }
    }
}
