//! The compactor as a Lambda function, on a schedule.

use std::time::Instant;

use afterwrite_lambda::{
    EventSource, HandledInvocation, Invocation, LambdaFunction, MetricsLabels, MetricsLine, response_json,
};
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::heartbeat::HeartbeatStage;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::config::{EnvironmentSettings, FunctionConfig};
use afterwrite_services::s3::S3Bucket;
use serde::Deserialize;

use crate::heartbeat::exported_heartbeat;

use super::{CompactionOptions, CompactionTotals, DatasetCompactor};

const FUNCTION: &str = "compactor";
const HINT: &str = "Invoke it on a schedule with {}, or name a dataset or a day: {\"dataset\": \"attempts\", \"dt\": \"2026-02-06\"}";

/// The function `compactor`.
#[derive(Debug)]
pub struct CompactorFunction {
    compactor: DatasetCompactor<S3Bucket, SystemClock>,
    objects: S3Bucket,
    labels: MetricsLabels,
}

/// An invocation's payload: what to compact. An absent field means all.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CompactionRequest {
    dataset: Option<String>,
    dt: Option<String>,
}

impl CompactorFunction {
    /// Creates the function.
    ///
    /// # Errors
    /// A missing or wrong setting, named by its variable.
    pub async fn start(settings: EnvironmentSettings) -> Result<Self> {
        let config = FunctionConfig::resolve(&settings)?;
        let objects = S3Bucket::retrying(settings.s3_client().await?, settings.required_bucket()?);
        let labels = MetricsLabels::new(&settings, FUNCTION, &config.model)?;
        Ok(Self {
            labels,
            compactor: DatasetCompactor::new(
                config.model,
                objects.clone(),
                CompactionOptions::default(),
                SystemClock,
            ),
            objects,
        })
    }
}

impl CompactionRequest {
    /// Reads a payload. The event of a schedule compacts everything.
    fn read(payload: &str) -> Result<Self> {
        match EventSource::detect(payload.as_bytes()) {
            None => {}
            Some(EventSource::EventBridge) => return Ok(Self::default()),
            Some(source) => return Err(source.unexpected(FUNCTION, "compaction requests", HINT)),
        }
        serde_json::from_str(payload).map_err(|error| {
            Error::new(ErrorKind::Event, "the payload is not a compaction request")
                .hint(HINT)
                .caused_by(error)
        })
    }
}

impl LambdaFunction for CompactorFunction {
    fn handle(&self, invocation: Invocation) -> HandledInvocation<'_> {
        Box::pin(async move { response_json(&self.respond(invocation).await?) })
    }
}

impl CompactorFunction {
    async fn respond(&self, invocation: Invocation) -> Result<CompactionTotals> {
        let started = Instant::now();
        let CompactionRequest { dataset, dt } = CompactionRequest::read(invocation.payload())?;
        let is_whole = dataset.is_none() && dt.is_none();
        let exported = if is_whole { exported_heartbeat(&self.objects).await? } else { None };
        let compaction = self.compactor.compact(dataset.as_deref(), dt.as_deref());
        let compacted = Box::pin(compaction).await?;
        let mut line = metrics(&compacted);
        line.freshness(HeartbeatStage::Queryable, exported.map(|written| SystemClock.now().since(written)));
        line.print(&self.labels, started);
        Ok(compacted)
    }
}

fn metrics(compacted: &CompactionTotals) -> MetricsLine {
    let mut line = MetricsLine::default();
    line.count("partitions", compacted.partitions);
    line.count("files_compacted", compacted.files_in);
    line.count("files_written", compacted.files_out);
    line.count("rows_read", compacted.rows_in);
    line.count("rows_written", compacted.rows_out);
    line.count("duplicate_rows", compacted.duplicates);
    line.count("outdated_rows", compacted.outdated);
    line.count("bytes_compacted", compacted.bytes_in);
    line.count("bytes_written", compacted.bytes_out);
    line.count("partitions_derived", compacted.derived);
    line.count("current_files", compacted.current_files);
    line.count("current_rows", compacted.current_rows);
    line.count("current_bytes", compacted.current_bytes);
    line.count("files_removed", compacted.files_removed);
    line.count("overtaken", compacted.overtaken);
    line
}
