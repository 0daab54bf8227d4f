//! Where a workload is played: its tables in an embedded DynamoDB, the writer, and the two readers that each stream allows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use afterwrite::Result;
use afterwrite::config::{EnvironmentSettings as Variables, FunctionConfig};
use afterwrite::table::{Mirror, Model};
use futures::future::{try_join, try_join_all};

use super::archive::Archive;
use super::item::{Item, Placed};
use super::script::Script;
use super::subject::Subject;
use super::workloads::Workload;
use super::writer::{Writer, scan};
use afterwrite_local::dynamodb::{EmbeddedDynamoDb, EmbeddedStream, KeyDefinition, TableDefinition};
use afterwrite_local::poller::{
    EventHandler, MappingSettings, PollerProgress, RedeliveryFaults, StreamPoller,
};
use afterwrite_local::sample::StreamSample;

/// Where the aggregator keeps rollups and ledger.
pub(super) const STATE_TABLE: &str = "AfterwriteState";
/// Of a thousand batches, those that are delivered once more.
const REDELIVERED_PER_MILLE: u32 = 100;
/// Of a thousand old records, those that come once more in the end.
const SAMPLED_PER_MILLE: u32 = 200;

/// Everything that is there while a workload is played.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) model: Arc<Model>,
    pub(super) table_names: Vec<Arc<str>>,
    pub(super) server: EmbeddedDynamoDb,
    pub(super) writer: Writer,
    pub(super) subject: Subject,
    pub(super) archive: Archive,
    /// The streams of the source tables.
    streams: Vec<EmbeddedStream>,
    /// Those of tables whose items show what is counted of other tables: counting these writes there, so that they end last.
    showing: Vec<EmbeddedStream>,
}

impl Stage {
    /// Starts the servers and creates the tables, nothing in them yet.
    pub(super) async fn set(workload: &dyn Workload) -> Result<Self> {
        let variables = Variables { model: Some(workload.model().to_owned()), ..Variables::default() };
        let FunctionConfig { model, table_names, .. } = FunctionConfig::resolve(&variables)?;
        let server = EmbeddedDynamoDb::start().await?;
        let client = server.client();
        server.create_table(&state_table()).await?;
        let (mut streams, mut showing) = (Vec::new(), Vec::new());
        let tables = workload.tables();
        for table in &tables {
            server.create_table(table).await?;
            let stream = server.stream(&table.name).await?;
            let kind = if shows_others(&model, &table.name) { &mut showing } else { &mut streams };
            kind.push(stream);
        }
        let subject = Subject::new(&model, &table_names, client.clone());
        let archive = Box::pin(Archive::start(&model, &table_names)).await?;
        let writer = Writer::new(client, tables);
        Ok(Self { model, table_names, server, writer, subject, archive, streams, showing })
    }

    /// Writes a script while it is counted and archived, until nothing is left of the streams; gives what time to live took.
    pub(super) async fn play(
        &self,
        script: &Script,
        seed: u64,
        [counting, archiving]: [&PollerProgress; 2],
    ) -> Result<Vec<Placed>> {
        let faults = RedeliveryFaults { redeliver_per_mille: REDELIVERED_PER_MILLE, seed };
        let settings = MappingSettings { faults, ..settings() };
        let (written, fed, counted) =
            (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
        let write = async {
            let expired = self.writer.play(script, &self.server).await;
            written.store(true, Ordering::SeqCst);
            expired
        };
        // Counting writes too, mirrored attributes: only when it is done has a stream an end.
        let count_sources = async {
            let done = drain(&self.streams, &self.subject, &settings, counting, &written).await;
            fed.store(true, Ordering::SeqCst);
            done
        };
        let count_showing = drain(&self.showing, &self.subject, &settings, counting, &fed);
        let count = async {
            let done = try_join(count_sources, count_showing).await;
            counted.store(true, Ordering::SeqCst);
            done
        };
        let all: Vec<EmbeddedStream> = self.all_streams().cloned().collect();
        let archive = drain(&all, &self.archive, &settings, archiving, &counted);
        let (expired, _) = try_join(write, try_join(count, archive)).await?;
        Ok(expired)
    }

    /// Delivers a random subset of all records once more, alone and long after newer ones.
    pub(super) async fn deliver_some_again(&self, seed: u64, progress: &PollerProgress) -> Result<()> {
        let settings = settings();
        for stream in self.all_streams() {
            let sample = StreamSample::new(stream, SAMPLED_PER_MILLE, seed);
            let poller = StreamPoller::new(&sample, &self.subject, &settings, progress);
            poller.run_until_drained(&AtomicBool::new(true)).await?;
        }
        Ok(())
    }

    /// How many changes the streams have had in all.
    pub(super) async fn changes(&self) -> Result<u64> {
        let (settings, progress) = (settings(), PollerProgress::default());
        let count = |_: Vec<u8>, _: Duration| async { Ok(br#"{"batchItemFailures":[]}"#.to_vec()) };
        for stream in self.all_streams() {
            let poller = StreamPoller::new(stream, &count, &settings, &progress);
            poller.run_until_drained(&AtomicBool::new(true)).await?;
        }
        Ok(progress.counts().read)
    }

    /// All items of the state table.
    pub(super) async fn state(&self) -> Result<Vec<Item>> {
        scan(&self.server.client(), STATE_TABLE).await
    }

    /// Stops the servers.
    pub(super) async fn strike(self) -> Result<()> {
        self.archive.stop().await?;
        self.server.stop().await
    }

    fn all_streams(&self) -> impl Iterator<Item = &EmbeddedStream> {
        self.streams.iter().chain(&self.showing)
    }
}

/// Delivers streams to a handler, side by side, until `done` is set and nothing is left of them.
async fn drain(
    streams: &[EmbeddedStream],
    handler: &impl EventHandler,
    settings: &MappingSettings,
    progress: &PollerProgress,
    done: &AtomicBool,
) -> Result<()> {
    let pollers: Vec<_> =
        streams.iter().map(|stream| StreamPoller::new(stream, handler, settings, progress)).collect();
    try_join_all(pollers.iter().map(|poller| poller.run_until_drained(done))).await.map(drop)
}

/// Whether items of this table show what is counted of items of other tables.
fn shows_others(model: &Model, table: &str) -> bool {
    let table_of = |entity: usize| model.entities.get(entity).map(|entity| entity.table);
    let is_here = |mirror: &&Mirror| {
        let index = table_of(mirror.onto);
        index.and_then(|index| model.tables.get(index)).is_some_and(|known| *known.name == *table)
    };
    model.mirrors.iter().filter(is_here).any(|mirror| {
        let feeds = |aggregate: &&afterwrite::table::Aggregate| {
            aggregate.into.iter().any(|destination| destination.rollup == mirror.from)
        };
        let mut sources = model.aggregates.iter().filter(feeds).map(|aggregate| table_of(aggregate.of));
        sources.any(|source| source != table_of(mirror.onto))
    })
}

/// As Lambda would, but with little patience: nothing here mends itself in seconds.
fn settings() -> MappingSettings {
    MappingSettings { max_attempts: 4, max_backoff: Duration::from_millis(500), ..MappingSettings::default() }
}

fn state_table() -> TableDefinition {
    TableDefinition {
        name: STATE_TABLE.to_owned(),
        key: KeyDefinition::new("PK", "SK"),
        indexes: Vec::new(),
        stream: false,
        ttl_attribute: Some("expires_at".to_owned()),
    }
}
