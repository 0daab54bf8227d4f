//! The rollups that a repair has written: what the levels above them count has changed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use afterwrite_ledger::tables::{
    ConsumedUnits, IndexPage, IndexQuery, PartialRead, ReadSnapshot, ScanPage, ScanRequest, TableScan,
    TableSummary, Tables, TransactError, WriteError,
};
use afterwrite_model::Error;
use afterwrite_model::effect::{ItemKey, Write};
use afterwrite_model::entity::SourceKey;
use afterwrite_model::record::AttributeValue;
use afterwrite_model::table::{Model, STATE_TABLE};

use crate::verify::RollupPlace;

/// Notes the items of the state table that are written through it, also if a write is refused or its effect is unknown.
#[derive(Clone, Debug)]
pub(super) struct NotedWrites<T> {
    base: T,
    state_table: Arc<str>,
    written: Arc<Mutex<BTreeSet<RollupPlace>>>,
}

impl<T> NotedWrites<T> {
    /// Writes to `base`.
    pub(super) fn new(base: T, state_table: &Arc<str>) -> Self {
        Self { base, state_table: Arc::clone(state_table), written: Arc::default() }
    }

    /// The tables that are written to.
    pub(super) fn base(&self) -> T
    where
        T: Clone,
    {
        self.base.clone()
    }

    /// The rollups that were written since the last call and that the model counts again, as items of the state table. `left` are not among them.
    pub(super) fn take_sources(
        &self,
        model: &Model,
        left: &BTreeSet<RollupPlace>,
    ) -> BTreeSet<SourceKey<'static>> {
        let written = std::mem::take(&mut *self.written.lock().unwrap_or_else(PoisonError::into_inner));
        let Some(table) = model.tables.iter().position(|table| *table.name == *STATE_TABLE) else {
            return BTreeSet::new();
        };
        let written = written.into_iter().filter(|place| !left.contains(place));
        let sources = written.map(|(partition, sort)| SourceKey {
            table,
            partition: partition.into(),
            sort: Some(sort.into()),
        });
        sources.filter(|source| !source.candidates(model).is_empty()).collect()
    }

    fn note(&self, writes: &[Write]) {
        let text = |value: &AttributeValue<'_>| value.as_text().map(str::to_owned);
        let places = writes.iter().map(|write| &write.key).filter(|key| *key.table == *self.state_table);
        let places = places.filter_map(|ItemKey { partition, sort, .. }| {
            Some((text(&partition.value)?, text(&sort.as_ref()?.value)?))
        });
        self.written.lock().unwrap_or_else(PoisonError::into_inner).extend(places);
    }
}

impl<T: Tables> Tables for NotedWrites<T> {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        self.base.read(keys).await
    }

    async fn read_some(&self, keys: &[ItemKey]) -> Result<PartialRead, Error> {
        self.base.read_some(keys).await
    }

    async fn read_looked_up(&self, keys: &[ItemKey]) -> Result<PartialRead, Error> {
        self.base.read_looked_up(keys).await
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        self.note(std::slice::from_ref(write));
        self.base.write(write).await
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        self.note(writes);
        self.base.transact(writes).await
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        self.base.query_index(query).await
    }
}

impl<T: TableScan> TableScan for NotedWrites<T> {
    async fn scan(&self, request: &ScanRequest) -> Result<ScanPage, Error> {
        self.base.scan(request).await
    }

    async fn describe(&self, table: &str) -> Result<TableSummary, Error> {
        self.base.describe(table).await
    }
}
