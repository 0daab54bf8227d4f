//! The environment of a workload: its tables in an embedded DynamoDB, the writer, and the two readers that each stream allows.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_local::dynamodb::{EmbeddedDynamoDb, EmbeddedStream, TableDefinition};
use afterwrite_mapping::{
    EventHandler, EventSourceMapping, FaultPlan, MappingControl, MappingOptions, MappingPace,
    MappingProgress, MappingSettings, MemoryCheckpoints, StreamSample, StreamSource,
};
use afterwrite_model::Result;
use afterwrite_model::clock::SystemClock;
use afterwrite_model::table::{Aggregate, Mirror, Model};
use afterwrite_services::config::{EnvironmentSettings, FunctionConfig};
use futures::future::{try_join, try_join_all};

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
    /// The streams of the source tables, without the tables in `mirroring`.
    streams: Vec<EmbeddedStream>,
    /// The streams of tables with mirrors of other tables' rollups: counting writes to these tables, so their streams end last.
    mirroring: Vec<EmbeddedStream>,
}

impl DemoEnvironment {
    /// Starts the servers and creates the tables, empty.
    pub(crate) async fn start(workload: &Workload) -> Result<Self> {
        let settings =
            EnvironmentSettings { model: Some(workload.model.to_owned()), ..EnvironmentSettings::default() };
        let FunctionConfig { model, table_names, .. } = FunctionConfig::resolve(&settings)?;
        let server = EmbeddedDynamoDb::start().await?;
        let client = server.client();
        server.create_table(&TableDefinition::state(STATE_TABLE).ranked(&model)).await?;
        let (mut streams, mut mirroring) = (Vec::new(), Vec::new());
        let tables = workload.tables();
        for table in &tables {
            server.create_table(table).await?;
            let stream = server.stream(&table.name).await?;
            let kind = if mirrors_others(&model, &table.name) { &mut mirroring } else { &mut streams };
            kind.push(stream);
        }
        let counting = CountingFunction::new(&model, &table_names, client.clone());
        let archiving = Box::pin(ArchivingFunction::start(&model, &table_names)).await?;
        let writer = ScriptWriter::new(client, tables);
        Ok(Self { model, table_names, server, writer, counting, archiving, streams, mirroring })
    }

    /// Writes a script while it is counted and archived, to the end of the streams; returns the items that time to live deleted.
    pub(crate) async fn play(
        &self,
        script: &Script,
        seed: u64,
        [counting, archiving]: [&MappingProgress; 2],
    ) -> Result<Vec<TableItem>> {
        let faults = FaultPlan { duplicate: REDELIVERED, seed, ..FaultPlan::default() };
        let [written, fed, counted] = [(); 3].map(|()| MappingControl::default());
        let write = then_drain(self.writer.play(script, &self.server), &written);
        // Counting also writes, to mirrored attributes: a stream ends only when counting is done.
        let count_sources = deliver(&self.streams, &self.counting, faults, counting, &written);
        let count_mirroring = deliver(&self.mirroring, &self.counting, faults, counting, &fed);
        let count = then_drain(try_join(then_drain(count_sources, &fed), count_mirroring), &counted);
        let all: Vec<EmbeddedStream> = self.all_streams().cloned().collect();
        let archive = deliver(&all, &self.archiving, faults, archiving, &counted);
        let (expired, _) = try_join(write, try_join(count, archive)).await?;
        Ok(expired)
    }

    /// Redelivers a random subset of all records, each alone and long after newer records.
    pub(crate) async fn redeliver_some(&self, seed: u64, progress: &MappingProgress) -> Result<()> {
        let all = self.all_streams();
        let samples: Vec<_> = all.map(|stream| StreamSample::new(stream, SAMPLED_PER_MILLE, seed)).collect();
        let control = MappingControl::draining();
        deliver(&samples, &self.counting, FaultPlan::default(), progress, &control).await
    }

    /// The number of changes in all streams.
    pub(crate) async fn changes(&self) -> Result<u64> {
        let progress = MappingProgress::default();
        let accept = |_: Vec<u8>, _: Duration| async { Ok(br#"{"batchItemFailures":[]}"#.to_vec()) };
        let all: Vec<EmbeddedStream> = self.all_streams().cloned().collect();
        let control = MappingControl::draining();
        deliver(&all, &accept, FaultPlan::default(), &progress, &control).await?;
        Ok(progress.counts().read)
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

    fn all_streams(&self) -> impl Iterator<Item = &EmbeddedStream> {
        self.streams.iter().chain(&self.mirroring)
    }
}

/// Lets the mappings of a control end once the future is done.
async fn then_drain<T>(future: impl Future<Output = T>, control: &MappingControl) -> T {
    let output = future.await;
    control.drain();
    output
}

/// Delivers streams to a handler, concurrently, until `control` ends it.
async fn deliver(
    streams: &[impl StreamSource],
    handler: &impl EventHandler,
    faults: FaultPlan,
    progress: &MappingProgress,
    control: &MappingControl,
) -> Result<()> {
    let settings = settings();
    let checkpoints: Vec<_> = streams.iter().map(|_| MemoryCheckpoints::default()).collect();
    let mappings: Vec<_> = streams
        .iter()
        .zip(&checkpoints)
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

/// Whether items of this table have mirrors of rollups that count items of other tables.
fn mirrors_others(model: &Model, table: &str) -> bool {
    let table_of = |entity: usize| model.entities.get(entity).map(|entity| entity.table);
    let is_here = |mirror: &&Mirror| {
        let index = table_of(mirror.onto);
        index.and_then(|index| model.tables.get(index)).is_some_and(|known| *known.name == *table)
    };
    model.mirrors.iter().filter(is_here).any(|mirror| {
        let feeds = |aggregate: &&Aggregate| {
            aggregate.into.iter().any(|destination| destination.rollup == mirror.from)
        };
        let mut sources = model.aggregates.iter().filter(feeds).map(|aggregate| table_of(aggregate.of));
        sources.any(|source| source != table_of(mirror.onto))
    })
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
