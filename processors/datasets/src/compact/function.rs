//! The compactor as a Lambda function, on a schedule.

use std::time::Instant;

use afterwrite::commit::{Clock as _, SystemClock};
use afterwrite::config::{EnvironmentSettings, FunctionConfig, bucket, s3_client};
use afterwrite::sink::Bucket;
use afterwrite::sink::s3::S3Bucket;
use afterwrite_functions::host::log;
use afterwrite_functions::metrics::Line;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde::Deserialize;

use super::{Compacted, Compactor, Options};

const FUNCTION: &str = "compactor";

/// What is to be compacted; nothing named is everything.
#[derive(Debug, Default, Deserialize)]
struct Request {
    dataset: Option<String>,
    dt: Option<String>,
}

/// Runs the compactor until Lambda ends it.
///
/// # Errors
/// What is unset or wrong in the settings, named by its variable.
pub async fn run() -> Result<(), Error> {
    log();
    let settings = EnvironmentSettings::from_env();
    let config = FunctionConfig::resolve(&settings, &[])?;
    let name = bucket(&settings)?;
    let objects = S3Bucket::retrying(s3_client().await?, name);
    let compactor = Compactor::new(config.model, objects, Options::default());
    lambda_runtime::run(service_fn(|event| answer(&compactor, event))).await
}

async fn answer<B: Bucket>(
    compactor: &Compactor<B>,
    event: LambdaEvent<Request>,
) -> Result<Compacted, Error> {
    let begun = Instant::now();
    let Request { dataset, dt } = event.payload;
    let compacted = compactor.compact(dataset.as_deref(), dt.as_deref(), SystemClock.now());
    let compacted = Box::pin(compacted).await?;
    let line = metrics(&compacted).of(FUNCTION, &compactor.model().name, begun.elapsed(), SystemClock.now());
    println!("{line}");
    Ok(compacted)
}

fn metrics(compacted: &Compacted) -> Line {
    let mut line = Line::default();
    line.count("partitions", compacted.partitions);
    line.count("files_compacted", compacted.files_in);
    line.count("files_written", compacted.files_out);
    line.count("rows_read", compacted.rows_in);
    line.count("rows_written", compacted.rows_out);
    line.count("duplicate_rows", compacted.duplicates);
    line.count("outdated_rows", compacted.outdated);
    line.count("bytes_compacted", compacted.bytes_in);
    line.count("bytes_written", compacted.bytes_out);
    line.count("files_removed", compacted.files_removed);
    line.count("files_left_alone", compacted.files_left_alone);
    line.count("overtaken", compacted.overtaken);
    line
}
