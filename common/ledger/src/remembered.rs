//! Remembered lookups, for programs that read or replace them without counting records. The ledger itself uses its lookup stage.

use std::sync::Arc;

use afterwrite_model::effect::WriteRefusal;
use afterwrite_model::projection::{LookupKey, LookupOutputs};
use afterwrite_model::record::AttributeValue;
use afterwrite_model::table::Model;
use afterwrite_model::{Error, Result};

use super::requests::write_error;
use super::state::StateKeys;
use super::state::lookup::{RememberedLookup, lacking_outputs};
use crate::tables::{Tables, WriteError};

/// Reads remembered lookups without querying an index: for the exporter, which makes rows of changes long after they
/// were counted.
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

    /// Replaces remembered outputs that differ from these; outputs that are not remembered are left alone. Returns whether they were
    /// replaced. Functions keep outputs in memory: they see the new ones when their processes start again.
    ///
    /// # Errors
    /// As [`Tables::write`]; the write was refused.
    pub async fn replace(
        &self,
        lookup_key: &LookupKey<'static>,
        outputs: &[AttributeValue<'static>],
    ) -> Result<bool> {
        let write = RememberedLookup::replacement(&self.keys, &self.model, lookup_key, outputs)?;
        match self.tables.write(&write).await {
            Ok(_) => Ok(true),
            Err(WriteError::Refused(WriteRefusal::Condition(_))) => Ok(false),
            Err(error) => Err(write_error(&write, error)),
        }
    }

    /// The outputs for each key; `None` if none are remembered, or an output that the model declares is missing.
    ///
    /// # Errors
    /// As [`Tables::read`].
    pub async fn read(&self, lookup_keys: &[LookupKey<'static>]) -> Result<Vec<Option<Arc<LookupOutputs>>>> {
        let remembered = self.read_each(lookup_keys).await?.into_iter();
        let outputs = remembered.map(|remembered| match remembered {
            RememberedLookup::Outputs(outputs) => Some(outputs),
            RememberedLookup::Nothing | RememberedLookup::Lacking(_) => None,
        });
        Ok(outputs.collect())
    }

    /// The remembered result for each key.
    ///
    /// # Errors
    /// As [`Tables::read`].
    pub async fn read_each(&self, lookup_keys: &[LookupKey<'static>]) -> Result<Vec<RememberedLookup>> {
        let keys = lookup_keys.iter().map(|key| RememberedLookup::key(&self.keys, &self.model, key));
        let keys: Vec<_> = keys.collect::<Result<_>>()?;
        let items = self.tables.read(&keys).await?.items;
        let stored = lookup_keys.iter().zip(items);
        let decode = |(key, item): (&_, Option<_>)| RememberedLookup::decode(&self.model, key, item.as_ref());
        Ok(stored.map(decode).collect())
    }

    /// The error about a lookup that lacks these outputs, with what mends it.
    #[must_use]
    pub fn lacking(&self, key: &LookupKey<'_>, outputs: &[Arc<str>]) -> Error {
        lacking_outputs(&self.model, key, outputs)
    }
}
