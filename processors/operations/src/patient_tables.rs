//! Tables whose reads are repeated while they are throttled or unavailable: for plans and comparisons, which no runner repeats, and for verifications, whose
//! steps have many reads.

use afterwrite_ledger::tables::{
    ConsumedUnits, IndexPage, IndexQuery, PartialRead, ReadSnapshot, ScanPage, ScanRequest, TableScan,
    TableSummary, Tables, TransactError, WriteError,
};
use afterwrite_model::Error;
use afterwrite_model::clock::Clock;
use afterwrite_model::effect::{ItemKey, Write};

use crate::jobs::{STEP_TIME, repeated};

/// Repeats each read for as long as a runner repeats a step: two minutes. Writes are passed on.
#[derive(Clone, Debug)]
pub struct PatientTables<T, C> {
    base: T,
    clock: C,
}

impl<T, C> PatientTables<T, C> {
    /// Reads from `base` patiently.
    pub fn new(base: T, clock: C) -> Self {
        Self { base, clock }
    }
}

impl<T: Tables, C: Clock> Tables for PatientTables<T, C> {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        repeated(&self.clock, STEP_TIME, || self.base.read(keys)).await
    }

    async fn read_some(&self, keys: &[ItemKey]) -> Result<PartialRead, Error> {
        repeated(&self.clock, STEP_TIME, || self.base.read_some(keys)).await
    }

    async fn read_looked_up(&self, keys: &[ItemKey]) -> Result<PartialRead, Error> {
        repeated(&self.clock, STEP_TIME, || self.base.read_looked_up(keys)).await
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        self.base.write(write).await
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        self.base.transact(writes).await
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        repeated(&self.clock, STEP_TIME, || self.base.query_index(query)).await
    }
}

impl<T: TableScan, C: Clock> TableScan for PatientTables<T, C> {
    async fn scan(&self, request: &ScanRequest) -> Result<ScanPage, Error> {
        repeated(&self.clock, STEP_TIME, || self.base.scan(request)).await
    }

    async fn describe(&self, table: &str) -> Result<TableSummary, Error> {
        repeated(&self.clock, STEP_TIME, || self.base.describe(table)).await
    }
}
