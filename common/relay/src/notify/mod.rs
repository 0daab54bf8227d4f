//! Publishes the events of a batch of changes.
//!
//! ```text
//! events ─▶ by target ─▶ publish: within its limits, entries that failed again, alone ─▶ EventBridge, SQS, SNS
//!                           │ not taken
//!                           ├─ standard target, with a queue ─▶ SQS ─▶ invalidator ─▶ EventBridge, SQS, SNS
//!                           └─ FIFO target, or no queue ──────▶ the record fails and is redelivered
//! ```
//!
//! **No other target waits.** All targets of the relay share the shard's checkpoint, so a target that is busy for long must not fail records. A
//! standard target gets [`PATIENCE`]; then its events go to the queue that the function `invalidator` drains, and the records count as done. For
//! [`PAUSE`], the following batches send its events to the queue at once.
//!
//! The publisher of the queue pauses a target in the same way, so that the paths of the queue do not wait for it either.
//!
//! **Order.** A FIFO target keeps the order of a group, so its events cannot take the way through the queue while later ones take the direct way.
//! They fail their records, and Lambda delivers again from the first of them on. A request has at most one event of each group, and an event
//! waits until the earlier ones of its group are taken.
//!
//! **Once.** An event has the same id in every delivery. A warm process remembers the events that it has published or queued.

mod drain;
mod publish;
mod request;
mod targets;
mod totals;

use std::collections::BTreeMap;
use std::time::Duration;

use afterwrite_model::clock::Clock;
use afterwrite_model::projection::Event;
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind};
use afterwrite_services::{EventOrder, EventTarget, PathQueue};

pub use self::drain::{DRAIN_PATIENCE, QueuedEventPublisher, QueuedEvents, QueuedEventsOutcome};
use self::publish::PublishLimits;
use self::targets::EventTargets;
pub use self::targets::{PAUSE, TargetName};
pub use self::totals::EventTotals;
use super::enqueue::{QUEUE_LIMIT, enqueue_messages};
use super::event_messages::pack_events;
use super::pending_event::PendingEvent;

/// How long a standard target is retried before its events go to the queue. The cache keys of the next batch wait as long.
pub const PATIENCE: Duration = Duration::from_millis(500);
/// How long a target is retried whose records fail otherwise.
const LONG_PATIENCE: Duration = Duration::from_secs(5);

/// The events of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordEvents {
    /// The record's index in the batch.
    pub record: usize,
    /// Whether an earlier record of the same item failed before its events were known. A FIFO target then gets none of these events.
    pub is_behind: bool,
    /// The events.
    pub events: Vec<Event>,
}

/// The outcome of a batch.
#[derive(Debug, Default)]
pub struct NotifyOutcome {
    /// The first error of each record that failed, by the record's index.
    pub failures: BTreeMap<usize, Error>,
    /// The totals of the batch.
    pub totals: EventTotals,
}

/// Publishes events. Invocations may share it.
#[derive(Debug)]
pub struct EventNotifier<T, Q, C> {
    targets: EventTargets<T>,
    queue: Option<Q>,
    clock: C,
}

impl<T: EventTarget, Q: PathQueue, C: Clock> EventNotifier<T, Q, C> {
    /// A notifier for the targets that a model's rules name. `queue` takes the events that a standard target does not take in time.
    pub fn new(targets: BTreeMap<TargetName, T>, queue: Option<Q>, clock: C) -> Self {
        Self { targets: EventTargets::new(targets), queue, clock }
    }

    /// Publishes the events of these records, in order, by `deadline` at the latest.
    pub async fn notify(&self, records: &[RecordEvents], deadline: Timestamp) -> NotifyOutcome {
        let mut outcome = NotifyOutcome::default();
        let (mut direct, mut patient) = (BTreeMap::new(), BTreeMap::new());
        let mut unsent = Vec::new();
        for (name, events) in self.pending(records, &mut outcome) {
            if !self.has_detour(&name) {
                patient.insert(name, events);
            } else if self.targets.is_paused(&name, &self.clock) {
                unsent.extend(events.into_iter().map(|event| (event, EventTargets::<T>::paused_error())));
            } else {
                direct.insert(name, events);
            }
        }
        let limits = PublishLimits { patience: PATIENCE, end: deadline.minus(QUEUE_LIMIT) };
        let long = PublishLimits { patience: LONG_PATIENCE, end: deadline };
        let mut totals = [EventTotals::default(); 2];
        let [of_direct, of_patient] = &mut totals;
        let (direct, patient) = futures::future::join(
            Box::pin(self.publish_with_detour(direct, unsent, limits, deadline, of_direct)),
            Box::pin(self.targets.publish(&self.clock, patient, long, of_patient)),
        )
        .await;
        totals.into_iter().for_each(|of_part| outcome.totals += of_part);
        let unsent = patient.into_values().flat_map(|published| published.unsent).chain(direct);
        for (event, error) in unsent {
            outcome.fail(event.index, error);
        }
        outcome
    }

    /// Publishes to standard targets, and sends the events that they do not take to the queue. Returns the events that neither took.
    async fn publish_with_detour(
        &self,
        events: BTreeMap<TargetName, Vec<PendingEvent>>,
        paused: Vec<(PendingEvent, Error)>,
        limits: PublishLimits,
        deadline: Timestamp,
        totals: &mut EventTotals,
    ) -> Vec<(PendingEvent, Error)> {
        let published = self.targets.publish(&self.clock, events, limits, totals).await;
        let mut unsent = paused;
        for (name, of_target) in published {
            if of_target.is_busy() {
                self.targets.pause(&name, &self.clock);
            }
            unsent.extend(of_target.unsent);
        }
        match &self.queue {
            Some(queue) if !unsent.is_empty() => {
                let refused = self.enqueue(queue, unsent, deadline, totals).await;
                // The records are redelivered: their target is tried again, whatever the queue does.
                refused.iter().for_each(|(event, _)| self.targets.resume(&event.to));
                refused
            }
            Some(_) | None => unsent,
        }
    }

    /// Sends events to the queue. Returns the events that the queue did not take, each with the reason why its target did not take it.
    async fn enqueue(
        &self,
        queue: &Q,
        unsent: Vec<(PendingEvent, Error)>,
        deadline: Timestamp,
        totals: &mut EventTotals,
    ) -> Vec<(PendingEvent, Error)> {
        let (events, errors): (Vec<PendingEvent>, BTreeMap<String, Error>) =
            unsent.into_iter().map(|(event, error)| (event.clone(), (event.id, error))).unzip();
        let (messages, unfit) = pack_events(events);
        let sent = Box::pin(enqueue_messages(queue, &self.clock, messages, deadline)).await;
        totals.queue_requests += sent.requests;
        for events in &sent.taken {
            self.targets.remember(events);
            totals.queued += events.len();
        }
        let refused = sent.failed.into_iter().flat_map(|(events, error)| {
            events.into_iter().map(move |event| (event, error.restated())).collect::<Vec<_>>()
        });
        let too_large = unfit.into_iter().map(|event| {
            let reason = errors.get(&event.id).map(Error::restated);
            let error =
                reason.unwrap_or_else(|| Error::new(ErrorKind::Rejected, "an event cannot be queued"));
            (event, error)
        });
        refused.chain(too_large).collect()
    }

    /// The events by target, in order, without events that this process has published already.
    fn pending(
        &self,
        records: &[RecordEvents],
        outcome: &mut NotifyOutcome,
    ) -> BTreeMap<TargetName, Vec<PendingEvent>> {
        let mut by_target: BTreeMap<TargetName, Vec<PendingEvent>> = BTreeMap::new();
        for record in records {
            for event in record.events.iter().filter(|event| !self.targets.is_done(&event.id)) {
                match self.pending_event(event, record) {
                    Ok((pending, is_detail_omitted)) => {
                        outcome.totals.detail_omitted += usize::from(is_detail_omitted);
                        by_target.entry(event.to.clone()).or_default().push(pending);
                    }
                    Err(error) => outcome.fail(record.record, error),
                }
            }
        }
        by_target
    }

    fn pending_event(&self, event: &Event, record: &RecordEvents) -> Result<(PendingEvent, bool), Error> {
        let target = self.targets.get(&event.to)?;
        if record.is_behind && target.order() == EventOrder::Fifo {
            let message = "an earlier record of the same item failed";
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        Ok(PendingEvent::of(event, record.record, target))
    }

    /// Whether events of this target can take the way through the queue.
    fn has_detour(&self, name: &TargetName) -> bool {
        let order = self.targets.get(name).map(EventTarget::order);
        self.queue.is_some() && order.is_ok_and(|order| order == EventOrder::Standard)
    }
}

impl NotifyOutcome {
    /// Fails a record because of one of its events; the record keeps its first error.
    fn fail(&mut self, record: usize, error: Error) {
        self.totals.failed += 1;
        self.failures.entry(record).or_insert(error);
    }
}
