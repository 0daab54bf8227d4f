//! The targets of a model's events, each published to on its own: a target that fails or is slow does not stop another.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use afterwrite_model::clock::Clock;
use afterwrite_model::{Error, ErrorKind};
use afterwrite_services::EventTarget;
use futures::future::join_all;

use super::publish::{PublishLimits, PublishOutcome, publish};
use super::totals::EventTotals;
use crate::event_memory::{EventFingerprint, EventMemory};
use crate::pending_event::PendingEvent;

/// The name that rules give a target; `None` for the default target.
pub type TargetName = Option<Arc<str>>;

/// How long a busy target is not asked: its events go to the queue at once, or stay there.
pub const PAUSE: Duration = Duration::from_secs(30);

/// A target, and the end of its pause in epoch milliseconds.
#[derive(Debug)]
struct PausedTarget<T> {
    target: T,
    until: AtomicI64,
}

/// The targets of a model's events, and the events that this process has published: none is published again because another failed.
#[derive(Debug)]
pub(super) struct EventTargets<T> {
    by_name: BTreeMap<TargetName, PausedTarget<T>>,
    published: EventMemory,
}

impl<T: EventTarget> EventTargets<T> {
    pub(super) fn new(by_name: BTreeMap<TargetName, T>) -> Self {
        let not_paused = |target| PausedTarget { target, until: AtomicI64::new(i64::MIN) };
        let by_name = by_name.into_iter().map(|(name, target)| (name, not_paused(target))).collect();
        Self { by_name, published: EventMemory::default() }
    }

    /// The target with this name.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if there is none: the message of the queue was sent by a relay with another model.
    pub(super) fn get(&self, name: &TargetName) -> Result<&T, Error> {
        self.by_name.get(name).map(|paused| &paused.target).ok_or_else(|| {
            let name = name.as_deref().unwrap_or("the default target");
            Error::new(ErrorKind::Configuration, "the model names no such target of events")
                .with("target", name)
                .hint("Deploy the same model to all functions")
        })
    }

    /// Whether the target is not asked now.
    pub(super) fn is_paused(&self, name: &TargetName, clock: &impl Clock) -> bool {
        let target = self.by_name.get(name);
        target.is_some_and(|target| clock.now().epoch_ms() < target.until.load(Ordering::Relaxed))
    }

    /// Begins a [`PAUSE`] of the target.
    pub(super) fn pause(&self, name: &TargetName, clock: &impl Clock) {
        if let Some(target) = self.by_name.get(name) {
            target.until.store(clock.now().plus(PAUSE).epoch_ms(), Ordering::Relaxed);
        }
    }

    /// Ends the pause of the target.
    pub(super) fn resume(&self, name: &TargetName) {
        if let Some(target) = self.by_name.get(name) {
            target.until.store(i64::MIN, Ordering::Relaxed);
        }
    }

    /// The reason why an event was not sent to a target that is paused.
    pub(super) fn paused_error() -> Error {
        Error::new(ErrorKind::Unavailable, "the target took no event a moment ago")
    }

    /// Whether this process has handled the event already.
    pub(super) fn is_done(&self, id: &str) -> bool {
        EventFingerprint::of_event(id).is_some_and(|event| self.published.contains(event))
    }

    /// Remembers these events: they were published, or the queue has them.
    pub(super) fn remember<'e>(&self, events: impl IntoIterator<Item = &'e PendingEvent>) {
        let fingerprints = events.into_iter().filter_map(|event| EventFingerprint::of_event(&event.id));
        self.published.extend(fingerprints);
    }

    /// Publishes events to all targets concurrently, and remembers the events that were taken.
    pub(super) async fn publish(
        &self,
        clock: &impl Clock,
        events: BTreeMap<TargetName, Vec<PendingEvent>>,
        limits: PublishLimits,
        totals: &mut EventTotals,
    ) -> BTreeMap<TargetName, PublishOutcome> {
        let publish_to = |(name, events): (TargetName, Vec<PendingEvent>)| async move {
            let outcome = match self.get(&name) {
                Ok(target) => Box::pin(publish(target, clock, events, limits)).await,
                Err(error) => PublishOutcome {
                    unsent: events.into_iter().map(|event| (event, error.restated())).collect(),
                    ..PublishOutcome::default()
                },
            };
            (name, outcome)
        };
        let outcomes: BTreeMap<_, _> =
            join_all(events.into_iter().map(publish_to)).await.into_iter().collect();
        for outcome in outcomes.values() {
            self.remember(&outcome.sent);
            totals.sent += outcome.sent.len();
            totals.requests += outcome.requests;
            totals.detail_omitted += outcome.detail_omitted;
            let changes = outcome.sent.iter().filter_map(|event| event.changed_at);
            totals.oldest = totals.oldest.max(changes.min().map(|oldest| clock.now().since(oldest)));
        }
        outcomes
    }
}
