//! The handler of the function `invalidator`, which drains the queue of stale paths.
//!
//! ```text
//! SQS event ─▶ messages ─▶ relay::drain: each path once, within CloudFront's limits ─▶ CloudFront
//!                                            │
//!              response: the messages that stay in the queue
//! ```
//!
//! The queue collects the paths of all shards over the batching window of the event source mapping, so a path that changes in many
//! batches is invalidated, and paid for, once. The function must run alone for a distribution (reserved concurrency 1).

use std::borrow::Cow;
use std::time::Instant;

use afterwrite_lambda::{
    BatchItemFailure, BatchResponse, EventSource, HandledInvocation, Invocation, LambdaFunction,
    MetricsLabels, response_json,
};
use afterwrite_model::clock::{Clock, SystemClock};
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_relay::drain::{PathInvalidator, QueuedPaths};
use afterwrite_relay::{RefusedPath, parse_message};
use afterwrite_services::Distribution;
use afterwrite_services::cloudfront::CloudFront;
use afterwrite_services::config::{EnvironmentSettings, FunctionConfig};
use serde::Deserialize;

use crate::metrics;

const FUNCTION: &str = "invalidator";
/// Log lines of a batch for one kind of failure: a batch has up to 10,000 messages.
const MAX_LINES: usize = 20;

/// Invalidates the paths of SQS messages.
#[derive(Debug)]
pub struct QueueInvalidator<D, C> {
    paths: PathInvalidator<D, C>,
}

/// The outcome of a batch of messages.
#[derive(Debug)]
pub struct InvalidatedMessages {
    /// The function's response.
    pub response: BatchResponse,
    /// How many messages the batch has.
    pub messages: usize,
    /// The messages that stay in the queue.
    pub failures: Vec<FailedMessage>,
    /// Paths that CloudFront refuses, and would refuse again. Their messages leave the queue.
    pub refused: Vec<RefusedPath>,
    /// Paths in all messages.
    pub received_paths: usize,
    /// Paths that were invalidated: each once, and coalesced.
    pub paths: usize,
    /// Requests sent to CloudFront.
    pub requests: u64,
}

/// A message that stays in the queue.
#[derive(Debug)]
pub struct FailedMessage {
    /// Its id.
    pub message_id: String,
    /// Why it failed.
    pub error: Error,
}

/// The part of an SQS event that is read.
#[derive(Deserialize)]
struct SqsEvent<'e> {
    #[serde(borrow, rename = "Records")]
    records: Vec<SqsMessage<'e>>,
}

#[derive(Deserialize)]
struct SqsMessage<'e> {
    #[serde(borrow, rename = "messageId")]
    id: Cow<'e, str>,
    #[serde(borrow)]
    body: Cow<'e, str>,
}

impl<D: Distribution, C: Clock> QueueInvalidator<D, C> {
    /// A handler for the queue of this distribution.
    pub fn new(distribution: D, clock: C) -> Self {
        Self { paths: PathInvalidator::new(distribution, clock) }
    }

    /// Handles one event and returns before `deadline`.
    ///
    /// # Errors
    /// [`ErrorKind::Event`] if the payload is not an SQS event. Failures of single messages are in the response instead.
    pub async fn handle(&self, event: &str, deadline: Timestamp) -> Result<InvalidatedMessages> {
        let event = read_event(event)?;
        let (mut messages, mut failures) = (Vec::new(), Vec::new());
        for SqsMessage { id, body } in &event.records {
            match parse_message(body) {
                Ok(paths) => messages.push(QueuedPaths { message_id: id, paths }),
                Err(error) => failures.push(FailedMessage { message_id: id.to_string(), error }),
            }
        }
        let outcome = Box::pin(self.paths.invalidate(&messages, deadline)).await;
        for (index, error) in outcome.failures {
            let message_id = messages.get(index).map_or("", |message| message.message_id).to_owned();
            failures.push(FailedMessage { message_id, error });
        }
        let failed =
            failures.iter().map(|failed| BatchItemFailure { item_identifier: failed.message_id.clone() });
        Ok(InvalidatedMessages {
            response: BatchResponse { batch_item_failures: failed.collect() },
            messages: event.records.len(),
            failures,
            refused: outcome.refused,
            received_paths: outcome.received_paths,
            paths: outcome.paths,
            requests: outcome.requests,
        })
    }
}

fn read_event(event: &str) -> Result<SqsEvent<'_>> {
    let (reads, hint) = (
        "SQS messages of the relay",
        "Connect it by an event source mapping to the queue that AFTERWRITE_CDN_QUEUE names in the function relay",
    );
    match EventSource::detect(event.as_bytes()) {
        None | Some(EventSource::Sqs) => {}
        Some(source) => return Err(source.unexpected(FUNCTION, reads, hint)),
    }
    // EventBridge Pipes sends the messages alone.
    let records = serde_json::from_str(event).map(|records| SqsEvent { records });
    records.or_else(|_| serde_json::from_str(event)).map_err(|_| {
        Error::new(ErrorKind::Event, format!("the payload is not an SQS event; {FUNCTION} reads {reads}"))
            .hint(hint)
    })
}

/// The function `invalidator`.
#[derive(Debug)]
pub struct InvalidatorFunction {
    labels: MetricsLabels,
    handler: QueueInvalidator<CloudFront, SystemClock>,
    /// Whether logs may have paths, which contain keys of items.
    names_keys: bool,
}

impl InvalidatorFunction {
    /// Creates the function.
    ///
    /// # Errors
    /// A missing or wrong setting, named by its variable.
    pub async fn start(settings: EnvironmentSettings) -> Result<Self> {
        let model = FunctionConfig::resolve(&settings)?.model;
        let distribution = Box::pin(settings.required_distribution()).await?;
        let handler = QueueInvalidator::new(distribution, SystemClock);
        let labels = MetricsLabels::new(&settings, FUNCTION, &model)?;
        Ok(Self { labels, handler, names_keys: settings.names_keys()? })
    }

    fn log(&self, invalidated: &InvalidatedMessages) {
        for FailedMessage { message_id, error } in invalidated.failures.iter().take(MAX_LINES) {
            tracing::warn!(message_id, %error, "a message stays in the queue");
        }
        for RefusedPath { path, error, .. } in invalidated.refused.iter().take(MAX_LINES) {
            let path = self.names_keys.then_some(path);
            tracing::error!(path, %error, "CloudFront refuses a path, which stays stale");
        }
    }
}

impl LambdaFunction for InvalidatorFunction {
    fn handle(&self, invocation: Invocation) -> HandledInvocation<'_> {
        Box::pin(async move { response_json(&self.respond(invocation).await?) })
    }
}

impl InvalidatorFunction {
    async fn respond(&self, invocation: Invocation) -> Result<BatchResponse> {
        let started = Instant::now();
        let invalidated = Box::pin(self.handler.handle(invocation.payload(), invocation.deadline())).await?;
        self.log(&invalidated);
        metrics::invalidated(&invalidated).print(&self.labels, started);
        Ok(invalidated.response)
    }
}
