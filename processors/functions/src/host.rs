//! The functions `aggregator` and `relay`: a function hosts a set of projections, passes each batch to all of them concurrently, and
//! returns the lowest failure of any. A failure of one does not stop another.

use std::sync::Arc;
use std::time::Instant;

use afterwrite_lambda::{
    BatchResponse, HandledInvocation, Invocation, LambdaFunction, MetricsLabels, response_json,
};
use afterwrite_ledger::Ledger;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::record::{StreamView, Timestamp};
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_relay::archive::ChangeArchiver;
use afterwrite_relay::invalidate::CacheInvalidator;
use afterwrite_relay::notify::EventNotifier;
use afterwrite_services::cloudfront::CloudFront;
use afterwrite_services::config::{EnvironmentSettings, FunctionConfig, ProjectionKind};
use afterwrite_services::dynamodb::DynamoDb;
use afterwrite_services::events::AwsEventTarget;
use afterwrite_services::firehose::Firehose;
use afterwrite_services::redis::RedisCache;
use afterwrite_services::s3::S3Bucket;
use afterwrite_services::sqs::SqsQueue;
use futures::future::{OptionFuture, join};
use serde::Deserialize;

use crate::batch::report_failures;
use crate::heartbeat::write_heartbeats;
use crate::{FailedRecord, SourceTables, StreamAggregator, StreamRegion, StreamRelay};

/// The payload with which a schedule invokes `aggregator` to write heartbeats.
pub const HEARTBEAT_REQUEST: &str = r#"{"afterwrite":"heartbeat"}"#;

/// The log's message about a record that `aggregator` did not count. It is delivered again.
pub const NOT_COUNTED: &str = "a record was not counted";

/// The log's message about a record that `relay` did not relay. It is delivered again.
pub const NOT_RELAYED: &str = "a record was not relayed";

#[derive(Deserialize)]
struct FunctionRequest {
    afterwrite: String,
}

/// Whether a payload requests a heartbeat.
fn is_heartbeat_request(payload: &str) -> bool {
    // Every batch passes here; the request is short.
    payload.len() < 1_000
        && serde_json::from_str(payload).is_ok_and(|FunctionRequest { afterwrite }| afterwrite == "heartbeat")
}

/// A function's projections, ready for batches.
#[derive(Debug)]
pub struct ProjectionHost {
    labels: MetricsLabels,
    /// The deployed names of the tables whose streams are read.
    table_names: Vec<Arc<str>>,
    aggregator: Option<DeployedAggregator>,
    relay: Option<DeployedRelay>,
}

type DeployedAggregator = StreamAggregator<DynamoDb, SystemClock>;
type DeployedRelay = StreamRelay<RedisCache, CloudFront, SqsQueue, Firehose, S3Bucket, SystemClock>;

impl ProjectionHost {
    /// Creates a function that hosts `default`, or the projections that `AFTERWRITE_PROJECTIONS` names.
    ///
    /// # Errors
    /// A missing or wrong setting, named by its variable.
    pub async fn start(
        function: &'static str,
        default: &[ProjectionKind],
        settings: EnvironmentSettings,
    ) -> Result<Self> {
        let projections = settings.projections_or(default)?;
        let config = FunctionConfig::resolve(&settings)?;
        settings.check_state_source(&config.model, projections.iter().copied())?;
        let (mut aggregator, mut invalidator, mut archiver, mut notifier) = (None, None, None, None);
        for projection in projections {
            match projection {
                ProjectionKind::Aggregate => {
                    aggregator = Some(Box::pin(start_aggregator(&settings, &config)).await?);
                }
                ProjectionKind::Invalidate => {
                    let (cache, paths) =
                        (Box::pin(settings.cache()).await?, Box::pin(settings.path_target()).await?);
                    invalidator = Some(CacheInvalidator::new(cache, paths, SystemClock));
                }
                ProjectionKind::Archive => archiver = Some(Box::pin(start_archiver(&settings)).await?),
                ProjectionKind::Notify => {
                    notifier = Box::pin(event_notifier(&settings, &config.model)).await?;
                }
            }
        }
        let labels = MetricsLabels::new(&settings, function, &config.model)?;
        let region = StreamRegion::new(settings.region.as_deref());
        let table_names = config.table_names.clone();
        let tables = SourceTables::new(config.model, config.table_names).in_region(region);
        let relay = StreamRelay::hosting(tables, invalidator, archiver, notifier, SystemClock);
        Ok(Self { labels, table_names, aggregator, relay })
    }

    async fn aggregate(
        &self,
        aggregator: &DeployedAggregator,
        event: &[u8],
        deadline: Timestamp,
    ) -> Result<BatchResponse> {
        let started = Instant::now();
        let aggregated = Box::pin(aggregator.handle(event, deadline)).await?;
        log_failures(&aggregated.failures, NOT_COUNTED);
        report_failures(self.labels.function(), &aggregated.failures);
        log_failures(&aggregated.parked, "a record cannot be counted; its item is marked as parked");
        log_errors(&aggregated.unwritable_mirrors, "a mirror was not written", |error| (None, error));
        aggregated.metrics().print(&self.labels, started);
        Ok(aggregated.response)
    }

    /// Writes the heartbeats, as a schedule requests them.
    async fn write_heartbeats(&self) -> Result<BatchResponse> {
        let Some(aggregator) = &self.aggregator else {
            return Err(Error::new(
                ErrorKind::Configuration,
                "this function does not host the projection `aggregate`",
            )
            .hint("Let the schedule invoke the function `aggregator`: it may write to the source tables"));
        };
        let ledger = aggregator.ledger();
        let (model, now) = (ledger.model(), SystemClock.now());
        let written = write_heartbeats(model, &self.table_names, ledger.tables(), now).await?;
        tracing::info!(tables = written.join(", "), "heartbeats written");
        Ok(BatchResponse::default())
    }

    async fn relay(&self, relay: &DeployedRelay, event: &[u8], deadline: Timestamp) -> Result<BatchResponse> {
        let started = Instant::now();
        let relayed = Box::pin(relay.handle(event, deadline)).await?;
        log_failures(&relayed.failures, NOT_RELAYED);
        report_failures(self.labels.function(), &relayed.failures);
        let refused = "CloudFront refuses a path, which stays stale";
        log_errors(&relayed.refused, refused, |refused| (None, &refused.error));
        relayed.metrics().print(&self.labels, started);
        Ok(relayed.response)
    }
}

impl LambdaFunction for ProjectionHost {
    fn handle(&self, invocation: Invocation) -> HandledInvocation<'_> {
        Box::pin(async move { response_json(&self.respond(invocation).await?) })
    }
}

impl ProjectionHost {
    async fn respond(&self, invocation: Invocation) -> Result<BatchResponse> {
        if is_heartbeat_request(invocation.payload()) {
            return Box::pin(self.write_heartbeats()).await;
        }
        let (event, deadline) = (invocation.payload().as_bytes(), invocation.deadline());
        let aggregated = self.aggregator.as_ref().map(|to| self.aggregate(to, event, deadline));
        let relayed = self.relay.as_ref().map(|to| self.relay(to, event, deadline));
        let (aggregated, relayed) = join(OptionFuture::from(aggregated), OptionFuture::from(relayed)).await;
        let responses: Vec<BatchResponse> = aggregated.into_iter().chain(relayed).collect::<Result<_>>()?;
        Ok(BatchResponse::merged(responses))
    }
}

async fn start_aggregator(
    settings: &EnvironmentSettings,
    config: &FunctionConfig,
) -> Result<DeployedAggregator> {
    let state_table = settings.required_state_table()?;
    let tables = DynamoDb::new(settings.dynamodb_client().await?);
    let (model, names) = (config.model.clone(), config.table_names.clone());
    if model.state_source().is_some() {
        report_state_stream(&tables, &state_table).await;
    }
    let ledger = Ledger::new(model, names, state_table, tables, SystemClock);
    let ledger = ledger.on_poison(settings.poison_policy()?).naming_keys(settings.names_keys()?);
    Ok(StreamAggregator::new(ledger).in_region(StreamRegion::new(settings.region.as_deref())))
}

/// Logs that the state table lacks the stream that the model needs. Records of the source tables are counted all the same.
async fn report_state_stream(tables: &DynamoDb, state_table: &str) {
    match tables.stream_view(state_table).await {
        Ok(view) if view.as_deref() == Some(StreamView::NewAndOldImages.name()) => {}
        Ok(view) => tracing::error!(
            state_table,
            stream = view.as_deref().unwrap_or("none"),
            "rollups of the model are sources, and the state table has no stream with the view type NEW_AND_OLD_IMAGES: nothing that follows from rollups is updated. Enable the stream, create its event source mapping (`afterwrite doctor` checks both), and run `afterwrite backfill`, which counts what was missed"
        ),
        // Without the permission, the stream is checked by plan and `doctor` alone.
        Err(error) => tracing::debug!(%error, "the stream of the state table was not checked"),
    }
}

/// The notifier of a model's events, with the environment's targets and queue; `None` if the model has no events.
///
/// # Errors
/// A missing or wrong setting, named by its variable.
pub async fn event_notifier(
    settings: &EnvironmentSettings,
    model: &Model,
) -> Result<Option<EventNotifier<AwsEventTarget, SqsQueue, SystemClock>>> {
    let targets = settings.event_targets(model).await?;
    if targets.is_empty() {
        return Ok(None);
    }
    let queue = settings.path_queue().await?;
    Ok(Some(EventNotifier::new(targets, queue, SystemClock)))
}

async fn start_archiver(
    settings: &EnvironmentSettings,
) -> Result<ChangeArchiver<Firehose, S3Bucket, SystemClock>> {
    let (stream, bucket) = (settings.required_firehose_stream()?, settings.required_bucket()?);
    let stream = Firehose::new(&settings.firehose_client().await?, stream);
    let bucket = S3Bucket::new(&settings.s3_client().await?, bucket);
    Ok(ChangeArchiver::new(stream, bucket, SystemClock))
}

fn log_failures(failures: &[FailedRecord], message: &str) {
    log_errors(failures, message, |failed| (failed.sequence_number.as_deref(), &failed.error));
}

/// Logs the first errors of a kind and the number of the remaining ones: a batch has up to 10,000 records, and a line for each would cost more
/// than the batch.
fn log_errors<'f, F>(failed: &'f [F], message: &str, parts: impl Fn(&'f F) -> (Option<&'f str>, &'f Error)) {
    const MAX_LINES: usize = 20;
    for (sequence_number, error) in failed.iter().take(MAX_LINES).map(parts) {
        tracing::warn!(sequence_number, error = %error, "{message}");
    }
    if let Some(more @ 1..) = failed.len().checked_sub(MAX_LINES) {
        tracing::warn!(more, "{message}: more of the same batch");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_request_is_recognised() {
        assert!(is_heartbeat_request(HEARTBEAT_REQUEST));
        for payload in ["", "{}", r#"{"Records":[]}"#, r#"{"afterwrite":"else"}"#, r#"{"afterwrite":5}"#] {
            assert!(!is_heartbeat_request(payload), "{payload}");
        }
    }
}
