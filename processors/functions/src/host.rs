//! The functions `aggregator` and `relay`: a function hosts a set of projections, passes each batch to all of them concurrently, and
//! returns the lowest failure of any. A failure of one does not stop another.

use std::time::Instant;

use afterwrite::Result;
use afterwrite::commit::{Ledger, SystemClock};
use afterwrite::config::{
    ArchiveConfig, EnvironmentSettings, FunctionConfig, Projection, cache, distribution, dynamodb_client,
    firehose_client, s3_client, state_table,
};
use afterwrite::record::Timestamp;
use afterwrite::relay::archive::Archiver;
use afterwrite::relay::invalidate::CacheInvalidator;
use afterwrite::sink::cloudfront::CloudFront;
use afterwrite::sink::dynamodb::DynamoDb;
use afterwrite::sink::firehose::Firehose;
use afterwrite::sink::redis::RedisCache;
use afterwrite::sink::s3::S3Bucket;
use afterwrite_lambda::{BatchResponse, Invocation, LambdaFunction};
use futures::future::{OptionFuture, join};

use crate::{Aggregator, FailedRecord, Relay, SourceTables, metrics};

type DeployedAggregator = Aggregator<DynamoDb, SystemClock>;
type DeployedRelay = Relay<RedisCache, CloudFront, Firehose, S3Bucket, SystemClock>;

/// A function's projections, ready for batches.
#[derive(Debug)]
pub struct ProjectionHost {
    function: &'static str,
    aggregator: Option<DeployedAggregator>,
    relay: Option<DeployedRelay>,
}

impl ProjectionHost {
    /// Creates a function that hosts `default`, or the projections that `AFTERWRITE_PROJECTIONS` names.
    ///
    /// # Errors
    /// A missing or wrong setting, named by its variable.
    pub async fn start(
        function: &'static str,
        default: &[Projection],
        settings: EnvironmentSettings,
    ) -> Result<Self> {
        let config = FunctionConfig::resolve(&settings, default)?;
        Ok(Self {
            function,
            aggregator: Box::pin(aggregator(&settings, &config)).await?,
            relay: Box::pin(relay(&settings, &config)).await?,
        })
    }

    async fn aggregate(
        &self,
        aggregator: &DeployedAggregator,
        event: &[u8],
        deadline: Timestamp,
    ) -> Result<BatchResponse> {
        let started = Instant::now();
        let handled = Box::pin(aggregator.handle(event, deadline)).await?;
        log_failures(&handled.failures, "a record was not counted");
        metrics::aggregated(&handled).print(self.function, &aggregator.ledger().model().name, started);
        Ok(handled.response)
    }

    async fn pass_on(
        &self,
        relay: &DeployedRelay,
        event: &[u8],
        deadline: Timestamp,
    ) -> Result<BatchResponse> {
        let started = Instant::now();
        let relayed = Box::pin(relay.handle(event, deadline)).await?;
        log_failures(&relayed.failures, "a record was not relayed");
        metrics::relayed(&relayed).print(self.function, &relay.model().name, started);
        Ok(relayed.response)
    }
}

impl LambdaFunction for ProjectionHost {
    type Response = BatchResponse;

    async fn handle(&self, invocation: Invocation) -> Result<BatchResponse> {
        let (event, deadline) = (invocation.payload().as_bytes(), invocation.deadline());
        let aggregated =
            self.aggregator.as_ref().map(|aggregator| self.aggregate(aggregator, event, deadline));
        let relayed = self.relay.as_ref().map(|relay| self.pass_on(relay, event, deadline));
        let (aggregated, relayed) = join(OptionFuture::from(aggregated), OptionFuture::from(relayed)).await;
        let responses: Vec<BatchResponse> = aggregated.into_iter().chain(relayed).collect::<Result<_>>()?;
        Ok(BatchResponse::merged(responses))
    }
}

async fn aggregator(
    settings: &EnvironmentSettings,
    config: &FunctionConfig,
) -> Result<Option<DeployedAggregator>> {
    if !config.projections.contains(&Projection::Aggregate) {
        return Ok(None);
    }
    let state_table = state_table(settings)?;
    let tables = DynamoDb::new(dynamodb_client().await?);
    let (model, names) = (config.model.clone(), config.table_names.clone());
    Ok(Some(Aggregator::new(Ledger::new(model, names, state_table, tables, SystemClock))))
}

async fn relay(settings: &EnvironmentSettings, config: &FunctionConfig) -> Result<Option<DeployedRelay>> {
    let model = &config.model;
    let invalidator = if config.projections.contains(&Projection::Invalidate) {
        let (cache, distribution) = (cache(settings)?, distribution(settings).await?);
        Some(CacheInvalidator::new(model.clone(), cache, distribution, SystemClock))
    } else {
        None
    };
    let archiver = if config.projections.contains(&Projection::Archive) {
        let ArchiveConfig { firehose_stream, bucket } = ArchiveConfig::resolve(settings)?;
        let stream = Firehose::new(&firehose_client().await?, firehose_stream);
        let bucket = S3Bucket::new(&s3_client().await?, bucket);
        Some(Archiver::new(stream, bucket, SystemClock))
    } else {
        None
    };
    if invalidator.is_none() && archiver.is_none() {
        return Ok(None);
    }
    let tables = SourceTables::new(model.clone(), config.table_names.clone());
    Ok(Some(Relay::new(tables, invalidator, archiver, SystemClock)))
}

fn log_failures(failures: &[FailedRecord], message: &str) {
    for failed in failures {
        tracing::warn!(sequence_number = failed.sequence_number, error = %failed.error, "{message}");
    }
}
