//! The targets of all projections, one of them out of service for a while. Each notes when the change of an order took effect.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use afterwrite_ledger::tables::{
    ConsumedUnits, IndexPage, IndexQuery, ReadSnapshot, Tables, TransactError, WriteError,
};
use afterwrite_memory::MemoryTables;
use afterwrite_model::clock::Clock;
use afterwrite_model::effect::{ItemKey, Write, WriteRefusal};
use afterwrite_model::projection::StaleKey;
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind};
use afterwrite_services::{
    Cache, DeliveryStream, Distribution, DistributionError, EventEntry, EventLimits, EventOrder, EventTarget,
    InvalidatedKeys,
};
use afterwrite_tests::clock::TokioClock;
use serde_json::Value;

/// Tokio's paused time, shared.
#[derive(Clone, Debug)]
pub(crate) struct PausedClock(pub(crate) Arc<TokioClock>);

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        self.0.sleep(duration)
    }

    fn until(&self, time: Timestamp) -> impl Future<Output = ()> + Send {
        self.0.until(time)
    }

    fn permille(&self) -> u32 {
        self.0.permille()
    }
}

/// The effect of a change, by the projection that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    /// The change is counted in the state table.
    Counted,
    /// The cache has no copy of the item.
    KeyGone,
    /// CloudFront has no copy of the item's page.
    PathGone,
    /// The delivery stream has the line.
    Archived,
    /// The target has the event.
    Told,
}

impl Effect {
    pub(crate) const ALL: [Self; 5] =
        [Self::Counted, Self::KeyGone, Self::PathGone, Self::Archived, Self::Told];
}

/// The targets. The target of one effect is out of service for some time.
#[derive(Clone)]
pub(crate) struct TimedTargets {
    clock: PausedClock,
    outage: Option<(Effect, Range<Timestamp>)>,
    order: EventOrder,
    tables: Arc<MemoryTables>,
    /// By effect and order: when the change first took effect.
    times: Arc<Mutex<BTreeMap<(Effect, String), Timestamp>>>,
}

impl TimedTargets {
    pub(crate) fn new(
        clock: &PausedClock,
        outage: Option<(Effect, Range<Timestamp>)>,
        order: EventOrder,
    ) -> Self {
        let tables = Arc::new(MemoryTables::new());
        tables.create_table(afterwrite_memory::TableDefinition::new("state", "PK").sort("SK"));
        Self { clock: clock.clone(), outage, order, tables, times: Arc::default() }
    }

    pub(crate) fn note(&self, effect: Effect, order: &str) {
        let now = self.clock.now();
        self.times.lock().unwrap().entry((effect, order.to_owned())).or_insert(now);
    }

    pub(crate) fn time(&self, effect: Effect, order: &str) -> Timestamp {
        self.times.lock().unwrap()[&(effect, order.to_owned())]
    }

    fn is_down(&self, effect: Effect) -> bool {
        let now = self.clock.now();
        self.outage.as_ref().is_some_and(|(target, time)| *target == effect && time.contains(&now))
    }

    fn note_records(&self, effect: Effect, lines: &str) {
        for line in lines.lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            self.note(effect, order_of(&record));
        }
    }

    /// The state table's own time follows the clock.
    fn tables(&self) -> Result<&MemoryTables, Error> {
        self.tables.set_time(self.clock.now());
        if self.is_down(Effect::Counted) { Err(unavailable()) } else { Ok(&self.tables) }
    }
}

/// The order that a record changes.
pub(crate) fn order_of(record: &Value) -> &str {
    record["dynamodb"]["Keys"]["PK"]["S"].as_str().unwrap().trim_start_matches("ORDER#")
}

fn unavailable() -> Error {
    Error::new(ErrorKind::Unavailable, "out of service")
}

impl Cache for TimedTargets {
    async fn invalidate(&self, keys: &[StaleKey], _: Duration) -> InvalidatedKeys {
        let is_down = self.is_down(Effect::KeyGone);
        let result = |stale: &StaleKey| {
            if is_down {
                return Err(unavailable());
            }
            self.note(Effect::KeyGone, stale.key.trim_start_matches("order:"));
            Ok(())
        };
        InvalidatedKeys { results: keys.iter().map(result).collect(), commands: 1 }
    }
}

impl Distribution for TimedTargets {
    async fn invalidate(&self, paths: &[String], _: &str, _: Duration) -> Result<(), DistributionError> {
        paths.iter().for_each(|path| self.note(Effect::PathGone, path.trim_start_matches("/orders/")));
        Ok(())
    }
}

impl DeliveryStream for TimedTargets {
    async fn put_batch(&self, records: &[&[u8]]) -> Result<Vec<Result<(), Error>>, Error> {
        if self.is_down(Effect::Archived) {
            return Err(unavailable());
        }
        for record in records {
            self.note_records(Effect::Archived, std::str::from_utf8(record).unwrap());
        }
        Ok(records.iter().map(|_| Ok(())).collect())
    }
}

impl EventTarget for TimedTargets {
    fn limits(&self) -> EventLimits {
        EventLimits { entries: 10, bytes: 256 * 1024 }
    }

    fn order(&self) -> EventOrder {
        self.order
    }

    fn entry_bytes(&self, entry: &EventEntry<'_>) -> usize {
        entry.body.len()
    }

    async fn publish(
        &self,
        entries: &[EventEntry<'_>],
        _: Duration,
    ) -> Result<Vec<Result<(), Error>>, Error> {
        if self.is_down(Effect::Told) {
            return Err(unavailable());
        }
        for entry in entries {
            let envelope: Value = serde_json::from_str(entry.body).unwrap();
            self.note(Effect::Told, envelope["key"]["PK"].as_str().unwrap().trim_start_matches("ORDER#"));
        }
        Ok(entries.iter().map(|_| Ok(())).collect())
    }
}

/// The state table, which throttles during its outage.
impl Tables for TimedTargets {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        self.tables()?.read(keys).await
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        match self.tables() {
            Ok(tables) => tables.write(write).await,
            Err(_) => Err(WriteError::Refused(WriteRefusal::Throttled)),
        }
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        match self.tables() {
            Ok(tables) => tables.transact(writes).await,
            Err(error) => Err(TransactError::Failed(error)),
        }
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        self.tables()?.query_index(query).await
    }
}
