//! Sends stale paths to the queue that the invalidator drains.

use std::time::Duration;

use afterwrite_model::Error;
use afterwrite_model::clock::Clock;
use afterwrite_model::projection::RecordsByPath;
use afterwrite_model::record::Timestamp;
use afterwrite_model::retry::RetryPolicy;
use afterwrite_services::PathQueue;

use super::invalidation_outcome::PathOutcome;
use super::messages::{PathMessage, pack_messages, split_requests};

/// How long a queue that does not take the messages is retried. The records are redelivered anyway, and the next batch's cache keys wait.
const QUEUE_LIMIT: Duration = Duration::from_secs(3);

/// Sends these paths until the queue has all of them, or retrying is pointless or too late.
pub(super) async fn enqueue_paths(
    queue: &impl PathQueue,
    clock: &impl Clock,
    stale: &RecordsByPath,
    deadline: Timestamp,
) -> PathOutcome {
    let mut outcome = PathOutcome::default();
    let mut pending = match pack_messages(stale) {
        Ok(messages) => messages,
        Err(error) => {
            outcome.fail(stale.values().flatten().copied(), &error);
            return outcome;
        }
    };
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
            for (message, error) in &retryable {
                outcome.fail(message.records.iter().copied(), error);
            }
            break;
        }
        pending = retryable.into_iter().map(|(message, _)| message).collect();
    }
    outcome
}

/// Sends one request. Returns the messages that can be retried, with their errors.
async fn send(
    queue: &impl PathQueue,
    request: Vec<PathMessage>,
    limit: Duration,
    outcome: &mut PathOutcome,
) -> Vec<(PathMessage, Error)> {
    let texts: Vec<String> = request.iter().map(|message| message.text.clone()).collect();
    outcome.requests += 1;
    let results = match queue.send_batch(&texts, limit).await {
        Ok(results) => results,
        Err(error) => request.iter().map(|_| Err(error.restated())).collect(),
    };
    let mut retryable = Vec::new();
    for (message, result) in request.into_iter().zip(results) {
        match result {
            Ok(()) => outcome.paths += message.paths,
            Err(error) if error.is_retryable() => retryable.push((message, error)),
            Err(error) => outcome.fail(message.records, &error),
        }
    }
    retryable
}
