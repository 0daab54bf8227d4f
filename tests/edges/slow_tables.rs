//! Tables whose requests take some time, or hang.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_functions::{AggregatedBatch, StreamAggregator};
use afterwrite_ledger::Ledger;
use afterwrite_ledger::tables::{
    ConsumedUnits, IndexPage, IndexQuery, PartialRead, ReadSnapshot, Tables, TransactError, WriteError,
};
use afterwrite_memory::MemoryTables;
use afterwrite_model::Error;
use afterwrite_model::effect::{ItemKey, Write};
use afterwrite_model::record::Timestamp;
use afterwrite_tests::clock::TokioClock;
use afterwrite_tests::deployment::event;
use serde_json::Value;
use tokio::time::Instant;

use super::world::{NOW, STATE, TABLE, parsed};

pub(crate) const NEVER_DONE: Duration = Duration::MAX;

/// A request whose time a test determines.
pub(crate) enum SlowRequest<'r> {
    Read,
    Write(&'r Write),
    Transact(&'r [Write]),
    Query(&'r IndexQuery),
}

/// Tables whose requests take some time before they are carried out.
pub(crate) struct SlowTables<F> {
    pub(crate) tables: Arc<MemoryTables>,
    pub(crate) time: F,
}

impl<F: Fn(SlowRequest<'_>) -> Duration + Send + Sync> SlowTables<F> {
    async fn wait(&self, request: SlowRequest<'_>) {
        match (self.time)(request) {
            NEVER_DONE => std::future::pending().await,
            time => tokio::time::sleep(time).await,
        }
    }
}

impl<F: Fn(SlowRequest<'_>) -> Duration + Send + Sync> Tables for SlowTables<F> {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        self.tables.read(keys).await
    }

    async fn read_some(&self, keys: &[ItemKey]) -> Result<PartialRead, Error> {
        self.wait(SlowRequest::Read).await;
        self.tables.read_some(keys).await
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        self.wait(SlowRequest::Write(write)).await;
        self.tables.write(write).await
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        self.wait(SlowRequest::Transact(writes)).await;
        self.tables.transact(writes).await
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        self.wait(SlowRequest::Query(query)).await;
        self.tables.query_index(query).await
    }
}

/// Delivers records to a new function that has this many seconds.
pub(crate) async fn deliver(
    model: &str,
    records: &[Value],
    seconds: u64,
    tables: SlowTables<impl Fn(SlowRequest<'_>) -> Duration + Send + Sync>,
) -> AggregatedBatch {
    deliver_at_random(500, model, records, seconds, tables).await
}

/// As [`deliver`]. The random number of the function is in thousandths.
pub(crate) async fn deliver_at_random(
    permille: u32,
    model: &str,
    records: &[Value],
    seconds: u64,
    tables: SlowTables<impl Fn(SlowRequest<'_>) -> Duration + Send + Sync>,
) -> AggregatedBatch {
    let begin = Timestamp::from_epoch_seconds(NOW);
    let (tables_of_model, state) = (vec![Arc::from(TABLE)], Arc::from(STATE));
    let ledger = Ledger::new(parsed(model), tables_of_model, state, tables, TokioClock::at(begin, permille));
    let deadline = begin.plus(Duration::from_secs(seconds));
    let begun = Instant::now();
    let handled = StreamAggregator::new(ledger).handle(event(records).as_bytes(), deadline).await;
    assert!(begun.elapsed() <= Duration::from_secs(seconds), "after {:?}", begun.elapsed());
    let handled = handled.expect("an event");
    assert!(handled.parked.is_empty(), "{handled:?}");
    handled
}
