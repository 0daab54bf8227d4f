//! The handlers of a replay, as the functions are deployed.

use std::sync::Arc;

use afterwrite_functions::{SourceTables, StreamAggregator, StreamRelay, event_notifier};
use afterwrite_ledger::tables::{TableScan as _, Tables};
use afterwrite_ledger::{Ledger, TombstoneHistory};
use afterwrite_model::clock::SystemClock;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_operations::replay::{CountedRecords, UncountedRollups};
use afterwrite_relay::archive::ChangeArchiver;
use afterwrite_relay::invalidate::CacheInvalidator;
use afterwrite_services::cloudfront::CloudFront;
use afterwrite_services::config::{EnvironmentSettings, firehose_client, s3_client};
use afterwrite_services::firehose::Firehose;
use afterwrite_services::redis::RedisCache;
use afterwrite_services::s3::S3Bucket;
use afterwrite_services::sqs::SqsQueue;

use crate::deployment::Deployment;
use crate::replay_target::ReplayProjection;

/// The relay with the environment's services.
pub(crate) type DeployedRelay =
    StreamRelay<RedisCache, CloudFront, SqsQueue, Firehose, S3Bucket, SystemClock>;

/// The ledger in `state_table`, with the environment's policy for poison records.
pub(crate) fn ledger<T: Tables>(
    deployment: &Deployment,
    state_table: Arc<str>,
    tables: T,
    history: TombstoneHistory,
) -> Result<Ledger<T, SystemClock>> {
    let (model, names) = (Arc::clone(&deployment.config.model), deployment.config.table_names.clone());
    let policy = EnvironmentSettings::from_env().poison_policy()?;
    let ledger = Ledger::new(model, names, state_table, tables, SystemClock);
    Ok(ledger.with_history(history).on_poison(policy))
}

/// The handler that counts, with the environment's policy for poison records.
pub(crate) type DeployedAggregator<T> = CountedRecords<StreamAggregator<T, SystemClock>>;

/// A handler that counts into a state table all but some records of rollups.
pub(crate) fn aggregator<T: Tables>(
    deployment: &Deployment,
    (state_table, uncounted): (Arc<str>, UncountedRollups),
    tables: T,
    history: TombstoneHistory,
) -> Result<DeployedAggregator<T>> {
    let aggregator = StreamAggregator::new(ledger(deployment, state_table, tables, history)?);
    Ok(CountedRecords::new(aggregator, uncounted))
}

/// All records of rollups: of the state table and of its earlier names.
pub(crate) fn rollups_of_state_table(deployment: &Deployment) -> UncountedRollups {
    UncountedRollups::all_of(Arc::clone(&deployment.config.model), &deployment.state_table)
}

/// The state table, if it is no source of the model: an earlier model may have archived records of rollups.
pub(super) fn sourceless_table(deployment: &Deployment) -> Option<&str> {
    deployment.config.model.state_source().is_none().then_some(&*deployment.state_table)
}

/// The records of rollups that are not counted into the deployment's state table, because they are of earlier tables.
pub(crate) async fn uncounted_rollups(deployment: &Deployment) -> Result<UncountedRollups> {
    let Deployment { config, state_table, tables, .. } = deployment;
    let all = rollups_of_state_table(deployment);
    if config.model.state_source().is_none() {
        return Ok(all);
    }
    Ok(all.except(state_table, tables.describe(state_table).await?.created_at))
}

/// A handler that invalidates, archives or publishes events; `None` if none of these is requested.
///
/// # Errors
/// A missing or wrong setting, named by its variable.
pub(crate) async fn relay(
    deployment: &Deployment,
    only: &[ReplayProjection],
) -> Result<Option<DeployedRelay>> {
    let settings = EnvironmentSettings::from_env();
    let model = &deployment.config.model;
    let (mut invalidator, mut archiver, mut notifier) = (None, None, None);
    for projection in only {
        match projection {
            ReplayProjection::Invalidate => {
                let (cache, paths) =
                    (Box::pin(settings.cache()).await?, Box::pin(settings.path_target()).await?);
                if cache.is_none() && paths.is_none() {
                    return Err(Error::new(ErrorKind::Configuration, "there is nothing to invalidate: no cache and no distribution is set")
                        .hint("Set AFTERWRITE_CACHE_URL, AFTERWRITE_CLOUDFRONT_DISTRIBUTION, or both, as the functions have them; or leave `invalidate` out of --only"));
                }
                invalidator = Some(CacheInvalidator::new(cache, paths, SystemClock));
            }
            ReplayProjection::Archive => {
                let (stream, bucket) = (settings.required_firehose_stream()?, settings.required_bucket()?);
                let stream = Firehose::new(&Box::pin(firehose_client()).await?, stream);
                let bucket = S3Bucket::new(&Box::pin(s3_client()).await?, bucket);
                archiver = Some(ChangeArchiver::new(stream, bucket, SystemClock));
            }
            ReplayProjection::Notify => {
                notifier = Box::pin(event_notifier(&settings, model)).await?;
                // `doctor` names what a function hosts; without events it has nothing to publish.
                if notifier.is_none() && only.len() == 1 {
                    return Err(Error::new(ErrorKind::Configuration, "the model has no events")
                        .hint("Leave `notify` out of --only"));
                }
            }
            ReplayProjection::Aggregate | ReplayProjection::Export => {}
        }
    }
    let tables = SourceTables::new(Arc::clone(model), deployment.config.table_names.clone());
    Ok(StreamRelay::hosting(tables, invalidator, archiver, notifier, SystemClock))
}
