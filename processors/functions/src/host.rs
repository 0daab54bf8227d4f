//! What every function is: it hosts a set of projections, hands each batch to all of them side by side, and answers with the
//! lowest failure of any. What fails one keeps no other from its work.

use std::time::{Duration, Instant};

use afterwrite::commit::{Clock as _, Ledger, SystemClock};
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
use futures::future::{OptionFuture, join};
use lambda_runtime::tracing::subscriber::fmt::writer::MakeWriterExt as _;
use lambda_runtime::{Error, LambdaEvent, service_fn, tracing};
use serde_json::value::RawValue;

use crate::{Aggregator, FailedRecord, Relay, Response, SourceTables, metrics};

/// What is kept back of the invocation's time, to answer in.
const TO_ANSWER: Duration = Duration::from_millis(500);

type LambdaRelay = Relay<RedisCache, CloudFront, Firehose, S3Bucket, SystemClock>;

/// A function's projections, ready for batches.
struct Host {
    function: &'static str,
    aggregator: Option<Aggregator<DynamoDb, SystemClock>>,
    relay: Option<LambdaRelay>,
}

/// Runs a function until Lambda ends it. It hosts `default`, or what `AFTERWRITE_PROJECTIONS` names.
///
/// # Errors
/// What is unset or wrong in the settings, named by its variable.
pub async fn run(function: &'static str, default: &[Projection]) -> Result<(), Error> {
    log();
    let settings = EnvironmentSettings::from_env();
    let config = FunctionConfig::resolve(&settings, default)?;
    let host = Host {
        function,
        aggregator: Box::pin(aggregator(&settings, &config)).await?,
        relay: Box::pin(relay(&settings, &config)).await?,
    };
    lambda_runtime::run(service_fn(|event| host.handle(event))).await
}

/// Logs as Lambda's settings say, but never at TRACE: there the runtime writes out every event, and with it what items keep secret. All
/// functions begin with it.
pub fn log() {
    tracing::init_default_subscriber_with_writer(std::io::stdout.with_max_level(tracing::Level::DEBUG));
}

async fn aggregator(
    settings: &EnvironmentSettings,
    config: &FunctionConfig,
) -> afterwrite::Result<Option<Aggregator<DynamoDb, SystemClock>>> {
    if !config.projections.contains(&Projection::Aggregate) {
        return Ok(None);
    }
    let state_table = state_table(settings)?;
    let tables = DynamoDb::new(dynamodb_client().await?);
    let (model, names) = (config.model.clone(), config.table_names.clone());
    Ok(Some(Aggregator::new(Ledger::new(model, names, state_table, tables, SystemClock))))
}

async fn relay(
    settings: &EnvironmentSettings,
    config: &FunctionConfig,
) -> afterwrite::Result<Option<LambdaRelay>> {
    let hosts = |projection| config.projections.contains(&projection);
    let model = &config.model;
    let invalidator = if hosts(Projection::Invalidate) {
        let (cache, distribution) = (cache(settings)?, distribution(settings).await?);
        Some(CacheInvalidator::new(model.clone(), cache, distribution, SystemClock))
    } else {
        None
    };
    let archiver = if hosts(Projection::Archive) {
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

impl Host {
    async fn handle(&self, event: LambdaEvent<Box<RawValue>>) -> Result<Response, Error> {
        let deadline = Timestamp::from_epoch_ms(event.context.deadline.try_into()?).minus(TO_ANSWER);
        let event = event.payload.get().as_bytes();
        let aggregated =
            self.aggregator.as_ref().map(|aggregator| self.aggregate(aggregator, event, deadline));
        let relayed = self.relay.as_ref().map(|relay| self.pass_on(relay, event, deadline));
        let (aggregated, relayed) = join(OptionFuture::from(aggregated), OptionFuture::from(relayed)).await;
        let answers: Vec<Response> =
            aggregated.into_iter().chain(relayed).collect::<afterwrite::Result<_>>()?;
        Ok(Response::of_all(answers))
    }

    async fn aggregate(
        &self,
        aggregator: &Aggregator<DynamoDb, SystemClock>,
        event: &[u8],
        deadline: Timestamp,
    ) -> afterwrite::Result<Response> {
        let begun = Instant::now();
        let handled = Box::pin(aggregator.handle(event, deadline)).await?;
        tell(&handled.failures, "a record was not counted");
        let line = metrics::aggregated(&handled);
        println!(
            "{}",
            line.of(self.function, &aggregator.ledger().model().name, begun.elapsed(), SystemClock.now())
        );
        Ok(handled.response)
    }

    async fn pass_on(
        &self,
        relay: &LambdaRelay,
        event: &[u8],
        deadline: Timestamp,
    ) -> afterwrite::Result<Response> {
        let begun = Instant::now();
        let relayed = Box::pin(relay.handle(event, deadline)).await?;
        tell(&relayed.failures, "a record was not passed on");
        let line = metrics::relayed(&relayed);
        println!("{}", line.of(self.function, &relay.model().name, begun.elapsed(), SystemClock.now()));
        Ok(relayed.response)
    }
}

fn tell(failures: &[FailedRecord], what: &str) {
    for failed in failures {
        tracing::warn!(sequence_number = failed.sequence_number, error = %failed.error, "{what}");
    }
}
