//! Publishes the events of the queue's messages: their targets did not take them in time before.

use std::collections::BTreeMap;
use std::time::Duration;

use afterwrite_model::Error;
use afterwrite_model::clock::Clock;
use afterwrite_model::record::Timestamp;
use afterwrite_services::EventTarget;

use super::publish::PublishLimits;
use super::targets::{EventTargets, TargetName};
use super::totals::EventTotals;
use crate::pending_event::PendingEvent;

/// How long a busy target is retried. The messages stay in the queue afterwards, and the next ones have stale paths, too.
const PATIENCE: Duration = Duration::from_secs(15);
/// The time that the function has left for its response.
const RESPONSE_TIME: Duration = Duration::from_secs(2);

/// The outcome of publishing the events of a batch of messages.
#[derive(Debug, Default)]
pub struct QueuedEventsOutcome {
    /// The messages that must be delivered again, by index, and why.
    pub failures: BTreeMap<usize, Error>,
    /// The totals of the batch.
    pub totals: EventTotals,
}

/// The events of a message of the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedEvents {
    pub(crate) events: Vec<PendingEvent>,
}

/// Publishes the events of messages. A message whose events were published in part is delivered again, and a warm process sends only the rest.
#[derive(Debug)]
pub struct QueuedEventPublisher<T, C> {
    targets: EventTargets<T>,
    clock: C,
}

impl<T: EventTarget, C: Clock> QueuedEventPublisher<T, C> {
    /// A publisher for the targets that a model's rules name.
    pub fn new(targets: BTreeMap<TargetName, T>, clock: C) -> Self {
        Self { targets: EventTargets::new(targets), clock }
    }

    /// Publishes the events of these messages, by `deadline` at the latest.
    pub async fn publish(&self, messages: Vec<QueuedEvents>, deadline: Timestamp) -> QueuedEventsOutcome {
        let mut outcome = QueuedEventsOutcome::default();
        let mut by_target: BTreeMap<TargetName, Vec<PendingEvent>> = BTreeMap::new();
        for event in messages.into_iter().flat_map(|message| message.events) {
            if !self.targets.is_done(&event.id) {
                by_target.entry(event.to.clone()).or_default().push(event);
            }
        }
        let limits = PublishLimits { patience: PATIENCE, end: deadline.minus(RESPONSE_TIME) };
        let published = self.targets.publish(&self.clock, by_target, limits, &mut outcome.totals).await;
        for (event, error) in published.into_values().flat_map(|published| published.unsent) {
            outcome.totals.failed += 1;
            outcome.failures.entry(event.index).or_insert(error);
        }
        outcome
    }
}
