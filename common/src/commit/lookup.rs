//! Remembered lookups: the first outputs of a lookup are stored and never change.
//!
//! In: the lookup keys that a batch needs ([`PendingLookups`]). Out: their outputs, or why there are none
//! ([`LookupResults`]).
//!
//! `C(image)` must not depend on when it is evaluated. But a global secondary index lags behind its table, and the item
//! that it returns may be deleted or change later. So the first outputs are put into the state table with
//! `attribute_not_exists`; a writer that loses this race takes the winner's outputs. From then on every read returns
//! these.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::stream::{StreamExt as _, iter};
use hashbrown::{Equivalent, HashMap};

use super::keys::StateKeys;
use super::requests::CONCURRENCY;
use super::{InvocationContext, Ledger, keys};
use crate::clock::Clock;
use crate::effect::{KeyAttribute, Write, WriteAction, WriteCondition, WriteRefusal};
use crate::entity::SourceKey;
use crate::projection::{KnownLookups, LookupKey, LookupOutputs, offered_outputs};
use crate::record::{AttributeValue, Image, Item};
use crate::sink::{IndexQuery, Tables, WriteError};
use crate::table::{Model, Template};
use crate::{Error, ErrorKind, Result};

/// The attribute of a remembered lookup that holds its outputs, by name.
const OUTPUTS: &str = "gives";
/// How often an index is queried before the record fails. GSIs usually lag by less than a second.
const MAX_INDEX_QUERIES: u32 = 3;
/// The items of one page of an index. Nearly always the first item has the outputs.
const INDEX_PAGE_ITEMS: u16 = 25;
/// The pause after the first index query; it grows by as much after each further one.
const INDEX_PAUSE: Duration = Duration::from_millis(100);
/// The number of lookups that a process caches; then the cache is emptied.
const MAX_CACHED: usize = 100_000;

type SharedOutputs = Arc<LookupOutputs>;
type OutputsByKey = HashMap<LookupKey<'static>, SharedOutputs>;

/// A borrowed [`LookupKey`], to search maps without a copy of the key.
#[derive(Hash)]
pub(super) struct LookupKeyRef<'q>(pub(super) &'q LookupKey<'q>);

impl Equivalent<LookupKey<'static>> for LookupKeyRef<'_> {
    fn equivalent(&self, known: &LookupKey<'static>) -> bool {
        self.0 == known
    }
}

/// The outputs that this process has read. They never change, so the cache is never stale.
#[derive(Debug, Default)]
pub(super) struct LookupCache(Mutex<OutputsByKey>);

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

/// The results of the lookups that a batch needs.
///
/// A lookup without outputs has an error, or none if the index has no item. It is not repeated within an invocation.
#[derive(Debug, Default)]
pub(super) struct LookupResults(HashMap<LookupKey<'static>, Result<SharedOutputs, Option<Error>>>);

impl KnownLookups for LookupResults {
    fn outputs(&self, key: &LookupKey<'_>) -> Option<&LookupOutputs> {
        self.0.get(&LookupKeyRef(key))?.as_deref().ok()
    }

    fn failure(&self, key: &LookupKey<'_>) -> Option<Error> {
        self.0.get(&LookupKeyRef(key))?.as_ref().err()?.as_ref().map(Error::restated)
    }
}

/// Lookups that failed with a retryable error: the next round repeats them.
pub(super) type DelayedLookups = HashMap<LookupKey<'static>, Error>;

/// The lookups that a batch needs and this process has not cached, each with the outputs that a record of the looked-up
/// item in the same batch offers, if there is one.
pub(super) type PendingLookups = BTreeMap<LookupKey<'static>, Option<Vec<AttributeValue<'static>>>>;

impl<T: Tables, C: Clock> Ledger<T, C> {
    /// Adds a lookup to `pending`, unless its result is known. `offer` has the outputs, if a record of the batch shows
    /// them.
    pub(super) fn add_pending_lookup(
        &self,
        key: LookupKey<'_>,
        offer: Option<Vec<AttributeValue<'static>>>,
        pending: &mut PendingLookups,
        lookups: &mut LookupResults,
    ) {
        if lookups.0.contains_key(&LookupKeyRef(&key)) {
            return;
        }
        let cached = self.lookups.get(&key);
        let key = key.into_owned();
        if let Some(outputs) = cached {
            lookups.0.insert(key, Ok(outputs));
            return;
        }
        let known_offer = pending.entry(key).or_default();
        if known_offer.is_none() {
            *known_offer = offer;
        }
    }

    /// Adds to `lookups` the outputs that are remembered, offered or found in an index. Records whose lookup has no
    /// outputs fail, and are redelivered. A retryable error does not block the other items of the batch: its lookup is
    /// returned as delayed.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`], or the error of reading the remembered lookups. The error of a single lookup is
    /// kept with it.
    pub(super) async fn resolve_lookups(
        &self,
        pending: PendingLookups,
        lookups: &mut LookupResults,
        invocation: &InvocationContext,
    ) -> Result<DelayedLookups> {
        let mut delayed = DelayedLookups::new();
        let mut open: Vec<_> = pending.into_iter().collect();
        if open.is_empty() {
            return Ok(delayed);
        }
        let keys: Vec<_> = open.iter().map(|(key, _)| self.keys.lookup(&self.model, key)).collect();
        let mut remembered = self.read(&keys, invocation).await?.items.into_iter();
        for attempt in 1..=MAX_INDEX_QUERIES {
            // Remembered items are consumed by the first attempt: a key that is still open afterwards is not remembered.
            let requests = open.into_iter().map(|(key, offer)| {
                let item = remembered.next().flatten();
                async move { (self.resolve_lookup(&key, offer, item, invocation).await, key) }
            });
            let results: Vec<_> = iter(requests).buffered(CONCURRENCY).collect().await;
            open = Vec::new();
            for (result, key) in results {
                match result {
                    Ok(Some(outputs)) => {
                        self.lookups.insert(key.clone(), Arc::clone(&outputs));
                        lookups.0.insert(key, Ok(outputs));
                    }
                    Ok(None) => open.push((key, None)),
                    Err(error) if error.kind() == ErrorKind::Configuration => return Err(error),
                    Err(error) if error.is_retryable() => {
                        delayed.insert(key, error);
                    }
                    Err(error) => {
                        lookups.0.insert(key, Err(Some(error)));
                    }
                }
            }
            let pause = INDEX_PAUSE * attempt;
            let is_last = attempt == MAX_INDEX_QUERIES || self.clock.now().plus(pause) >= invocation.deadline;
            if open.is_empty() || is_last {
                break;
            }
            self.clock.sleep(pause).await;
        }
        lookups.0.extend(open.into_iter().map(|(key, _)| (key, Err(None))));
        Ok(delayed)
    }

    /// The remembered outputs, else the offered ones, else those of the index. Outputs that are not remembered yet are
    /// stored.
    async fn resolve_lookup(
        &self,
        key: &LookupKey<'static>,
        offer: Option<Vec<AttributeValue<'static>>>,
        remembered: Option<Item>,
        invocation: &InvocationContext,
    ) -> Result<Option<SharedOutputs>> {
        if let Some(item) = remembered {
            return self.required_outputs(key, &item).map(Some);
        }
        let outputs = match offer {
            Some(outputs) => Some(outputs),
            None => self.query_index(key).await?,
        };
        match outputs {
            Some(outputs) => self.store_outputs(key, outputs, invocation).await.map(Some),
            None => Ok(None),
        }
    }

    async fn query_index(&self, key: &LookupKey<'static>) -> Result<Option<Vec<AttributeValue<'static>>>> {
        let mut next = self.index_query(key);
        while let Some(query) = next {
            let page = self.tables.query_index(&query).await?;
            if let Some(outputs) = page.items.iter().find_map(|item| self.outputs_of_item(key, item)) {
                return Ok(Some(outputs));
            }
            next = page.next;
        }
        Ok(None)
    }

    fn index_query(&self, key: &LookupKey<'static>) -> Option<IndexQuery> {
        let lookup = self.model.lookups.get(key.lookup)?;
        let table = self.model.entities.get(lookup.of)?.table;
        let inputs = key.values(lookup.inputs.len());
        let attribute = |(name, template): &(Arc<str>, Template)| KeyAttribute {
            name: Arc::clone(name),
            value: template.render(&inputs).into(),
        };
        Some(IndexQuery {
            table: Arc::clone(self.table_names.get(table)?),
            index: Arc::clone(&lookup.index),
            partition: attribute(&lookup.partition),
            sort: lookup.sort.as_ref().map(attribute),
            page_items: INDEX_PAGE_ITEMS,
            start_after: None,
        })
    }

    /// The outputs of an item that the index returned, if it is of the looked-up entity and has this lookup key.
    fn outputs_of_item(&self, key: &LookupKey<'_>, item: &Item) -> Option<Vec<AttributeValue<'static>>> {
        let of = self.model.lookups.get(key.lookup)?.of;
        let source = SourceKey::of_item(&self.model, self.model.entities.get(of)?.table, item)?;
        let identity = source.identify(&self.model)?;
        let image = Image::from_item(item, &self.model.attributes);
        let offers = offered_outputs(&self.model, &identity, &image);
        offers.into_iter().find(|(offered, _)| offered == key).map(|(_, outputs)| outputs)
    }

    async fn store_outputs(
        &self,
        key: &LookupKey<'static>,
        outputs: Vec<AttributeValue<'static>>,
        invocation: &InvocationContext,
    ) -> Result<SharedOutputs> {
        let names = self.model.lookups.get(key.lookup).map_or(&[][..], |lookup| &lookup.outputs);
        let by_name = names.iter().map(|name| Cow::Owned(name.to_string())).zip(outputs.iter().cloned());
        let mut item = keys::item_of_type("LOOKUP");
        item.insert(Cow::Borrowed(OUTPUTS), AttributeValue::M(by_name.collect()));
        let write = Write {
            key: self.keys.lookup(&self.model, key),
            condition: WriteCondition::ItemAbsent,
            action: WriteAction::Put(item),
        };
        match self.write_retrying(&write, invocation).await {
            Ok(()) => Ok(outputs.into()),
            Err(WriteError::Refused(WriteRefusal::Condition(Some(winner)))) => {
                self.required_outputs(key, &winner)
            }
            Err(error) => Err(self.write_error(&write, error)),
        }
    }

    fn required_outputs(&self, key: &LookupKey<'_>, item: &Item) -> Result<SharedOutputs> {
        remembered_outputs(&self.model, key, item).ok_or_else(|| {
            let name = self.model.lookups.get(key.lookup).map_or("?", |lookup| &lookup.name);
            Error::new(ErrorKind::State, "a remembered lookup lacks an output that the model declares")
                .with("lookup", name)
                .hint("Give the lookup a new name when you change its `gives`")
        })
    }
}

/// The outputs of a remembered lookup; `None` if an output that the model declares is missing.
fn remembered_outputs(model: &Model, key: &LookupKey<'_>, item: &Item) -> Option<SharedOutputs> {
    let AttributeValue::M(by_name) = item.get(OUTPUTS)? else { return None };
    let lookup = model.lookups.get(key.lookup)?;
    let outputs = lookup.outputs.iter().map(|name| by_name.get(name.as_ref()).cloned());
    outputs.collect::<Option<Vec<_>>>().map(Into::into)
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
