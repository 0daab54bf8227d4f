//! Each table's stream to each function that reads streams.

use std::collections::BTreeMap;
use std::time::Duration;

use afterwrite::Result;
use afterwrite::clock::SystemClock;
use afterwrite::config::FunctionConfig;
use afterwrite::sink::s3::S3Bucket;
use afterwrite_local::dynamodb::EmbeddedStream;
use afterwrite_mapping::aws::TableCheckpoints;
use afterwrite_mapping::{
    EventHandler, EventSourceMapping, FailureDestination, FaultPlan, MappingControl, MappingOptions,
    MappingPace, MappingProgress, MappingSettings,
};
use futures::future::try_join_all;

use super::functions::{AGGREGATOR, DevFunction, RELAY};
use super::servers::{BUCKET, DevServers, STATE_TABLE};

/// Retries of a batch before it is discarded.
const MAX_RETRIES: u32 = 10;

/// Settings of mappings that files set, by function.
pub(super) type MappingFiles = BTreeMap<String, MappingSettings>;

/// A table's stream to a function.
struct StreamMapping<'d> {
    stream: EmbeddedStream,
    function: &'d DevFunction,
    settings: MappingSettings,
    checkpoints: TableCheckpoints,
    progress: MappingProgress,
    discarded: S3Bucket,
}

/// A function whose failed invocations are reported: a mapping retries them silently.
struct ReportingFunction<'d> {
    name: &'d str,
    function: &'d DevFunction,
}

impl EventHandler for ReportingFunction<'_> {
    async fn handle(&self, event: Vec<u8>, remaining: Duration) -> Result<Vec<u8>> {
        let handled = self.function.handle(event, remaining).await;
        if let Err(error) = &handled {
            eprintln!("afterwrite: {}: the invocation failed and is retried: {}", self.name, error.report());
        }
        handled
    }
}

/// Delivers all streams until `control` ends it.
pub(super) async fn deliver_streams(
    servers: &DevServers,
    config: &FunctionConfig,
    functions: &[(String, DevFunction)],
    files: &MappingFiles,
    faults: FaultPlan,
    control: &MappingControl,
) -> Result<()> {
    let mut mappings = Vec::new();
    for (name, function) in functions {
        for table in &config.table_names {
            let settings = MappingSettings { function_name: name.clone(), ..settings_of(name, files) };
            let bucket = settings.on_failure_bucket.clone().unwrap_or_else(|| BUCKET.to_owned());
            servers.s3.ensure_bucket(&bucket).await?;
            let checkpoints =
                TableCheckpoints::new(servers.dynamodb.client(), STATE_TABLE, &format!("dev-{name}"), table);
            // The table belongs to this process: an earlier one that was killed does not hold it up.
            checkpoints.seize_lease().await?;
            mappings.push(StreamMapping {
                stream: servers.dynamodb.stream(table).await?,
                function,
                settings,
                checkpoints,
                progress: MappingProgress::default(),
                discarded: S3Bucket::retrying(servers.s3.client(), bucket.into()),
            });
        }
    }
    let deliveries = mappings.iter().map(|mapping| mapping.deliver(faults, control));
    try_join_all(deliveries).await.map(drop)
}

impl StreamMapping<'_> {
    async fn deliver(&self, faults: FaultPlan, control: &MappingControl) -> Result<()> {
        let pace = MappingPace { poll_interval: Duration::from_millis(100), ..MappingPace::local() };
        let options = MappingOptions {
            pace,
            faults,
            on_failure: Some(&self.discarded as &dyn FailureDestination),
            ..MappingOptions::new(&self.progress, &self.checkpoints)
        };
        let function = ReportingFunction { name: &self.settings.function_name, function: self.function };
        let mapping = EventSourceMapping::new(&self.stream, &function, &SystemClock, &self.settings, options);
        let ended = mapping.run(control).await;
        for skipped in self.progress.skipped() {
            eprintln!(
                "afterwrite: {}: discarded record {}: {}",
                self.settings.function_name, skipped.sequence_number, skipped.reason
            );
        }
        ended.map(drop)
    }
}

/// The settings of a function's mappings: those of its file, or for Afterwrite's functions, and what replaces them, those of a
/// deployment. Any other function has AWS's defaults, but for a limit of retries.
fn settings_of(name: &str, files: &MappingFiles) -> MappingSettings {
    if let Some(settings) = files.get(name) {
        return settings.clone();
    }
    let limited = MappingSettings { max_retries: Some(MAX_RETRIES), ..MappingSettings::default() };
    if name == AGGREGATOR || name == RELAY {
        return MappingSettings { batch_size: 1000, bisects: true, reports_item_failures: true, ..limited };
    }
    limited
}
