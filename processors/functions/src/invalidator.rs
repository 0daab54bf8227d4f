//! The handler of the function `invalidator`, which drains the queue of stale paths, and of events whose target was busy.
//!
//! ```text
//! SQS event ─▶ messages ─┬─ paths ──▶ relay::drain: each path once, within CloudFront's limits ─▶ CloudFront
//!                        └─ events ─▶ relay::notify ─▶ EventBridge, SQS, SNS
//!                                            │
//!              response: the messages that stay in the queue
//! ```
//!
//! The queue collects the paths of all shards over the batching window of the event source mapping, so a path that changes in many
//! batches is invalidated, and paid for, once. The function must run alone for a distribution (reserved concurrency 1).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Instant;

use afterwrite_lambda::{
    BatchItemFailure, BatchResponse, EventSource, HandledInvocation, Invocation, LambdaFunction,
    MetricsLabels, MetricsLine, response_json,
};
use afterwrite_model::clock::{Clock, SystemClock};
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_relay::drain::{PathInvalidator, QueuedPaths};
use afterwrite_relay::notify::{EventTotals, QueuedEventPublisher, QueuedEvents};
use afterwrite_relay::{QueuedMessage, RefusedPath};
use afterwrite_services::cloudfront::CloudFront;
use afterwrite_services::config::{EnvironmentSettings, FunctionConfig};
use afterwrite_services::events::AwsEventTarget;
use afterwrite_services::{Distribution, EventTarget};
use futures::future::{OptionFuture, join};
use serde::Deserialize;

use crate::notifying::add_events;

const FUNCTION: &str = "invalidator";
/// Log lines of a batch for one kind of failure: a batch has up to 10,000 messages.
const MAX_LINES: usize = 20;

/// Invalidates the paths of SQS messages, and publishes their events.
#[derive(Debug)]
pub struct QueueInvalidator<D, C, T = AwsEventTarget> {
    paths: Option<PathInvalidator<D, C>>,
    events: Option<QueuedEventPublisher<T, C>>,
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
    /// Totals of the events; `None` if the model has none.
    pub notified: Option<EventTotals>,
}

impl InvalidatedMessages {
    /// The batch's metrics.
    #[must_use]
    pub fn metrics(&self) -> MetricsLine {
        let mut line = MetricsLine::default();
        line.count("messages", self.messages);
        line.count("messages_failed", self.failures.len());
        line.count("paths_received", self.received_paths);
        line.count("paths_invalidated", self.paths);
        line.count("paths_refused", self.refused.len());
        line.count("invalidation_requests", self.requests);
        if let Some(notified) = &self.notified {
            add_events(&mut line, notified);
        }
        line
    }
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
    /// A handler for the queue of this distribution. Without a distribution, messages of paths stay in the queue.
    pub fn new(distribution: Option<D>, clock: C) -> Self {
        let paths = distribution.map(|distribution| PathInvalidator::new(distribution, clock));
        Self { paths, events: None }
    }

    /// The same handler, which also publishes events.
    pub fn publishing<T: EventTarget>(
        self,
        publisher: QueuedEventPublisher<T, C>,
    ) -> QueueInvalidator<D, C, T> {
        QueueInvalidator { paths: self.paths, events: Some(publisher) }
    }
}

impl<D: Distribution, C: Clock, T: EventTarget> QueueInvalidator<D, C, T> {
    /// Handles one event and returns before `deadline`.
    ///
    /// # Errors
    /// [`ErrorKind::Event`] if the payload is not an SQS event. Failures of single messages are in the response instead.
    pub async fn handle(&self, event: &str, deadline: Timestamp) -> Result<InvalidatedMessages> {
        let event = read_event(event)?;
        let mut sorted = self.sorted(&event);
        let (indexes, paths): (Vec<usize>, Vec<QueuedPaths<'_>>) = sorted.paths.into_iter().unzip();
        let invalidate = self.paths.as_ref().map(|to| Box::pin(to.invalidate(&paths, deadline)));
        let publish = self.events.as_ref().map(|to| Box::pin(to.publish(sorted.events, deadline)));
        let (drained, published) = join(OptionFuture::from(invalidate), OptionFuture::from(publish)).await;
        let drained = drained.unwrap_or_default();
        let of_paths = drained.failures.into_iter();
        sorted.failures.extend(of_paths.filter_map(|(index, error)| Some((*indexes.get(index)?, error))));
        let notified = published.map(|published| {
            sorted.failures.extend(published.failures);
            published.totals
        });
        let failures = event.failed_messages(sorted.failures);
        let failed =
            failures.iter().map(|failed| BatchItemFailure { item_identifier: failed.message_id.clone() });
        Ok(InvalidatedMessages {
            response: BatchResponse { batch_item_failures: failed.collect() },
            messages: event.records.len(),
            failures,
            refused: drained.refused,
            received_paths: drained.received_paths,
            paths: drained.paths,
            requests: drained.requests,
            notified,
        })
    }

    /// The messages by their contents. One that this function cannot process fails.
    fn sorted<'e>(&self, event: &'e SqsEvent<'e>) -> SortedMessages<'e> {
        let mut sorted = SortedMessages::default();
        for (index, SqsMessage { id, body }) in event.records.iter().enumerate() {
            let error = match QueuedMessage::parse(body, index) {
                Ok(QueuedMessage::Paths(paths)) if self.paths.is_some() => {
                    sorted.paths.push((index, QueuedPaths { message_id: id, paths }));
                    continue;
                }
                Ok(QueuedMessage::Events(events)) if self.events.is_some() => {
                    sorted.events.push(events);
                    continue;
                }
                Ok(QueuedMessage::Paths(_)) => without_distribution(),
                Ok(QueuedMessage::Events(_)) => without_events(),
                Err(error) => error,
            };
            sorted.failures.insert(index, error);
        }
        sorted
    }
}

/// The messages of a batch by their contents, with their indexes.
#[derive(Default)]
struct SortedMessages<'e> {
    paths: Vec<(usize, QueuedPaths<'e>)>,
    events: Vec<QueuedEvents>,
    failures: BTreeMap<usize, Error>,
}

impl SqsEvent<'_> {
    fn failed_messages(&self, failures: BTreeMap<usize, Error>) -> Vec<FailedMessage> {
        let failed = failures.into_iter().filter_map(|(index, error)| {
            Some(FailedMessage { message_id: self.records.get(index)?.id.to_string(), error })
        });
        failed.collect()
    }
}

/// The error of a message of paths in a function without a distribution.
fn without_distribution() -> Error {
    Error::new(
        ErrorKind::Configuration,
        "the message holds stale paths, and AFTERWRITE_CLOUDFRONT_DISTRIBUTION is not set",
    )
    .hint("Set it to the id of the CloudFront distribution whose paths are invalidated")
}

/// The error of a message of events in a function whose model has none.
fn without_events() -> Error {
    Error::new(ErrorKind::Configuration, "the message holds events, and the model has no event rules")
        .hint("Deploy the same model to `relay` and `invalidator`")
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
        let targets = Box::pin(settings.event_targets(&model)).await?;
        let distribution = if targets.is_empty() || settings.distribution.is_some() {
            Some(Box::pin(settings.required_distribution()).await?)
        } else {
            None
        };
        let mut handler = QueueInvalidator::new(distribution, SystemClock);
        if !targets.is_empty() {
            handler = handler.publishing(QueuedEventPublisher::new(targets, SystemClock));
        }
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
        invalidated.metrics().print(&self.labels, started);
        Ok(invalidated.response)
    }
}
