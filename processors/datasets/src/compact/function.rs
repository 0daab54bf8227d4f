//! The compactor as a Lambda function that runs on a schedule.

use std::time::Instant;

use afterwrite::commit::{Clock as _, SystemClock};
use afterwrite::config::{EnvironmentSettings, FunctionConfig, bucket, s3_client};
use afterwrite::sink::s3::{Bucket, S3Bucket};
use afterwrite_functions::host::log;
use afterwrite_functions::metrics::Line;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde::Deserialize;

use super::{CompactionOptions, CompactionTotals, DatasetCompactor};

const FUNCTION: &str = "compactor";

/// The event: what to compact. Without a name everything is compacted.
#[derive(Debug, Default, Deserialize)]
struct CompactionRequest {
    dataset: Option<String>,
    dt: Option<String>,
}

/// Runs the compactor until Lambda ends it.
///
/// # Errors
/// A missing or invalid setting; the error names its variable.
pub async fn run() -> Result<(), Error> {
    log();
    let settings = EnvironmentSettings::from_env();
    let config = FunctionConfig::resolve(&settings, &[])?;
    let name = bucket(&settings)?;
    let objects = S3Bucket::retrying(s3_client().await?, name);
    let compactor = DatasetCompactor::new(config.model, objects, CompactionOptions::default(), SystemClock);
    lambda_runtime::run(service_fn(|event| handle(&compactor, event))).await
}

async fn handle<B: Bucket>(
    compactor: &DatasetCompactor<B, SystemClock>,
    event: LambdaEvent<CompactionRequest>,
) -> Result<CompactionTotals, Error> {
    let begun = Instant::now();
    let CompactionRequest { dataset, dt } = event.payload;
    let totals = Box::pin(compactor.compact(dataset.as_deref(), dt.as_deref())).await?;
    let line = metrics(&totals).of(FUNCTION, &compactor.model().name, begun.elapsed(), SystemClock.now());
    println!("{line}");
    Ok(totals)
}

fn metrics(totals: &CompactionTotals) -> Line {
    let mut line = Line::default();
    line.count("partitions", totals.partitions);
    line.count("files_compacted", totals.files_in);
    line.count("files_written", totals.files_out);
    line.count("rows_read", totals.rows_in);
    line.count("rows_written", totals.rows_out);
    line.count("duplicate_rows", totals.duplicates);
    line.count("outdated_rows", totals.outdated);
    line.count("bytes_compacted", totals.bytes_in);
    line.count("bytes_written", totals.bytes_out);
    line.count("files_removed", totals.files_removed);
    line.count("files_left_alone", totals.files_left_alone);
    line.count("overtaken", totals.overtaken);
    line
}
