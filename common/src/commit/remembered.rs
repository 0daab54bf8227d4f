//! Reading what lookups have given, without asking: for whoever makes rows of changes long after they were counted.

use std::sync::Arc;

use super::keys::StateKeys;
use super::lookup::remembered;
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
    /// Those of this model's lookups that `state_table` holds.
    pub fn new(model: Arc<Model>, state_table: Arc<str>, tables: T) -> Self {
        Self { model, keys: StateKeys::new(state_table), tables }
    }

    /// What each of these questions was answered with; `None` where nothing is remembered, or too little.
    ///
    /// # Errors
    /// As [`Tables::read`].
    pub async fn read(&self, questions: &[LookupKey<'static>]) -> Result<Vec<Option<Arc<LookupOutputs>>>> {
        let keys: Vec<_> = questions.iter().map(|question| self.keys.lookup(&self.model, question)).collect();
        let items = self.tables.read(&keys).await?.items;
        let answers = questions.iter().zip(items);
        Ok(answers.map(|(question, item)| remembered(&self.model, question, &item?)).collect())
    }
}
