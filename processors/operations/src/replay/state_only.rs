//! Tables of which only the state table is written.

use afterwrite_ledger::tables::{
    ConsumedUnits, IndexPage, IndexQuery, PartialRead, ReadSnapshot, ScanPage, ScanRequest, TableScan,
    TableSummary, Tables, TransactError, WriteError,
};
use afterwrite_model::Error;
use afterwrite_model::effect::{ItemKey, Write, WriteRefusal};

/// Passes every request on, but for single writes to other tables than one: these are refused as if their item did not exist, so that
/// nobody counts them. A state table that is being built must not show its unfinished rollups on the application's items.
#[derive(Clone, Debug)]
pub struct StateOnlyTables<T> {
    tables: T,
    state_table: String,
}

impl<T: Tables> StateOnlyTables<T> {
    /// Writes only to `state_table`.
    pub fn new(tables: T, state_table: &str) -> Self {
        Self { tables, state_table: state_table.to_owned() }
    }
}

impl<T: Tables> Tables for StateOnlyTables<T> {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        self.tables.read(keys).await
    }

    async fn read_looked_up(&self, keys: &[ItemKey]) -> Result<PartialRead, Error> {
        self.tables.read_looked_up(keys).await
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        if *write.key.table == *self.state_table {
            self.tables.write(write).await
        } else {
            Err(WriteError::Refused(WriteRefusal::Condition(None)))
        }
    }

    /// All transactions are of the ledger: they write to the state table alone.
    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        self.tables.transact(writes).await
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        self.tables.query_index(query).await
    }
}

impl<T: TableScan> TableScan for StateOnlyTables<T> {
    async fn scan(&self, request: &ScanRequest) -> Result<ScanPage, Error> {
        self.tables.scan(request).await
    }

    async fn describe(&self, table: &str) -> Result<TableSummary, Error> {
        self.tables.describe(table).await
    }
}
