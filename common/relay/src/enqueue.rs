//! Sends messages to the queue that the invalidator drains: stale paths, and events whose target is busy.

use std::time::Duration;

use afterwrite_model::Error;
use afterwrite_model::clock::Clock;
use afterwrite_model::projection::RecordsByPath;
use afterwrite_model::record::Timestamp;
use afterwrite_model::retry::RetryPolicy;
use afterwrite_services::PathQueue;

use super::invalidation_outcome::PathOutcome;
use super::messages::{QueueMessage, pack_messages, split_requests};

/// How long a queue that does not take the messages is retried. The records are redelivered anyway, and the next batch's cache keys wait.
pub(super) const QUEUE_LIMIT: Duration = Duration::from_secs(3);

/// The outcome of sending messages.
#[derive(Debug)]
pub(super) struct EnqueueOutcome<C> {
    /// The contents of the messages that the queue took.
    pub(super) taken: Vec<C>,
    /// The contents of the other messages, each with the reason.
    pub(super) failed: Vec<(C, Error)>,
    /// Requests that were sent.
    pub(super) requests: u64,
}

/// Sends these paths until the queue has all of them, or retrying is pointless or too late.
pub(super) async fn enqueue_paths(
    queue: &impl PathQueue,
    clock: &impl Clock,
    stale: &RecordsByPath,
    deadline: Timestamp,
) -> PathOutcome {
    let mut outcome = PathOutcome::default();
    let messages = match pack_messages(stale) {
        Ok(messages) => messages,
        Err(error) => {
            outcome.fail(stale.values().flatten().copied(), &error);
            return outcome;
        }
    };
    let sent = enqueue_messages(queue, clock, messages, deadline).await;
    outcome.requests = sent.requests;
    outcome.paths = sent.taken.iter().map(|contents| contents.paths).sum();
    for (contents, error) in sent.failed {
        outcome.fail(contents.records, &error);
    }
    outcome
}

/// Sends messages until the queue has all of them, or retrying is pointless or too late.
pub(super) async fn enqueue_messages<C>(
    queue: &impl PathQueue,
    clock: &impl Clock,
    messages: Vec<QueueMessage<C>>,
    deadline: Timestamp,
) -> EnqueueOutcome<C> {
    let mut outcome = EnqueueOutcome { taken: Vec::new(), failed: Vec::new(), requests: 0 };
    let mut pending = messages;
    let deadline = deadline.min(clock.now().plus(QUEUE_LIMIT));
    for attempt in 1.. {
        let mut retryable = Vec::new();
        for request in split_requests(pending) {
            let limit = deadline.since(clock.now());
            retryable.extend(send(queue, request, limit, &mut outcome).await);
        }
        if retryable.is_empty() {
            break;
        }
        if !RetryPolicy::STANDARD.wait(attempt, deadline, clock).await {
            outcome.failed.extend(retryable.into_iter().map(|(message, error)| (message.contents, error)));
            break;
        }
        pending = retryable.into_iter().map(|(message, _)| message).collect();
    }
    outcome
}

/// Sends one request. Returns the messages that can be retried, with their errors.
async fn send<C>(
    queue: &impl PathQueue,
    request: Vec<QueueMessage<C>>,
    limit: Duration,
    outcome: &mut EnqueueOutcome<C>,
) -> Vec<(QueueMessage<C>, Error)> {
    let texts: Vec<String> = request.iter().map(|message| message.text.clone()).collect();
    outcome.requests += 1;
    let results = match queue.send_batch(&texts, limit).await {
        Ok(results) => results,
        Err(error) => request.iter().map(|_| Err(error.restated())).collect(),
    };
    let mut retryable = Vec::new();
    for (message, result) in request.into_iter().zip(results) {
        match result {
            Ok(()) => outcome.taken.push(message.contents),
            Err(error) if error.is_retryable() => retryable.push((message, error)),
            Err(error) => outcome.failed.push((message.contents, error)),
        }
    }
    retryable
}
