//! Publishes the events of the queue's messages: their targets did not take them in time before.
//!
//! The queue has stale paths, too, and one process drains it. So a target that takes nothing is tried for [`DRAIN_PATIENCE`], once in each
//! [`PAUSE`](super::PAUSE); all other invocations leave its events in the queue at once. A target that takes events slowly has [`TIME_LIMIT`].

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

/// How long a busy target is retried. The next stale paths of the queue wait as long.
pub const DRAIN_PATIENCE: Duration = Duration::from_secs(2);
/// How long events are published in one invocation. The events that are left stay in the queue.
const TIME_LIMIT: Duration = Duration::from_secs(15);
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
        let (paused, by_target): (BTreeMap<_, _>, BTreeMap<_, _>) =
            by_target.into_iter().partition(|(name, _)| self.targets.is_paused(name, &self.clock));
        let end = self.clock.now().plus(TIME_LIMIT).min(deadline.minus(RESPONSE_TIME));
        let limits = PublishLimits { patience: DRAIN_PATIENCE, end };
        let published = self.targets.publish(&self.clock, by_target, limits, &mut outcome.totals).await;
        for (name, of_target) in &published {
            if of_target.sent.is_empty() && of_target.is_busy() {
                self.targets.pause(name, &self.clock);
            }
        }
        let paused = paused.into_values().flatten().map(|event| (event, EventTargets::<T>::paused_error()));
        for (event, error) in published.into_values().flat_map(|published| published.unsent).chain(paused) {
            outcome.totals.failed += 1;
            outcome.failures.entry(event.index).or_insert(error);
        }
        outcome
    }
}
