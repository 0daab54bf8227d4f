//! Remembered lookups as they are stored.

use std::borrow::Cow;
use std::sync::Arc;

use afterwrite_model::effect::{AttributeChange, Write, WriteAction, WriteCondition, WriteRefusal};
use afterwrite_model::projection::{LookupKey, LookupOutputs};
use afterwrite_model::record::{AttributePath, AttributeValue, Item};
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};

use super::core::keys::StateKeys;
use super::core::lookups::SharedOutputs;
use super::requests::write_error;
use crate::tables::{Tables, WriteError};

/// The attribute of a remembered lookup that holds its outputs, by name.
pub(super) const OUTPUTS: &str = "gives";

/// The outputs as they are stored.
pub(super) fn outputs_by_name(
    model: &Model,
    key: &LookupKey<'_>,
    outputs: &[AttributeValue<'static>],
) -> AttributeValue<'static> {
    let names = model.lookups.get(key.lookup).map_or(&[][..], |lookup| &lookup.outputs);
    let by_name = names.iter().map(|name| Cow::Owned(name.to_string())).zip(outputs.iter().cloned());
    AttributeValue::M(by_name.collect())
}

/// The outputs of a remembered lookup.
///
/// # Errors
/// The outputs that the model declares and the remembered lookup lacks.
pub(super) fn remembered_outputs(
    model: &Model,
    key: &LookupKey<'_>,
    item: &Item,
) -> Result<SharedOutputs, Vec<Arc<str>>> {
    let by_name = match item.get(OUTPUTS) {
        Some(AttributeValue::M(by_name)) => Some(by_name),
        Some(_) | None => None,
    };
    let declared = model.lookups.get(key.lookup).map_or(&[][..], |lookup| &lookup.outputs);
    let (mut outputs, mut lacking) = (Vec::with_capacity(declared.len()), Vec::new());
    for name in declared {
        match by_name.and_then(|by_name| by_name.get(name.as_ref())) {
            Some(output) => outputs.push(output.clone()),
            None => lacking.push(Arc::clone(name)),
        }
    }
    if lacking.is_empty() { Ok(outputs.into()) } else { Err(lacking) }
}

/// The error about a remembered lookup that lacks these outputs.
pub(super) fn lacking_outputs(model: &Model, key: &LookupKey<'_>, lacking: &[Arc<str>]) -> Error {
    let name = model.lookups.get(key.lookup).map_or("?", |lookup| &lookup.name);
    Error::new(ErrorKind::State, "a remembered lookup lacks an output that the model declares")
        .with("lookup", name)
        .with("output", lacking.join(", "))
        .hint("Run `afterwrite backfill --reattribute`, which remembers what the looked-up items show now; an item that lacks the attribute must get it first")
}

/// The remembered result of a lookup.
#[derive(Clone, Debug, PartialEq)]
pub enum RememberedLookup {
    /// Nothing.
    Nothing,
    /// Its outputs, but not all that the model declares: an earlier model has remembered it.
    Lacking(Vec<Arc<str>>),
    /// Its outputs.
    Outputs(Arc<LookupOutputs>),
}

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
        let by_name = outputs_by_name(&self.model, lookup_key, outputs);
        let path = AttributePath::from(OUTPUTS);
        let write = Write {
            key: self.keys.lookup(&self.model, lookup_key)?,
            condition: WriteCondition::Differs(path.clone(), by_name.clone()),
            action: WriteAction::Update(vec![AttributeChange::Set(path, by_name)]),
        };
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
        let keys: Vec<_> =
            lookup_keys.iter().map(|key| self.keys.lookup(&self.model, key)).collect::<Result<_>>()?;
        let items = self.tables.read(&keys).await?.items;
        let stored = lookup_keys.iter().zip(items);
        let remembered = stored.map(|(key, item)| match item {
            None => RememberedLookup::Nothing,
            Some(item) => match remembered_outputs(&self.model, key, &item) {
                Ok(outputs) => RememberedLookup::Outputs(outputs),
                Err(lacking) => RememberedLookup::Lacking(lacking),
            },
        });
        Ok(remembered.collect())
    }

    /// The error about a lookup that lacks these outputs, with what mends it.
    #[must_use]
    pub fn lacking(&self, key: &LookupKey<'_>, outputs: &[Arc<str>]) -> Error {
        lacking_outputs(&self.model, key, outputs)
    }
}
