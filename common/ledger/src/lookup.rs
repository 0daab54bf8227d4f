//! The lookup stage: resolves the lookups of a batch. The first outputs of a lookup are stored, and counting never changes them: only an
//! operator replaces them ([`RememberedLookups::replace`](super::RememberedLookups::replace)).
//!
//! In: the lookups that a batch needs. Out: their outputs, or why there are none, in [`LookupResults`].
//!
//! `C(image)` must not depend on when it is evaluated. But a global secondary index lags behind its table, and the item
//! that it returns, or that is read by its primary key, may be deleted or change later. So the first outputs are put into the state table with
//! `attribute_not_exists`; a writer that loses this race takes the winner's outputs. From then on every read returns
//! these.

use std::sync::{Arc, Mutex, PoisonError};

use afterwrite_model::clock::Clock;
use afterwrite_model::effect::{ItemKey, WriteRefusal};
use afterwrite_model::projection::{LookupKey, looked_up_item, shown_outputs};
use afterwrite_model::record::{AttributeValue, Item};
use afterwrite_model::{ErrorKind, Result};
use hashbrown::HashMap;

use super::core::LedgerCore;
use super::core::lookups::{LookupChoice, LookupKeyRef, LookupResults, OpenLookup};
use super::policy::{first_lookup, query_pause};
use super::requests::Requests;
use super::search::index_query;
use super::state::lookup::{RememberedLookup, SharedOutputs};
use crate::tables::{ReadItem, WriteError, misaligned_read};

/// The number of lookups that a process caches; then the cache is emptied.
const MAX_CACHED: usize = 100_000;

type OutputsByKey = HashMap<LookupKey<'static>, SharedOutputs>;

/// The outputs that this process has read. Counting never changes them. After an operator has replaced outputs, a process must start again to see
/// the new ones.
#[derive(Debug, Default)]
pub(crate) struct LookupCache(Mutex<OutputsByKey>);

impl LookupCache {
    fn get(&self, key: &LookupKey<'_>) -> Option<SharedOutputs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&LookupKeyRef(key)).cloned()
    }

    fn insert(&self, key: LookupKey<'static>, outputs: SharedOutputs) {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() >= MAX_CACHED {
            *cache = OutputsByKey::default();
        }
        cache.insert(key, outputs);
    }
}

/// One attempt at an open lookup.
#[derive(Debug)]
pub(crate) struct LookupAttempt {
    key: LookupKey<'static>,
    lookup: OpenLookup,
    /// `None` if there was no time for it in this round.
    result: Option<AttemptResult>,
}

/// The outputs of a lookup; `None` if nothing was found.
type AttemptResult = Result<Option<SharedOutputs>>;

/// Resolves the lookups of a batch.
pub(crate) struct LookupStage<'l> {
    pub(crate) core: &'l LedgerCore,
    pub(crate) cache: &'l LookupCache,
    pub(crate) requests: &'l Requests<'l>,
}

impl LookupStage<'_> {
    /// Adds a lookup to `results`, unless it is known. `offer` has the outputs, if a record of the batch shows them.
    pub(crate) fn require(
        &self,
        key: LookupKey<'_>,
        offer: Option<Vec<AttributeValue<'static>>>,
        results: &mut LookupResults,
    ) {
        results.require(key, offer, |key| self.cache.get(key));
    }

    /// Notes the cached outputs of a lookup. Returns whether anything is known of it, so that it need not be read.
    pub(crate) fn note_cached(&self, key: &LookupKey<'_>, results: &mut LookupResults) -> bool {
        if results.is_known(key) {
            return true;
        }
        let Some(outputs) = self.cache.get(key) else { return false };
        results.note_found(key.clone().into_owned(), outputs);
        true
    }

    /// Notes what was read of a lookup that items will probably need.
    pub(crate) fn note_read(
        &self,
        key: LookupKey<'static>,
        remembered: ReadItem,
        results: &mut LookupResults,
    ) {
        match remembered.map(|item| item.map(|item| self.required_outputs(&key, &item))) {
            Ok(None) => results.note_unremembered(key),
            Ok(Some(Ok(outputs))) => self.note_found(key, outputs, results),
            Ok(Some(Err(error))) => results.fail(key, error),
            Err(unprocessed) => results.delay(key, OpenLookup::default(), unprocessed.into()),
        }
    }

    fn note_found(&self, key: LookupKey<'static>, outputs: SharedOutputs, results: &mut LookupResults) {
        self.cache.insert(key.clone(), Arc::clone(&outputs));
        results.note_found(key, outputs);
    }

    /// Tries open lookups once. A lookup that finds nothing stays open, until it has been tried often enough.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] only. Other errors are results of their lookups.
    pub(crate) async fn resolve(&self, choice: LookupChoice, results: &mut LookupResults) -> Result<()> {
        let attempts = self.attempt_all(results.take(choice)).await;
        self.note_attempts(attempts, results)
    }

    /// Tries open lookups once: remembered, offered, by primary key or in the index. After a time limit no further attempt is begun, because items
    /// without lookups wait for all attempts.
    pub(crate) async fn attempt_all(
        &self,
        mut open: Vec<(LookupKey<'static>, OpenLookup)>,
    ) -> Vec<LookupAttempt> {
        if open.is_empty() {
            return Vec::new();
        }
        self.order(&mut open);
        let mut remembered = match self.read_remembered(&open).await {
            Ok(remembered) => remembered.into_iter(),
            Err(error) => {
                let failed = |(key, lookup)| {
                    let result = Some(Err(error.restated()));
                    LookupAttempt { key, lookup, result }
                };
                return open.into_iter().map(failed).collect();
            }
        };
        let mut read = move |lookup: &OpenLookup| {
            if lookup.is_unremembered {
                return Ok(None);
            }
            remembered.next().unwrap_or_else(|| Err(misaligned_read().into()))
        };
        let (mut attempts, mut searched) = (Vec::with_capacity(open.len()), Vec::with_capacity(open.len()));
        for (key, lookup) in open {
            let result = match read(&lookup) {
                Ok(None) => {
                    searched.push((key, lookup));
                    continue;
                }
                Ok(Some(item)) => self.required_outputs(&key, &item).map(Some),
                Err(unprocessed) => Err(unprocessed.into()),
            };
            attempts.push(LookupAttempt { key, lookup, result: Some(result) });
        }
        let looked_up = self.read_by_key(&searched).await;
        let searches = searched.iter().zip(looked_up);
        let searches = searches.map(|((key, lookup), found)| self.attempt(key, lookup, found));
        let results = self.requests.send_some(searches).await;
        let searched = searched.into_iter().zip(results);
        attempts.extend(searched.map(|((key, lookup), result)| LookupAttempt { key, lookup, result }));
        attempts
    }

    /// Orders lookups: by the number of attempts, then by the position of their records in the batch, so that a batch advances. If there may not be
    /// time for all, every second order begins at a random lookup, because the same lookups may hang, or find nothing, at each delivery.
    fn order(&self, open: &mut [(LookupKey<'static>, OpenLookup)]) {
        open.rotate_left(first_lookup(open.len(), || self.requests.clock.permille()));
        open.sort_by_key(|(_, lookup)| lookup.attempts);
    }

    /// The remembered items of those open lookups that may be remembered.
    async fn read_remembered(&self, open: &[(LookupKey<'static>, OpenLookup)]) -> Result<Vec<ReadItem>> {
        let unread = open.iter().filter(|(_, lookup)| !lookup.is_unremembered);
        let LedgerCore { keys, model, .. } = self.core;
        let keys: Vec<_> =
            unread.map(|(key, _)| RememberedLookup::key(keys, model, key)).collect::<Result<_>>()?;
        Ok(self.requests.read(&keys).await?.items)
    }

    /// Notes the results of attempts.
    ///
    /// # Errors
    /// As [`Self::resolve`].
    pub(crate) fn note_attempts(
        &self,
        attempts: Vec<LookupAttempt>,
        results: &mut LookupResults,
    ) -> Result<()> {
        for LookupAttempt { key, lookup, result } in attempts {
            match result {
                None => results.postpone(key, lookup),
                Some(Ok(Some(outputs))) => self.note_found(key, outputs, results),
                Some(Ok(None)) => results.miss(key, lookup),
                Some(Err(error)) if error.kind() == ErrorKind::Configuration => return Err(error),
                Some(Err(error)) if error.is_retryable() => results.delay(key, lookup, error),
                Some(Err(error)) => results.fail(key, error),
            }
        }
        Ok(())
    }

    /// Waits before another attempt at a refused write or an open lookup; returns `false` if there is no time. An index
    /// needs longer than a conflict.
    pub(crate) async fn wait(&self, results: &LookupResults, attempt: u32) -> bool {
        match query_pause(results.most_queries()) {
            Some(pause) => self.requests.pause(pause).await,
            None => self.requests.wait(attempt).await,
        }
    }

    /// For each open lookup, the item that is read by its primary key, strongly consistent; `None` for a lookup that an offer or an index resolves.
    async fn read_by_key(&self, open: &[(LookupKey<'static>, OpenLookup)]) -> Vec<Result<Option<Item>>> {
        let key = |(key, lookup): &(LookupKey<'static>, OpenLookup)| {
            if lookup.offer.is_some() { None } else { self.primary_key(key) }
        };
        let keys: Vec<Option<ItemKey>> = open.iter().map(key).collect();
        let wanted: Vec<ItemKey> = keys.iter().flatten().cloned().collect();
        let mut items = match self.requests.read_looked_up(&wanted).await {
            Ok(items) => Ok(items.into_iter()),
            Err(error) => Err(error),
        };
        let item = |key: Option<ItemKey>| match (key, &mut items) {
            (None, _) => Ok(None),
            (Some(_), Ok(items)) => Ok(items.next().ok_or_else(misaligned_read)??),
            (Some(_), Err(error)) => Err(error.restated()),
        };
        keys.into_iter().map(item).collect()
    }

    /// The primary key of the item that a lookup finds; `None` if an index finds it, or no item of its table has such a key.
    fn primary_key(&self, key: &LookupKey<'_>) -> Option<ItemKey> {
        self.core.item_key(&looked_up_item(&self.core.model, key)?)
    }

    /// The offered outputs, else those of the item that was read, else those of the index, after they were stored.
    async fn attempt(
        &self,
        key: &LookupKey<'static>,
        lookup: &OpenLookup,
        looked_up: Result<Option<Item>>,
    ) -> AttemptResult {
        let outputs = match &lookup.offer {
            Some(outputs) => Some(outputs.clone()),
            None => match looked_up? {
                Some(item) => shown_outputs(&self.core.model, key, &item),
                None => self.query_index(key).await?,
            },
        };
        match outputs {
            Some(outputs) => self.store_outputs(key, outputs).await.map(Some),
            None => Ok(None),
        }
    }

    async fn query_index(&self, key: &LookupKey<'static>) -> Result<Option<Vec<AttributeValue<'static>>>> {
        let mut next = index_query(&self.core.model, &self.core.table_names, key);
        while let Some(query) = next {
            let page = self.requests.query_index(&query).await?;
            let shown = |item: &Item| shown_outputs(&self.core.model, key, item);
            if let Some(outputs) = page.items.iter().find_map(shown) {
                return Ok(Some(outputs));
            }
            next = page.next;
        }
        Ok(None)
    }

    async fn store_outputs(
        &self,
        key: &LookupKey<'static>,
        outputs: Vec<AttributeValue<'static>>,
    ) -> Result<SharedOutputs> {
        let write = RememberedLookup::write(&self.core.keys, &self.core.model, key, &outputs)?;
        match self.requests.write(&write).await {
            Ok(()) => Ok(outputs.into()),
            Err(WriteError::Refused(WriteRefusal::Condition(Some(winner)))) => {
                self.required_outputs(key, &winner)
            }
            Err(error) => Err(self.requests.write_error(&write, error)),
        }
    }

    fn required_outputs(&self, key: &LookupKey<'_>, item: &Item) -> Result<SharedOutputs> {
        RememberedLookup::outputs(&self.core.model, key, item)
    }
}
