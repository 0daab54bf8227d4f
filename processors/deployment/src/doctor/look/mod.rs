//! The look at a deployment: requests that only read, sorted into facts.

mod bucket;
mod delivery;
mod events;
mod outcome;
mod queues;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use afterwrite_model::Result;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::table::Model;
use afterwrite_services::config::{EnvironmentSettings, FunctionConfig, s3_client, sdk_config};
use afterwrite_services::events::EventArn;

use self::bucket::BucketLook;
use self::delivery::DeliveryLook;
use self::events::EventLook;
use self::tables::TableLook;
use super::facts::{DeploymentFacts, DriftFacts, Looked};

/// The variable with the queue of stale paths.
const PATH_QUEUE: &str = "AFTERWRITE_CDN_QUEUE";
/// The beginning of the variables with the targets of events.
const EVENTS: &str = "AFTERWRITE_EVENTS";

/// Looks at a deployment: tables, mappings, functions, queues, and the bucket if one is named. `drift` is the differences of a report,
/// or why there is none without a bucket. The stream of a table that may not be described is unknown.
///
/// # Errors
/// A service that cannot be reached. A part that may not be read, or does not exist, is no error.
pub async fn deployment_facts(
    config: &FunctionConfig,
    state_table: Arc<str>,
    bucket: Option<String>,
    drift: DriftFacts,
) -> Result<DeploymentFacts> {
    let sdk = sdk_config().await?;
    let (tables, delivery) = (TableLook::new(&sdk), DeliveryLook::new(&sdk));
    let mut facts = DeploymentFacts {
        tables: Vec::new(),
        state_table: (state_table.to_string(), Box::pin(tables.table(&state_table)).await?),
        mappings: Vec::new(),
        functions: BTreeMap::new(),
        bucket: Looked::NotNamed("AFTERWRITE_BUCKET or --bucket"),
        queue: Looked::NotNamed("AFTERWRITE_BUCKET or --bucket"),
        path_queues: BTreeMap::new(),
        event_targets: BTreeMap::new(),
        own_event_settings: EnvironmentSettings::from_env().event_settings(),
        dry_calls: Box::pin(tables.dry_calls(&state_table)).await?,
        freshness: Box::pin(tables.heartbeats(&config.model, &config.table_names)).await,
        drift,
        failures: BTreeMap::new(),
        parked: Looked::Missing,
        unchanged_for: None,
    };
    facts.parked = Box::pin(tables.parked(&state_table, &facts.state_table.1)).await;
    facts.dry_calls.extend(Box::pin(tables.source_dry_calls(&config.model, &config.table_names)).await);
    for name in &config.table_names {
        let (table, stream) = Box::pin(tables.streamed_table(name)).await?;
        facts.mappings.push(match table {
            Looked::NotAllowed(permission) => Looked::NotAllowed(permission),
            Looked::Found(_) | Looked::Missing | Looked::NotNamed(_) | Looked::NotRead(_) => {
                Box::pin(delivery.mappings(stream.as_deref())).await?
            }
        });
        facts.tables.push((name.to_string(), table));
    }
    Box::pin(look_at_functions(&delivery, &EventLook::new(&sdk), &mut facts)).await?;
    Box::pin(look_at_failures(&mut facts, bucket.as_deref())).await?;
    facts.unchanged_for = unchanged_for(&facts);
    if let Some(name) = bucket {
        let bucket = BucketLook::new(s3_client().await?, name);
        Box::pin(look_at_bucket(&bucket, &delivery, &config.model, &mut facts)).await?;
    }
    Ok(facts)
}

/// Looks at the functions that read the streams, and at the queues and the targets of events that they name.
async fn look_at_functions(
    delivery: &DeliveryLook,
    events: &EventLook,
    facts: &mut DeploymentFacts,
) -> Result<()> {
    let mappings = facts.mappings.iter().filter_map(Looked::found).flatten();
    let names: BTreeSet<String> = mappings.map(|mapping| mapping.function.clone()).collect();
    for name in names {
        let function = Box::pin(delivery.function(&name)).await?;
        if let Some(url) = function.found().and_then(|function| function.environment.get(PATH_QUEUE)) {
            facts.path_queues.insert(url.clone(), Box::pin(delivery.queue_at(url)).await?);
        }
        facts.functions.insert(name, function);
    }
    Box::pin(look_at_events(events, facts)).await;
    Ok(())
}

/// Looks at the targets of events that functions and this process name. A value that is not an ARN fails the function itself at its start.
async fn look_at_events(events: &EventLook, facts: &mut DeploymentFacts) {
    let functions = facts.functions.values().filter_map(Looked::found);
    let settings = functions.flat_map(|function| &function.environment);
    let named: BTreeSet<(String, String)> = settings
        .filter(|(name, _)| name.starts_with(EVENTS))
        .chain(&facts.own_event_settings)
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    for (setting, text) in named {
        let Ok(arn) = EventArn::parse(&text, &setting) else { continue };
        let target = Box::pin(events.target(&arn)).await;
        if target.found().is_some() {
            facts.dry_calls.extend(Box::pin(events.dry_call(&arn)).await);
        }
        facts.event_targets.insert((setting, text), target);
    }
}

/// Looks at the buckets that mappings of Afterwrite's functions name as on-failure destinations; if no mapping can be looked at, as with
/// `afterwrite dev`, at the bucket of archive and datasets.
async fn look_at_failures(facts: &mut DeploymentFacts, bucket: Option<&str>) -> Result<()> {
    let mappings = facts.mappings.iter().filter_map(Looked::found).flatten();
    let mut buckets: BTreeSet<String> = mappings
        .filter(|mapping| match facts.functions.get(&mapping.function) {
            Some(Looked::Found(function)) => !function.environment.is_empty(),
            Some(Looked::NotAllowed(_)) => true,
            Some(Looked::Missing | Looked::NotNamed(_) | Looked::NotRead(_)) | None => false,
        })
        .filter_map(|mapping| mapping.failure_bucket().map(str::to_owned))
        .collect();
    if facts.mappings.iter().all(|mappings| mappings.found().is_none()) {
        buckets.extend(bucket.map(str::to_owned));
    }
    for name in buckets {
        let bucket = BucketLook::new(s3_client().await?, name.clone());
        facts.failures.insert(name, Box::pin(bucket.failures()).await?);
    }
    Ok(())
}

/// The time since the state table was created and a mapping changed last.
fn unchanged_for(facts: &DeploymentFacts) -> Option<Duration> {
    let mappings = facts.mappings.iter().filter_map(Looked::found).flatten();
    let created = facts.state_table.1.found().and_then(|table| table.created);
    let newest = mappings.filter_map(|mapping| mapping.modified).chain(created).max();
    newest.map(|newest| SystemClock.now().since(newest))
}

async fn look_at_bucket(
    bucket: &BucketLook,
    delivery: &DeliveryLook,
    model: &Model,
    facts: &mut DeploymentFacts,
) -> Result<()> {
    facts.bucket = Box::pin(bucket.facts()).await?;
    if let Looked::NotRead(reason) = &facts.bucket {
        facts.queue = Looked::NotRead(reason.clone());
        if let DriftFacts::Bucket(report) = &mut facts.drift {
            *report = Looked::NotRead(reason.clone());
        }
        return Ok(());
    }
    if facts.bucket == Looked::Missing {
        return Ok(());
    }
    facts.queue = Box::pin(delivery.export_queue(facts.bucket.found())).await?;
    let Some(found) = facts.bucket.found() else { return Ok(()) };
    if found.archive.is_some() {
        facts.dry_calls.extend(Box::pin(bucket.dry_calls()).await?);
    }
    facts.freshness.datasets = Box::pin(bucket.dataset_ages(model)).await;
    if let DriftFacts::Bucket(report) = &mut facts.drift {
        *report = Box::pin(bucket.drift()).await?;
    }
    Ok(())
}
