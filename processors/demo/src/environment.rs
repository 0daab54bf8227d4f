//! The environment of a workload: its tables in an embedded DynamoDB, the writer, and the two readers that each stream allows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use afterwrite_local::dynamodb::{EmbeddedDynamoDb, EmbeddedStream, TableDefinition};
use afterwrite_mapping::{
    EventHandler, EventSourceMapping, FaultPlan, MappingControl, MappingOptions, MappingPace,
    MappingProgress, MappingSettings, MemoryCheckpoints, StreamSample, StreamSource,
};
use afterwrite_model::Result;
use afterwrite_model::clock::SystemClock;
use afterwrite_model::table::Model;
use afterwrite_services::config::{EnvironmentSettings, FunctionConfig};
use futures::future::{ready, try_join, try_join_all};
use serde_json::Value;

use crate::archiving::ArchivingFunction;
use crate::counting::{CountingFunction, STATE_TABLE};
use crate::item::{SdkItem, TableItem};
use crate::script::Script;
use crate::workload::Workload;
use crate::writer::{ScriptWriter, scan};

/// The share of batches that are redelivered.
const REDELIVERED: f64 = 0.1;
/// Of a thousand old records, how many are redelivered in the end.
const SAMPLED_PER_MILLE: u32 = 200;

/// Everything that a workload runs on.
#[derive(Debug)]
pub(crate) struct DemoEnvironment {
    pub(crate) model: Arc<Model>,
    pub(crate) table_names: Vec<Arc<str>>,
    pub(crate) server: EmbeddedDynamoDb,
    pub(crate) writer: ScriptWriter,
    pub(crate) counting: CountingFunction,
    pub(crate) archiving: ArchivingFunction,
    /// The streams of the application's tables.
    sources: StreamGroup,
    /// The stream of the state table, if rollups are sources.
    levels: StreamGroup,
}

/// Streams, and how far each is counted.
#[derive(Debug, Default)]
struct StreamGroup {
    streams: Vec<EmbeddedStream>,
    counted: Vec<MemoryCheckpoints>,
}

impl StreamGroup {
    fn push(&mut self, stream: EmbeddedStream) {
        self.streams.push(stream);
        self.counted.push(MemoryCheckpoints::default());
    }
}

/// The counters of a run.
#[derive(Debug, Default)]
pub(crate) struct DemoProgress {
    /// Counting the records of the application's tables.
    pub(crate) counting: MappingProgress,
    /// Counting the records of the state table. Most are the ledger's own writes, because no filter keeps them out.
    pub(crate) levels: MappingProgress,
    /// Archiving, and invalidating caches.
    pub(crate) archiving: MappingProgress,
}

impl DemoEnvironment {
    /// Starts the servers and creates the tables, empty.
    pub(crate) async fn start(workload: &Workload) -> Result<Self> {
        let settings = EnvironmentSettings {
            model: Some(workload.model.to_owned()),
            state_table: Some(STATE_TABLE.to_owned()),
            ..EnvironmentSettings::default()
        };
        let FunctionConfig { model, table_names, .. } = FunctionConfig::resolve(&settings)?;
        let server = EmbeddedDynamoDb::start().await?;
        let client = server.client();
        let has_levels = model.state_source().is_some();
        let state = TableDefinition { stream: has_levels, ..TableDefinition::state(STATE_TABLE) };
        server.create_table(&state.ranked(&model)).await?;
        let [mut sources, mut levels] = [(); 2].map(|()| StreamGroup::default());
        if has_levels {
            levels.push(server.stream(STATE_TABLE).await?);
        }
        let tables = workload.tables();
        for table in &tables {
            server.create_table(table).await?;
            sources.push(server.stream(&table.name).await?);
        }
        let counting = CountingFunction::new(&model, &table_names, client.clone());
        let archiving = Box::pin(ArchivingFunction::start(&model, &table_names)).await?;
        let writer = ScriptWriter::new(client, tables);
        Ok(Self { model, table_names, server, writer, counting, archiving, sources, levels })
    }

    /// Writes a script while it is counted and archived, to the end of the streams; returns the items that time to live deleted.
    pub(crate) async fn play(
        &self,
        script: &Script,
        seed: u64,
        progress: &DemoProgress,
    ) -> Result<Vec<TableItem>> {
        let faults = FaultPlan { duplicate: REDELIVERED, seed, ..FaultPlan::default() };
        let [written, counted] = [(); 2].map(|()| MappingControl::default());
        let write = then_drain(self.writer.play(script, &self.server), &written);
        let count = then_drain(self.count(faults, progress, &written), &counted);
        let (tables, archiving) = (&self.sources.streams, &progress.archiving);
        let archive = deliver_all(tables, &self.archiving, faults, archiving, &counted);
        let invalidate = deliver_all(&self.levels.streams, &self.archiving, faults, archiving, &counted);
        let (expired, _) = try_join(write, try_join(count, try_join(archive, invalidate))).await?;
        Ok(expired)
    }

    /// Counts all streams, until the script is written and everything that follows from it is counted.
    async fn count(
        &self,
        faults: FaultPlan,
        progress: &DemoProgress,
        written: &MappingControl,
    ) -> Result<()> {
        let Self { counting: function, sources, levels, .. } = self;
        let counted = MappingControl::default();
        let of_tables = then_drain(deliver(sources, function, faults, &progress.counting, written), &counted);
        let of_levels = deliver(levels, function, faults, &progress.levels, &counted);
        try_join(of_tables, of_levels).await?;
        self.count_the_rest(faults, progress).await
    }

    /// Counting writes to the state table and to mirrored attributes: counts these changes too, until no stream has a new one.
    async fn count_the_rest(&self, faults: FaultPlan, progress: &DemoProgress) -> Result<()> {
        let Self { counting: function, sources, levels, .. } = self;
        let read = || progress.counting.counts().read + progress.levels.counts().read;
        let mut before = None;
        while before != Some(read()) {
            before = Some(read());
            let control = MappingControl::draining();
            deliver(levels, function, faults, &progress.levels, &control).await?;
            deliver(sources, function, faults, &progress.counting, &control).await?;
        }
        Ok(())
    }

    /// Redelivers a random subset of all records, each alone and long after newer records.
    pub(crate) async fn redeliver_some(&self, seed: u64, progress: &MappingProgress) -> Result<()> {
        let all = self.sources.streams.iter().chain(&self.levels.streams);
        let samples: Vec<_> = all.map(|stream| StreamSample::new(stream, SAMPLED_PER_MILLE, seed)).collect();
        let control = MappingControl::draining();
        deliver_all(&samples, &self.counting, FaultPlan::default(), progress, &control).await
    }

    /// The number of changes that are archived: all changes of the application's tables, and the changes of rollups that cache and event rules read.
    pub(crate) async fn changes(&self, workload: &Workload) -> Result<u64> {
        let progress = MappingProgress::default();
        let accept = |_: Vec<u8>, _: Duration| async { Ok(br#"{"batchItemFailures":[]}"#.to_vec()) };
        let control = MappingControl::draining();
        deliver_all(&self.sources.streams, &accept, FaultPlan::default(), &progress, &control).await?;
        let of_rollups = AtomicU64::new(0);
        let count = |event: Vec<u8>, _: Duration| {
            of_rollups.fetch_add(archived_rollups(workload, &event), Ordering::Relaxed);
            ready(Ok(br#"{"batchItemFailures":[]}"#.to_vec()))
        };
        let levels = MappingProgress::default();
        deliver_all(&self.levels.streams, &count, FaultPlan::default(), &levels, &control).await?;
        Ok(progress.counts().read + of_rollups.into_inner())
    }

    /// All items of the state table.
    pub(crate) async fn state(&self) -> Result<Vec<SdkItem>> {
        scan(&self.server.client(), STATE_TABLE).await
    }

    /// Stops the servers.
    pub(crate) async fn stop(self) -> Result<()> {
        self.archiving.stop().await?;
        self.server.stop().await
    }
}

/// How many records of an event of the state table are archived.
fn archived_rollups(workload: &Workload, event: &[u8]) -> u64 {
    let event: Value = serde_json::from_slice(event).unwrap_or_default();
    let records = event.get("Records").and_then(Value::as_array).into_iter().flatten();
    let is_archived = |record: &&Value| {
        let key = |path: &str| record.pointer(path).and_then(Value::as_str).unwrap_or_default();
        (workload.archived_rollup)(key("/dynamodb/Keys/PK/S"), key("/dynamodb/Keys/SK/S"))
    };
    u64::try_from(records.filter(is_archived).count()).unwrap_or(u64::MAX)
}

/// Lets the mappings of a control end once the future is done.
async fn then_drain<T>(future: impl Future<Output = T>, control: &MappingControl) -> T {
    let output = future.await;
    control.drain();
    output
}

/// Delivers what is not counted yet of streams to a handler, concurrently, until `control` ends it.
async fn deliver(
    group: &StreamGroup,
    handler: &impl EventHandler,
    faults: FaultPlan,
    progress: &MappingProgress,
    control: &MappingControl,
) -> Result<()> {
    deliver_from(&group.counted, &group.streams, handler, faults, progress, control).await
}

/// Delivers streams from their beginning.
async fn deliver_all(
    streams: &[impl StreamSource],
    handler: &impl EventHandler,
    faults: FaultPlan,
    progress: &MappingProgress,
    control: &MappingControl,
) -> Result<()> {
    let checkpoints: Vec<_> = streams.iter().map(|_| MemoryCheckpoints::default()).collect();
    deliver_from(&checkpoints, streams, handler, faults, progress, control).await
}

async fn deliver_from(
    checkpoints: &[MemoryCheckpoints],
    streams: &[impl StreamSource],
    handler: &impl EventHandler,
    faults: FaultPlan,
    progress: &MappingProgress,
    control: &MappingControl,
) -> Result<()> {
    let settings = settings();
    let mappings: Vec<_> = streams
        .iter()
        .zip(checkpoints)
        .map(|(stream, checkpoints)| {
            let options = MappingOptions {
                faults: faults.into(),
                pace: pace(),
                ..MappingOptions::new(progress, checkpoints)
            };
            EventSourceMapping::new(stream, handler, &SystemClock, &settings, options)
        })
        .collect();
    try_join_all(mappings.iter().map(|mapping| mapping.run(control))).await.map(drop)
}

/// As in Lambda, but with few retries: nothing here recovers within seconds.
fn settings() -> MappingSettings {
    MappingSettings {
        max_retries: Some(3),
        bisects: true,
        reports_item_failures: true,
        ..MappingSettings::default()
    }
}

fn pace() -> MappingPace {
    MappingPace { max_backoff: Duration::from_millis(500), ..MappingPace::local() }
}
