//! A cache in memory, with the operations that readers and listeners need.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use afterwrite_model::projection::StaleKey;
use afterwrite_model::table::CacheRemedy;
use afterwrite_services::{Cache, GENERATION_LIFE, GENERATION_SUFFIX, InvalidatedKeys, TOMBSTONE};

/// A cache that never fails. Its values expire by the machine's clock; its clones share them.
#[derive(Clone, Debug, Default)]
pub struct MemoryCache(Arc<Mutex<CacheState>>);

#[derive(Debug, Default)]
struct CacheState {
    values: HashMap<String, CachedValue>,
    published: Vec<String>,
}

#[derive(Debug)]
struct CachedValue {
    text: String,
    expires: Option<Instant>,
}

impl MemoryCache {
    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<String> {
        self.lock().live(key).map(|value| value.text.clone())
    }

    /// How long a key's value still lives; `None` if there is no value, or if it does not expire.
    #[must_use]
    pub fn time_to_live(&self, key: &str) -> Option<Duration> {
        let expires = self.lock().live(key)?.expires?;
        Some(expires.saturating_duration_since(Instant::now()))
    }

    /// Stores a value, with a time to live or without one.
    pub fn set(&self, key: &str, value: &str, time_to_live: Option<Duration>) {
        self.lock().set(key, value, time_to_live);
    }

    /// Stores a value if the key has none (`SET … NX`); returns whether it was stored.
    pub fn set_if_absent(&self, key: &str, value: &str, time_to_live: Option<Duration>) -> bool {
        let mut state = self.lock();
        let is_absent = state.live(key).is_none();
        if is_absent {
            state.set(key, value, time_to_live);
        }
        is_absent
    }

    /// Removes a value, as an eviction does.
    pub fn remove(&self, key: &str) {
        self.lock().values.remove(key);
    }

    /// The keys with a value, in no order.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let state = self.lock();
        state.values.keys().filter(|key| state.live(key).is_some()).cloned().collect()
    }

    /// The keys that were published as invalidated, in order.
    #[must_use]
    pub fn published(&self) -> Vec<String> {
        self.lock().published.clone()
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheState {
    fn live(&self, key: &str) -> Option<&CachedValue> {
        let value = self.values.get(key)?;
        value.expires.is_none_or(|expires| Instant::now() < expires).then_some(value)
    }

    fn set(&mut self, key: &str, value: &str, time_to_live: Option<Duration>) {
        let expires = time_to_live.map(|time| Instant::now() + time);
        self.values.insert(key.to_owned(), CachedValue { text: value.to_owned(), expires });
    }

    fn invalidate(&mut self, stale: &StaleKey) {
        match stale.remedy {
            CacheRemedy::Delete => drop(self.values.remove(&stale.key)),
            CacheRemedy::Tombstone(time) => self.set(&stale.key, TOMBSTONE, Some(time)),
            CacheRemedy::Generation => {
                let name = format!("{}{GENERATION_SUFFIX}", stale.key);
                let generation = self.live(&name).map(|value| value.text.parse::<i64>());
                match generation.map(|number| number.ok().and_then(|number| number.checked_add(1))) {
                    Some(Some(next)) => self.set(&name, &next.to_string(), Some(GENERATION_LIFE)),
                    // Not a number that can grow.
                    Some(None) => drop(self.values.remove(&name)),
                    None => {}
                }
            }
        }
        self.published.push(stale.key.clone());
    }
}

impl Cache for MemoryCache {
    async fn invalidate(&self, keys: &[StaleKey], _limit: Duration) -> InvalidatedKeys {
        let mut state = self.lock();
        keys.iter().for_each(|stale| state.invalidate(stale));
        InvalidatedKeys { results: keys.iter().map(|_| Ok(())).collect(), commands: keys.len() as u64 }
    }
}
