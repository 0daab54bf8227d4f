//! Each table's stream to each function that reads streams.
//!
//! A table whose stream is enabled again, or that is created again, has a new stream with another label. A mapping delivers the old one to
//! its end, and then the new one: positions in the ledger have the label of the stream that a record comes from, and `backfill` writes the
//! label of the newest.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use afterwrite_console::board::{DevBoard, StreamMeter, mapping_id};
use afterwrite_local::dynamodb::{EmbeddedDynamoDb, EmbeddedStream};
use afterwrite_mapping::aws::TableCheckpoints;
use afterwrite_mapping::{
    CheckpointStore as _, EventHandler, EventSourceMapping, FailureDestination, MappingControl, MappingEnd,
    MappingOptions, MappingPace, MappingSettings, ends_mapping, until_replaced,
};
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::config::{FunctionConfig, ProjectionKind};
use afterwrite_services::s3::S3Bucket;
use futures::future::try_join_all;

use super::changes::{ChangeLines, first_failed, measure_delivery};
use super::functions::{AGGREGATOR, DevFunction, RELAY};
use super::servers::{BUCKET, DevServers, STATE_TABLE};
use crate::print::tell;
use crate::state_stream::table_settings;

/// Retries of a batch before it is discarded.
const MAX_RETRIES: u32 = 10;
/// How often a mapping looks whether its table has another stream.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Settings of mappings that files set, by function.
pub(super) type MappingFiles = BTreeMap<String, MappingSettings>;

/// How the streams are delivered.
pub(super) struct StreamDelivery<'d> {
    pub(super) files: &'d MappingFiles,
    /// The faults to inject, and the meters of the streams.
    pub(super) board: &'d DevBoard,
    /// Where changes that `aggregator` has counted are printed.
    pub(super) changes: &'d ChangeLines<'d>,
}

/// A table's stream to a function.
struct StreamMapping<'d> {
    dynamodb: &'d EmbeddedDynamoDb,
    table: &'d str,
    /// All source tables.
    tables: &'d [Arc<str>],
    function: &'d DevFunction,
    settings: MappingSettings,
    meter: Arc<StreamMeter>,
    board: &'d DevBoard,
    discarded: S3Bucket,
    changes: &'d ChangeLines<'d>,
    /// The discarded records that were told.
    told: AtomicUsize,
}

/// A function whose failed invocations are reported: a mapping retries them silently. The records that `aggregator` has taken are printed.
struct ReportingFunction<'d> {
    name: &'d str,
    function: &'d DevFunction,
    meter: &'d StreamMeter,
    board: &'d DevBoard,
    changes: &'d ChangeLines<'d>,
}

impl ReportingFunction<'_> {
    /// Notes the record that the function did not take, and prints the records before it.
    async fn note(&self, event: &[u8], response: Option<&[u8]>) -> Result<()> {
        if let Some(failed) = first_failed(event, response) {
            Box::pin(self.changes.note_failed(self.meter, failed)).await?;
        }
        match response.filter(|_| self.name == AGGREGATOR) {
            Some(response) => Box::pin(self.changes.print(event, response)).await,
            None => Ok(()),
        }
    }
}

impl EventHandler for ReportingFunction<'_> {
    async fn handle(&self, event: Vec<u8>, remaining: Duration) -> Result<Vec<u8>> {
        let handled = self.function.handle(event.clone(), remaining).await;
        match &handled {
            Ok(_) => measure_delivery(self.meter, &event, SystemClock.now()),
            Err(error) => {
                if let Some((number, _)) = first_failed(&event, None) {
                    self.board.meters.note_reason(self.name, &number, error);
                }
                let retry = if ends_mapping(error.kind()) { "" } else { " and is retried" };
                eprintln!("afterwrite: {}: the invocation failed{retry}: {}", self.name, error.report());
            }
        }
        let response = handled.as_ref().ok().map(Vec::as_slice);
        if let Err(error) = Box::pin(self.note(&event, response)).await {
            eprintln!("afterwrite: changes cannot be shown: {}", error.report());
        }
        handled
    }
}

/// Delivers all streams until `control` ends it.
pub(super) async fn deliver_streams(
    servers: &DevServers,
    config: &FunctionConfig,
    functions: &[(String, DevFunction)],
    delivery: &StreamDelivery<'_>,
    control: &MappingControl,
) -> Result<()> {
    let mut mappings = Vec::new();
    for (name, function) in functions {
        for (index, table) in config.table_names.iter().enumerate() {
            let settings = settings_of(name, delivery.files);
            let Some(settings) = settings_for(&config.model, index, name, settings)? else { continue };
            let settings = MappingSettings { function_name: name.clone(), ..settings };
            let bucket = settings.on_failure_bucket.clone().unwrap_or_else(|| BUCKET.to_owned());
            servers.s3.ensure_bucket(&bucket).await?;
            mappings.push(StreamMapping {
                dynamodb: &servers.dynamodb,
                table,
                tables: &config.table_names,
                function,
                settings,
                meter: delivery.board.meters.stream(name, table),
                board: delivery.board,
                discarded: S3Bucket::retrying(servers.s3.client(), bucket.into()),
                changes: delivery.changes,
                told: AtomicUsize::new(0),
            });
        }
    }
    let deliveries = mappings.iter().map(|mapping| mapping.deliver(control));
    try_join_all(deliveries).await.map(drop)
}

impl StreamMapping<'_> {
    /// Delivers the table's streams, one after the other.
    async fn deliver(&self, control: &MappingControl) -> Result<()> {
        let mut checkpoints = self.checkpoints().await?;
        let mut stream = Some(self.first_stream(&checkpoints).await?);
        let mut ended = Ok(());
        while let Some(current) = stream.take() {
            let delivered = Box::pin(self.deliver_stream(&current, &checkpoints, control)).await;
            let next = match delivered {
                Ok(next) => Ok(next),
                Err(error) => Box::pin(self.next_after(error, (current, &mut checkpoints), control)).await,
            };
            ended = next.map(|next| stream = next);
        }
        self.tell_discarded();
        ended
    }

    /// The checkpoints, with their lease. The state table belongs to this process: an earlier one that was killed does not hold it up.
    async fn checkpoints(&self) -> Result<TableCheckpoints> {
        let name = format!("dev-{}", self.settings.function_name);
        let checkpoints = TableCheckpoints::new(self.dynamodb.client(), STATE_TABLE, &name, self.table);
        checkpoints.seize_lease().await?;
        Ok(checkpoints)
    }

    /// The stream to deliver after an error that the application can mend: it has given the table a stream without images, or has deleted a
    /// table. `None` if `control` has ended the delivery meanwhile.
    ///
    /// # Errors
    /// Any other error.
    async fn next_after(
        &self,
        error: Error,
        (stream, checkpoints): (EmbeddedStream, &mut TableCheckpoints),
        control: &MappingControl,
    ) -> Result<Option<EmbeddedStream>> {
        let missing = self.missing_table().await?;
        let mended = async {
            match (error.kind(), missing) {
                (ErrorKind::Stream, _) => self.next_complete_stream(&stream).await.map(Some),
                (ErrorKind::Configuration, Some(missing)) => {
                    self.until_created(missing).await?;
                    *checkpoints = self.checkpoints().await?;
                    // The changes of the deleted state table are not changes of the new one.
                    let is_of_state = self.table == STATE_TABLE;
                    if is_of_state { self.next_stream(&stream).await.map(Some) } else { Ok(Some(stream)) }
                }
                (_, _) => Err(error),
            }
        };
        tokio::select! {
            biased;
            next = mended => next,
            () = control.stopped() => Ok(None),
        }
    }

    /// Waits until the table has another stream than this one, which lacks images.
    async fn next_complete_stream(&self, stream: &EmbeddedStream) -> Result<EmbeddedStream> {
        let (table, function) = (self.table, &self.settings.function_name);
        tell(&format!(
            "{table}: {function} waits for a stream with the view type NEW_AND_OLD_IMAGES: disable this one with UpdateTable, and enable \
             another. `afterwrite backfill --all` counts the changes until then"
        ));
        self.next_stream(stream).await
    }

    /// Waits until all tables exist.
    async fn until_created(&self, missing: &str) -> Result<()> {
        let (table, function) = (self.table, &self.settings.function_name);
        tell(&format!(
            "{missing}: the table does not exist. {function} gets no changes of {table} until CreateTable creates it again, with its key; \
             then `afterwrite backfill --all` counts all items"
        ));
        while self.missing_table().await?.is_some() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// A table that the functions use and that does not exist.
    async fn missing_table(&self) -> Result<Option<&str>> {
        for table in std::iter::once(STATE_TABLE).chain(self.tables.iter().map(|table| &**table)) {
            if !self.dynamodb.has_table(table).await? {
                return Ok(Some(table));
            }
        }
        Ok(None)
    }

    /// Names the records that were discarded since the last call.
    fn tell_discarded(&self) {
        let skipped = self.meter.progress.skipped();
        let told = self.told.swap(skipped.len(), Ordering::Relaxed);
        for skipped in skipped.iter().skip(told) {
            tell(&format!(
                "{}: discarded record {}: {}. Its batch is a failed batch: the page Health has the command that processes it again",
                self.settings.function_name, skipped.sequence_number, skipped.reason
            ));
        }
    }

    /// The stream of the checkpoints: an earlier process may not have delivered it to its end. Without checkpoints, the first of this
    /// process: an application may have exchanged it before this function begins to read.
    async fn first_stream(&self, checkpoints: &TableCheckpoints) -> Result<EmbeddedStream> {
        let stored = checkpoints.load().await?.stream_arn;
        match stored.and_then(|arn| self.dynamodb.earlier_stream(self.table, &arn)) {
            Some(stream) => Ok(stream),
            None => self.dynamodb.oldest_stream(self.table).await,
        }
    }

    /// Delivers a stream; returns the table's next stream once this one has ended, `None` if `control` has ended the delivery.
    async fn deliver_stream(
        &self,
        stream: &EmbeddedStream,
        checkpoints: &TableCheckpoints,
        control: &MappingControl,
    ) -> Result<Option<EmbeddedStream>> {
        let pace = MappingPace { poll_interval: Duration::from_millis(100), ..MappingPace::local() };
        let options = MappingOptions {
            id: mapping_id(&self.settings.function_name, self.table),
            pace,
            faults: self.board.faults.clone(),
            on_failure: Some(&self.discarded as &dyn FailureDestination),
            ..MappingOptions::new(&self.meter.progress, checkpoints)
        };
        let function = ReportingFunction {
            name: &self.settings.function_name,
            function: self.function,
            meter: &self.meter,
            board: self.board,
            changes: self.changes,
        };
        let mapping = EventSourceMapping::new(stream, &function, &SystemClock, &self.settings, options);
        let run = async |current: &MappingControl| mapping.run(current).await;
        let (ended, next) = until_replaced(run, self.next_stream(stream), control).await?;
        Ok(next.filter(|_| ended == MappingEnd::Drained))
    }

    /// Waits until the table has another stream than this one, and meanwhile names discarded records.
    async fn next_stream(&self, stream: &EmbeddedStream) -> Result<EmbeddedStream> {
        let (table, is_counting) = (self.table, self.settings.function_name == AGGREGATOR);
        let mut is_missing = false;
        loop {
            if let Some(next) = stream.following().await? {
                if is_counting {
                    tell(&format!(
                        "{table}: the table has a new stream. Changes that were made while it had none are not counted; \
                         `afterwrite backfill --all` counts them"
                    ));
                }
                return Ok(next);
            }
            if is_counting && !is_missing && self.dynamodb.newest_stream(table).await?.is_none() {
                is_missing = true;
                tell(&format!(
                    "{table}: the table has no stream. Its changes are not counted until UpdateTable enables one"
                ));
            }
            self.tell_discarded();
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// The settings of a function's mapping of one table's stream; `None` if the function does not read it.
fn settings_for(
    model: &Model,
    table: usize,
    function: &str,
    settings: MappingSettings,
) -> Result<Option<MappingSettings>> {
    let hosted: &[ProjectionKind] = match function {
        AGGREGATOR => &[ProjectionKind::Aggregate],
        RELAY => &ProjectionKind::OF_RELAY,
        // A program that joins Afterwrite's functions reads the application's tables.
        _ => &[],
    };
    table_settings(model, table, &hosted.iter().copied().collect(), settings)
}

/// The settings of a function's mappings: its file (`--mapping`), or else the settings of a deployment for Afterwrite's functions and their
/// replacements. Any other function has AWS's defaults with a limit of retries.
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
