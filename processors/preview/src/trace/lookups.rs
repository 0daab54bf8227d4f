//! The outputs of lookups for a trace.

use std::collections::HashMap;
use std::sync::Arc;

use afterwrite_ledger::RememberedLookups;
use afterwrite_ledger::tables::Tables;
use afterwrite_model::Result;
use afterwrite_model::projection::{KnownLookups, LookupKey, LookupOutputs};
use afterwrite_model::record::AttributeValue;
use afterwrite_model::table::Model;

/// Remembered outputs, or the output's name in angle brackets where none are remembered.
#[derive(Debug)]
pub struct TraceLookups<T> {
    placeholders: Vec<Vec<AttributeValue<'static>>>,
    remembered: Option<RememberedLookups<T>>,
    are_counted: bool,
}

/// The outputs that one record needs.
pub(super) struct RecordLookups<'l> {
    placeholders: &'l [Vec<AttributeValue<'static>>],
    known: HashMap<LookupKey<'static>, Arc<LookupOutputs>>,
    are_counted: bool,
}

impl<T: Tables> TraceLookups<T> {
    /// Reads remembered lookups from the state table, if one is set.
    #[must_use]
    pub fn new(model: &Model, remembered: Option<RememberedLookups<T>>) -> Self {
        let placeholder = |name: &Arc<str>| AttributeValue::text(format!("<{name}>"));
        let placeholders =
            model.lookups.iter().map(|lookup| lookup.outputs.iter().map(placeholder).collect());
        Self { placeholders: placeholders.collect(), remembered, are_counted: false }
    }

    /// Sets that the records have been counted: a lookup that is not remembered has found nothing.
    #[must_use]
    pub fn after_counting(mut self) -> Self {
        self.are_counted = true;
        self
    }

    /// The outputs for these keys.
    ///
    /// # Errors
    /// As [`RememberedLookups::read`].
    pub(super) async fn read(&self, keys: Vec<LookupKey<'static>>) -> Result<RecordLookups<'_>> {
        let mut known = HashMap::new();
        if let Some(remembered) = self.remembered.as_ref().filter(|_| !keys.is_empty()) {
            let outputs = remembered.read(&keys).await?;
            known.extend(keys.into_iter().zip(outputs).filter_map(|(key, outputs)| Some((key, outputs?))));
        }
        Ok(RecordLookups { placeholders: &self.placeholders, known, are_counted: self.are_counted })
    }
}

impl KnownLookups for RecordLookups<'_> {
    fn outputs(&self, key: &LookupKey<'_>) -> Option<&LookupOutputs> {
        let known = self.known.iter().find(|(known, _)| *known == key).map(|(_, outputs)| &**outputs);
        let placeholder = || self.placeholders.get(key.lookup).filter(|_| !self.are_counted);
        known.or_else(|| placeholder().map(Vec::as_slice))
    }

    fn is_absent(&self, key: &LookupKey<'_>) -> bool {
        self.outputs(key).is_none()
    }
}
