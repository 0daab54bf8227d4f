//! Publishes the events of a batch to one target.
//!
//! ```text
//! events ─▶ next_wave ─▶ split_requests ─▶ target         up to 8 requests at a time
//!    ▲       FIFO: the first of each group   │
//!    └──── entries that failed, alone ◀──────┤            after a delay, for as long as the patience lasts
//!                                            └─▶ refused for good: the event is not sent, nor are the later events of its group (FIFO)
//! ```

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use afterwrite_model::clock::Clock;
use afterwrite_model::record::Timestamp;
use afterwrite_model::retry::RetryPolicy;
use afterwrite_model::{Error, ErrorKind};
use afterwrite_services::{EventEntry, EventOrder, EventTarget};
use futures::{StreamExt as _, stream};

use super::request::{next_wave, split_requests};
use crate::pending_event::PendingEvent;

/// Requests sent concurrently to one target.
const CONCURRENT_REQUESTS: usize = 8;

/// How long one request may take at most: a target responds within milliseconds.
const REQUEST_LIMIT: Duration = Duration::from_secs(2);

/// How long a target may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct PublishLimits {
    /// How long entries that failed are sent again, and how long a target that takes nothing is tried. One request may take twice as long,
    /// up to two seconds.
    pub(super) patience: Duration,
    /// When the last request must have its response.
    pub(super) end: Timestamp,
}

/// The outcome of publishing to one target.
#[derive(Debug, Default)]
pub(super) struct PublishOutcome {
    /// The events that the target took.
    pub(super) sent: Vec<PendingEvent>,
    /// The events that it did not take, in order, with the reason.
    pub(super) unsent: Vec<(PendingEvent, Error)>,
    /// Requests that were sent.
    pub(super) requests: u64,
    /// Events that were sent without their detail, because the target refused the whole.
    pub(super) detail_omitted: usize,
}

impl PublishOutcome {
    /// Whether the target could not take some event now. An event that it refuses for good says nothing about others.
    pub(super) fn is_busy(&self) -> bool {
        self.unsent.iter().any(|(_, error)| error.kind() != ErrorKind::Rejected)
    }
}

/// The result of one request: the events that it had, each with the target's result.
struct RequestOutcome {
    results: Vec<(PendingEvent, Result<(), Error>)>,
    requests: u64,
}

/// Publishes events until the target has all of them, or retrying is pointless or too late.
pub(super) async fn publish(
    target: &impl EventTarget,
    clock: &impl Clock,
    events: Vec<PendingEvent>,
    limits: PublishLimits,
) -> PublishOutcome {
    let mut outcome = PublishOutcome::default();
    let order = target.order();
    let mut pending = events;
    // The retries since a wave without a failure: their number, and when they end.
    let mut retries: Option<(u32, Timestamp)> = None;
    while !pending.is_empty() {
        let wave = next_wave(&mut pending, order);
        let (mut retryable, mut shortened) = (Vec::new(), Vec::new());
        for (mut event, result) in send_wave(target, clock, wave, limits, &mut outcome.requests).await {
            match result {
                Ok(()) => outcome.sent.push(event),
                Err(error) if error.is_retryable() => retryable.push((event, error)),
                Err(error) if error.kind() == ErrorKind::Rejected && event.shorten() => {
                    outcome.detail_omitted += 1;
                    shortened.push(event);
                }
                Err(error) => {
                    outcome.unsent.extend(later_of_group(&mut pending, &event, order, &error));
                    outcome.unsent.push((event, error));
                }
            }
        }
        pending.splice(0..0, shortened);
        if retryable.is_empty() {
            retries = None;
            continue;
        }
        let (retry, until) = retries.map_or_else(
            || (1, clock.now().plus(limits.patience).min(limits.end)),
            |(retry, until)| (retry + 1, until),
        );
        retries = Some((retry, until));
        let is_time = RetryPolicy::STANDARD.wait(retry, until, clock).await;
        put_back(retryable, is_time, order, &mut pending, &mut outcome);
    }
    outcome.unsent.sort_by_key(|(event, _)| event.index);
    outcome
}

/// Returns events that failed to the pending ones if there is time to send them again.
fn put_back(
    retryable: Vec<(PendingEvent, Error)>,
    is_time: bool,
    order: EventOrder,
    pending: &mut Vec<PendingEvent>,
    outcome: &mut PublishOutcome,
) {
    if is_time {
        let later = std::mem::take(pending);
        *pending = retryable.into_iter().map(|(event, _)| event).chain(later).collect();
        return;
    }
    for (event, error) in retryable {
        outcome.unsent.extend(later_of_group(pending, &event, order, &error));
        outcome.unsent.push((event, error));
    }
}

/// Takes the events out of `pending` that must not be sent before `event`: of a FIFO target, the later ones of its group.
fn later_of_group(
    pending: &mut Vec<PendingEvent>,
    event: &PendingEvent,
    order: EventOrder,
    error: &Error,
) -> Vec<(PendingEvent, Error)> {
    match order {
        EventOrder::Standard => Vec::new(),
        EventOrder::Fifo => {
            let (later, others) = std::mem::take(pending)
                .into_iter()
                .partition(|other: &PendingEvent| other.group == event.group);
            *pending = others;
            let waiting = |event: PendingEvent| {
                let message = format!("an earlier event of the same item was not published: {error}");
                (event, Error::new(error.kind(), message))
            };
            Vec::into_iter(later).map(waiting).collect()
        }
    }
}

/// Sends the events of a wave, each once. Once the target has taken nothing for as long as the patience lasts, the rest is not sent.
async fn send_wave(
    target: &impl EventTarget,
    clock: &impl Clock,
    wave: Vec<PendingEvent>,
    limits: PublishLimits,
    requests: &mut u64,
) -> Vec<(PendingEvent, Result<(), Error>)> {
    let positions: HashMap<String, usize> =
        wave.iter().enumerate().map(|(position, event)| (event.id.clone(), position)).collect();
    let patient_until = |since: Timestamp| since.plus(limits.patience).min(limits.end);
    let sent_until = AtomicI64::new(patient_until(clock.now()).epoch_ms());
    let send = |request: Vec<PendingEvent>| {
        let sent_until = &sent_until;
        async move {
            let now = clock.now();
            if now.epoch_ms() >= sent_until.load(Ordering::Relaxed) || now >= limits.end {
                return unsent_request(request);
            }
            let outcome = Box::pin(send_request(target, clock, request, limits)).await;
            if outcome.results.iter().any(|(_, result)| result.is_ok()) {
                let until = patient_until(clock.now()).epoch_ms();
                sent_until.fetch_max(until, Ordering::Relaxed);
            }
            outcome
        }
    };
    let mut outcomes =
        stream::iter(split_requests(wave, target)).map(send).buffer_unordered(CONCURRENT_REQUESTS);
    let mut results = Vec::new();
    while let Some(outcome) = outcomes.next().await {
        *requests += outcome.requests;
        results.extend(outcome.results);
    }
    results.sort_by_key(|(event, _)| positions.get(&event.id).copied());
    results
}

/// A request that is not sent, because the target takes nothing.
fn unsent_request(request: Vec<PendingEvent>) -> RequestOutcome {
    let error = || Error::new(ErrorKind::Unavailable, "the target took no event for too long");
    let results = request.into_iter().map(|event| (event, Err(error()))).collect();
    RequestOutcome { results, requests: 0 }
}

/// Sends one request. A request that is refused as a whole is split: one bad entry must not stop the others.
async fn send_request(
    target: &impl EventTarget,
    clock: &impl Clock,
    request: Vec<PendingEvent>,
    limits: PublishLimits,
) -> RequestOutcome {
    let (mut results, mut requests) = (Vec::with_capacity(request.len()), 0);
    let mut parts = vec![request];
    while let Some(mut part) = parts.pop() {
        let entries: Vec<EventEntry<'_>> = part.iter().map(PendingEvent::entry).collect();
        requests += 1;
        match target
            .publish(&entries, limits.end.since(clock.now()).min(limits.patience * 2).min(REQUEST_LIMIT))
            .await
        {
            Ok(of_entries) => results.extend(part.into_iter().zip(of_entries)),
            Err(error) if error.kind() == ErrorKind::Rejected && part.len() > 1 => {
                let second = part.split_off(part.len() / 2);
                parts.extend([second, part]);
            }
            Err(error) => results.extend(part.into_iter().map(|event| (event, Err(error.restated())))),
        }
    }
    RequestOutcome { results, requests }
}
