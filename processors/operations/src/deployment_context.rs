//! The deployment that an operation works on.

use std::sync::Arc;

use afterwrite_ledger::tables::Tables;
use afterwrite_ledger::{Ledger, RememberedLookups, StateItems};
use afterwrite_model::clock::Clock;
use afterwrite_model::table::Model;

/// A model, its deployed tables, and how they are reached.
#[derive(Clone, Debug)]
pub struct DeploymentContext<T, C> {
    /// The model.
    pub model: Arc<Model>,
    /// The deployed names of its tables, aligned with [`Model::tables`].
    pub table_names: Vec<Arc<str>>,
    /// The state table.
    pub state_table: Arc<str>,
    /// DynamoDB.
    pub tables: T,
    /// Time.
    pub clock: C,
}

impl<T, C> DeploymentContext<T, C> {
    /// The same deployment, reached in another way: with retries, or so that writes stay in memory.
    #[must_use]
    pub fn with_tables<O>(self, tables: O) -> DeploymentContext<O, C> {
        let Self { model, table_names, state_table, clock, .. } = self;
        DeploymentContext { model, table_names, state_table, tables, clock }
    }

    pub(crate) fn state_items(&self) -> StateItems {
        StateItems::new(Arc::clone(&self.model), self.table_names.clone(), Arc::clone(&self.state_table))
    }
}

impl<T: Tables + Clone, C> DeploymentContext<T, C> {
    pub(crate) fn remembered(&self) -> RememberedLookups<T> {
        RememberedLookups::new(Arc::clone(&self.model), Arc::clone(&self.state_table), self.tables.clone())
    }
}

impl<T: Tables + Clone, C: Clock + Clone> DeploymentContext<T, C> {
    pub(crate) fn ledger(&self) -> Ledger<T, C> {
        let Self { model, table_names, state_table, tables, clock } = self.clone();
        Ledger::new(model, table_names, state_table, tables, clock)
    }
}
