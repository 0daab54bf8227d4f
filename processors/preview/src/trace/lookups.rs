//! The outputs of lookups for a trace.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use afterwrite_ledger::tables::Tables;
use afterwrite_ledger::{LookupSearch, RememberedLookups};
use afterwrite_model::Result;
use afterwrite_model::projection::{KnownLookups, LookupKey, LookupOutputs};
use afterwrite_model::record::AttributeValue;
use afterwrite_model::table::Model;

/// Remembered outputs, or those that a search finds now. Where neither is read, the output's name in angle brackets.
#[derive(Debug)]
pub struct TraceLookups<T> {
    placeholders: Vec<Vec<AttributeValue<'static>>>,
    remembered: Option<RememberedLookups<T>>,
    search: LookupSource<T>,
}

/// Where a lookup's outputs come from if they are not remembered.
#[derive(Debug)]
enum LookupSource<T> {
    /// They are not read: their names stand for them.
    Names,
    /// The records have been counted: a lookup that is not remembered has found nothing.
    Nothing,
    /// The item that the lookup finds now.
    Search(LookupSearch<T>),
}

/// The outputs that one record needs.
pub(super) struct RecordLookups<'l> {
    placeholders: &'l [Vec<AttributeValue<'static>>],
    known: HashMap<LookupKey<'static>, LookupResult>,
}

/// The result of a lookup, as far as it is known.
enum LookupResult {
    /// Its outputs.
    Found(Arc<LookupOutputs>),
    /// It finds no item.
    Nothing,
    /// It was not read, or cannot be read.
    Unread,
}

impl<T: Tables> TraceLookups<T> {
    /// Reads remembered lookups from the state table, if one is set.
    #[must_use]
    pub fn new(model: &Model, remembered: Option<RememberedLookups<T>>) -> Self {
        let placeholder = |name: &Arc<str>| AttributeValue::text(format!("<{name}>"));
        let placeholders =
            model.lookups.iter().map(|lookup| lookup.outputs.iter().map(placeholder).collect());
        Self { placeholders: placeholders.collect(), remembered, search: LookupSource::Names }
    }

    /// Sets that the records have been counted: a lookup that is not remembered has found nothing.
    #[must_use]
    pub fn after_counting(self) -> Self {
        Self { search: LookupSource::Nothing, ..self }
    }

    /// Searches lookups that are not remembered. A lookup that cannot be searched is not known.
    #[must_use]
    pub fn searching(self, search: LookupSearch<T>) -> Self {
        Self { search: LookupSource::Search(search), ..self }
    }

    /// The outputs for these keys.
    ///
    /// # Errors
    /// As [`RememberedLookups::read`].
    pub(super) async fn read(&self, keys: Vec<LookupKey<'static>>) -> Result<RecordLookups<'_>> {
        let mut known = HashMap::new();
        let mut remembered = match self.remembered.as_ref().filter(|_| !keys.is_empty()) {
            Some(remembered) => remembered.read(&keys).await?.into_iter(),
            None => Vec::new().into_iter(),
        };
        for key in keys {
            let result = match remembered.next().flatten() {
                Some(outputs) => LookupResult::Found(outputs),
                None => self.search.result(&key).await,
            };
            known.insert(key, result);
        }
        Ok(RecordLookups { placeholders: &self.placeholders, known })
    }
}

impl<T: Tables> LookupSource<T> {
    async fn result(&self, key: &LookupKey<'static>) -> LookupResult {
        match self {
            Self::Names => LookupResult::Unread,
            Self::Nothing => LookupResult::Nothing,
            Self::Search(search) => match search.outputs(key).await {
                Ok(Some(outputs)) => LookupResult::Found(outputs),
                Ok(None) => LookupResult::Nothing,
                Err(_) => LookupResult::Unread,
            },
        }
    }
}

impl RecordLookups<'_> {
    /// The lookups whose outputs were not read, by name.
    pub(super) fn unread<'m>(&self, model: &'m Model) -> BTreeSet<&'m str> {
        let unread = self.known.iter().filter(|(_, result)| matches!(result, LookupResult::Unread));
        unread.filter_map(|(key, _)| Some(&*model.lookups.get(key.lookup)?.name)).collect()
    }

    fn result(&self, key: &LookupKey<'_>) -> Option<&LookupResult> {
        self.known.iter().find(|(known, _)| *known == key).map(|(_, result)| result)
    }
}

impl KnownLookups for RecordLookups<'_> {
    fn outputs(&self, key: &LookupKey<'_>) -> Option<&LookupOutputs> {
        match self.result(key)? {
            LookupResult::Found(outputs) => Some(outputs),
            LookupResult::Nothing => None,
            LookupResult::Unread => self.placeholders.get(key.lookup).map(Vec::as_slice),
        }
    }

    fn is_absent(&self, key: &LookupKey<'_>) -> bool {
        self.outputs(key).is_none()
    }
}
