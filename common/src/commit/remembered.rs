//! Reads remembered lookups without querying an index: for the exporter, which makes rows of changes long after they were
//! counted.

use std::sync::Arc;

use super::keys::StateKeys;
use super::lookup::remembered_outputs;
use crate::Result;
use crate::projection::{LookupKey, LookupOutputs};
use crate::sink::Tables;
use crate::table::Model;

/// The remembered lookups of a state table.
#[derive(Clone, Debug)]
pub struct RememberedLookups<T> {
    model: Arc<Model>,
    keys: StateKeys,
    tables: T,
}

impl<T: Tables> RememberedLookups<T> {
    /// The lookups of `model` that `state_table` remembers.
    pub fn new(model: Arc<Model>, state_table: Arc<str>, tables: T) -> Self {
        Self { model, keys: StateKeys::new(state_table), tables }
    }

    /// The outputs for each key; `None` if none are remembered, or an output that the model declares is missing.
    ///
    /// # Errors
    /// As [`Tables::read`].
    pub async fn read(&self, lookup_keys: &[LookupKey<'static>]) -> Result<Vec<Option<Arc<LookupOutputs>>>> {
        let keys: Vec<_> = lookup_keys.iter().map(|key| self.keys.lookup(&self.model, key)).collect();
        let items = self.tables.read(&keys).await?.items;
        let stored = lookup_keys.iter().zip(items);
        Ok(stored.map(|(key, item)| remembered_outputs(&self.model, key, &item?)).collect())
    }
}
