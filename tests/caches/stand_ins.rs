//! Targets of the relay with failures that the test switches on and off.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use afterwrite_functions::StreamRelay;
use afterwrite_memory::{MemoryCache, MemoryObjects, MemoryQueue, MemoryStream};
use afterwrite_model::clock::Clock;
use afterwrite_model::projection::StaleKey;
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind};
use afterwrite_relay::archive::ChangeArchiver;
use afterwrite_relay::invalidate::CacheInvalidator;
use afterwrite_services::{
    Cache, DeliveryStream, Distribution, DistributionError, InvalidatedKeys, PathQueue, PathTarget,
};

use super::cloudfront::SharedClock;
use super::relay_failures::tables;

/// A relay with targets that can fail.
pub(crate) type FlakyRelay =
    StreamRelay<FlakyCache, FlakyCdn, Arc<FlakyQueue>, Arc<FlakyStream>, MemoryObjects, SharedClock>;

fn unavailable() -> Error {
    Error::new(ErrorKind::Unavailable, "injected")
}

/// A cache that can be down, for all keys or for one. It notes when each key was removed.
#[derive(Clone)]
pub(crate) struct FlakyCache {
    pub(crate) inner: MemoryCache,
    down: Arc<Mutex<Option<String>>>,
    clock: SharedClock,
    /// By key: when it was invalidated, each time.
    removed: Arc<Mutex<BTreeMap<String, Vec<Timestamp>>>>,
}

impl FlakyCache {
    pub(crate) fn new(clock: SharedClock) -> Self {
        Self { inner: MemoryCache::default(), down: Arc::default(), clock, removed: Arc::default() }
    }

    /// Fails the keys that begin with this text; all keys if it is empty.
    pub(crate) fn fail(&self, prefix: &str) {
        *self.down.lock().unwrap() = Some(prefix.to_owned());
    }

    pub(crate) fn recover(&self) {
        *self.down.lock().unwrap() = None;
    }

    pub(crate) fn removed(&self) -> BTreeMap<String, Vec<Timestamp>> {
        self.removed.lock().unwrap().clone()
    }
}

impl Cache for FlakyCache {
    async fn invalidate(&self, keys: &[StaleKey], limit: Duration) -> InvalidatedKeys {
        let down = self.down.lock().unwrap().clone();
        let fails = |stale: &StaleKey| down.as_ref().is_some_and(|prefix| stale.key.starts_with(prefix));
        let (failed, taken): (Vec<StaleKey>, Vec<StaleKey>) = keys.iter().cloned().partition(fails);
        self.inner.invalidate(&taken, limit).await;
        for stale in taken {
            self.removed.lock().unwrap().entry(stale.key).or_default().push(self.clock.now());
        }
        let result = |stale: &StaleKey| if failed.contains(stale) { Err(unavailable()) } else { Ok(()) };
        InvalidatedKeys { results: keys.iter().map(result).collect(), commands: 1 }
    }
}

/// A distribution that is busy for some time, and that refills each invalidated path from the cache, as an application does.
pub(crate) struct FlakyCdn {
    pub(crate) busy: Range<Timestamp>,
    pub(crate) cache: MemoryCache,
    pub(crate) clock: SharedClock,
    pub(crate) state: Arc<Mutex<CdnState>>,
}

#[derive(Default)]
pub(crate) struct CdnState {
    /// By path: the key of the cache that the application reads for it.
    pub(crate) sources: BTreeMap<String, String>,
    /// By path: the content that the distribution serves.
    pub(crate) contents: BTreeMap<String, String>,
    /// The accepted requests: references and paths.
    pub(crate) requests: Vec<(String, Vec<String>)>,
}

impl Distribution for FlakyCdn {
    async fn invalidate(
        &self,
        paths: &[String],
        reference: &str,
        _: Duration,
    ) -> Result<(), DistributionError> {
        if self.busy.contains(&self.clock.now()) {
            return Err(DistributionError::Busy(unavailable()));
        }
        let mut state = self.state.lock().unwrap();
        let is_repeated = state.requests.iter().any(|(earlier, _)| earlier == reference);
        state.requests.push((reference.to_owned(), paths.to_vec()));
        if !is_repeated {
            for path in paths {
                let Some(source) = state.sources.get(path) else { continue };
                let content = self.cache.get(source).unwrap_or_else(|| "from the table".to_owned());
                state.contents.insert(path.clone(), content);
            }
        }
        Ok(())
    }
}

/// A queue that can be down.
#[derive(Default)]
pub(crate) struct FlakyQueue {
    pub(crate) inner: MemoryQueue,
    pub(crate) is_down: AtomicBool,
}

impl PathQueue for FlakyQueue {
    async fn send_batch(
        &self,
        messages: &[String],
        limit: Duration,
    ) -> Result<Vec<Result<(), Error>>, Error> {
        if self.is_down.load(Ordering::Relaxed) {
            return Err(unavailable());
        }
        self.inner.send_batch(messages, limit).await
    }
}

/// A delivery stream that can be down.
#[derive(Default)]
pub(crate) struct FlakyStream {
    pub(crate) inner: MemoryStream,
    pub(crate) is_down: AtomicBool,
}

impl DeliveryStream for FlakyStream {
    async fn put_batch(&self, records: &[&[u8]]) -> Result<Vec<Result<(), Error>>, Error> {
        if self.is_down.load(Ordering::Relaxed) {
            return Err(unavailable());
        }
        self.inner.put_batch(records).await
    }
}

/// A relay with everything around it.
pub(crate) struct RelaySetup {
    pub(crate) relay: FlakyRelay,
    pub(crate) cache: FlakyCache,
    pub(crate) cdn: Arc<Mutex<CdnState>>,
    pub(crate) queue: Arc<FlakyQueue>,
    pub(crate) stream: Arc<FlakyStream>,
    pub(crate) clock: SharedClock,
}

/// Where the relay sends paths.
#[derive(Clone, Debug)]
pub(crate) enum TestedTarget {
    Nowhere,
    Queue,
    /// A distribution that is busy for this time.
    Cdn(Range<Timestamp>),
}

impl RelaySetup {
    pub(crate) fn new(model: &Arc<Model>, target: TestedTarget, clock: SharedClock) -> Self {
        let (cache, cdn) = (FlakyCache::new(clock.clone()), Arc::new(Mutex::new(CdnState::default())));
        let (queue, stream) = (Arc::<FlakyQueue>::default(), Arc::<FlakyStream>::default());
        let paths = match target {
            TestedTarget::Nowhere => None,
            TestedTarget::Queue => Some(PathTarget::Queue(Arc::clone(&queue))),
            TestedTarget::Cdn(busy) => Some(PathTarget::Distribution(FlakyCdn {
                busy,
                cache: cache.inner.clone(),
                clock: clock.clone(),
                state: Arc::clone(&cdn),
            })),
        };
        let invalidator = CacheInvalidator::new(Some(cache.clone()), paths, clock.clone());
        let archiver = ChangeArchiver::new(Arc::clone(&stream), MemoryObjects::default(), clock.clone());
        let relay = StreamRelay::new(tables(model), Some(invalidator), Some(archiver), clock.clone());
        Self { relay, cache, cdn, queue, stream, clock }
    }

    /// The paths of all accepted invalidations, with repetitions.
    pub(crate) fn cdn_paths(&self) -> Vec<String> {
        self.cdn.lock().unwrap().requests.iter().flat_map(|(_, paths)| paths.clone()).collect()
    }

    /// The number of lines in the archive.
    pub(crate) fn lines(&self) -> usize {
        self.stream.inner.contents().iter().filter(|byte| **byte == b'\n').count()
    }

    /// How often each key was removed at most.
    pub(crate) fn most_removals_of_a_key(&self) -> usize {
        self.cache.removed().values().map(Vec::len).max().unwrap_or_default()
    }
}
