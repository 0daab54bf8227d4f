//! The contract of `Cache`: what is gone, what stays, what readers see, what listeners receive. The races are run with real readers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use afterwrite_memory::MemoryCache;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::projection::StaleKey;
use afterwrite_model::table::CacheRemedy;
use afterwrite_services::redis::{CacheTopology, RedisCache};
use afterwrite_services::{Cache, GENERATION_LIFE, GENERATION_SUFFIX, INVALIDATION_CHANNEL, TOMBSTONE};
use afterwrite_tests::random::SeededRandom;
use afterwrite_tests::redis_server::{RedisCluster, RedisServer};
use futures::StreamExt as _;
use redis::FromRedisValue;

const TOMBSTONE_TIME: Duration = Duration::from_millis(400);
const RACES: u64 = 150;
/// More keys than a pipeline, an `UNLINK` or a published message can have.
const MANY_KEYS: usize = 2_300;

/// A cache with what the application does with it.
trait CacheUnderTest {
    /// The keys that one listener received.
    type Listener;

    async fn invalidate(&self, keys: &[StaleKey]) -> Vec<afterwrite_model::Result<()>>;
    async fn get(&self, key: &str) -> Option<String>;
    /// Stores a value that lives for a minute.
    async fn set(&self, key: &str, value: &str);
    /// Stores a value that lives for a minute, if the key has none.
    async fn set_if_absent(&self, key: &str, value: &str);
    /// Evicts a key.
    async fn evict(&self, key: &str);
    async fn keys(&self) -> BTreeSet<String>;
    /// How long a key still lives; `None` if it does not exist, or does not expire.
    async fn time_to_live(&self, key: &str) -> Option<Duration>;
    /// Subscribes to the channel, on every node.
    async fn listen(&self) -> Vec<Self::Listener>;
    /// The next keys that a listener receives, in order, at least `count`.
    async fn received(&self, listener: Self::Listener, count: usize) -> Vec<String>;
}

async fn suite(cache: &impl CacheUnderTest) {
    // The first rule: a cluster forwards messages with a delay, and those of earlier rules would be received here.
    every_listener_receives_the_invalidated_keys(cache).await;
    exactly_the_given_keys_are_deleted(cache).await;
    missing_keys_and_repetitions_are_harmless(cache).await;
    many_keys_each_have_a_result(cache).await;
    a_tombstone_forbids_storing_and_expires(cache).await;
    a_generation_never_returns_to_an_earlier_number(cache).await;
    a_generation_is_not_created_for_what_nobody_cached(cache).await;
    an_invalidation_renews_the_life_of_a_generation(cache).await;
    a_generation_that_is_not_a_number_is_deleted(cache).await;
    a_delete_leaves_the_race_open(cache).await;
    a_tombstone_closes_the_race_for_its_time(cache).await;
    a_generation_closes_the_race_for_any_reader(cache).await;
}

#[tokio::test]
async fn memory() {
    suite(&MemoryCache::default()).await;
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn redis_node() {
    let cache = RedisUnderTest::node().await;
    suite(&cache).await;
    a_generation_of_another_type_is_deleted(&cache).await;
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn redis_cluster() {
    let cache = RedisUnderTest::cluster().await;
    let mut homes = BTreeSet::new();
    for stale in many_keys().iter().step_by(50) {
        homes.insert(cache.home(&stale.key).await);
    }
    assert_eq!(homes.len(), cache.servers.len(), "every master has some of the keys");
    suite(&cache).await;
    a_generation_of_another_type_is_deleted(&cache).await;
}

fn stale(key: impl Into<String>, remedy: CacheRemedy) -> StaleKey {
    StaleKey { key: key.into(), remedy, records: vec![0], rule: 0 }
}

async fn invalidate(cache: &impl CacheUnderTest, key: &str, remedy: CacheRemedy) {
    let results = cache.invalidate(&[stale(key, remedy)]).await;
    assert!(results.len() == 1 && results[0].is_ok(), "{results:?}");
}

/// Keys are data: no character in them has a meaning.
async fn exactly_the_given_keys_are_deleted(cache: &impl CacheUnderTest) {
    let long = "ü".repeat(2_000);
    for id in ["*", "a b", "x\r\nFLUSHALL\r\n", "試験", "\u{1}\u{7f}", "%2A", "[a-z]?", &long] {
        let (key, other) = (format!("question:{id}"), format!("question:{id}x"));
        let others: BTreeSet<String> = [other, "question:abc".to_owned()].into();
        for key in others.iter().chain([&key]) {
            cache.set(key, "cached").await;
        }
        invalidate(cache, &key, CacheRemedy::Delete).await;
        assert_eq!(cache.keys().await, others, "{key:?}");
        for key in &others {
            cache.evict(key).await;
        }
    }
}

async fn missing_keys_and_repetitions_are_harmless(cache: &impl CacheUnderTest) {
    cache.set("repeated", "cached").await;
    for _ in 0..2 {
        let keys = [stale("missing", CacheRemedy::Delete), stale("repeated", CacheRemedy::Delete)];
        assert!(cache.invalidate(&keys).await.iter().all(Result::is_ok));
        assert_eq!(cache.keys().await, BTreeSet::new());
    }
    assert!(cache.invalidate(&[]).await.is_empty());
}

fn many_keys() -> Vec<StaleKey> {
    (0..MANY_KEYS).map(|number| stale(format!("many:{number}"), CacheRemedy::Delete)).collect()
}

async fn many_keys_each_have_a_result(cache: &impl CacheUnderTest) {
    let keys = many_keys();
    for stale in keys.iter().step_by(50) {
        cache.set(&stale.key, "cached").await;
    }
    cache.set("unrelated", "cached").await;
    let results = cache.invalidate(&keys).await;
    assert_eq!(results.len(), keys.len());
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!(cache.keys().await, ["unrelated".to_owned()].into());
    cache.evict("unrelated").await;
}

async fn a_tombstone_forbids_storing_and_expires(cache: &impl CacheUnderTest) {
    cache.set("tombstone", "1").await;
    invalidate(cache, "tombstone", CacheRemedy::Tombstone(TOMBSTONE_TIME)).await;
    assert_eq!(cache.get("tombstone").await.as_deref(), Some(TOMBSTONE));
    cache.set_if_absent("tombstone", "1").await;
    assert_eq!(cache.get("tombstone").await.as_deref(), Some(TOMBSTONE));
    tokio::time::sleep(TOMBSTONE_TIME + Duration::from_millis(50)).await;
    assert_eq!(cache.get("tombstone").await, None, "it expires although nobody does anything more");
    cache.set_if_absent("tombstone", "2").await;
    assert_eq!(cache.get("tombstone").await.as_deref(), Some("2"));
    cache.evict("tombstone").await;
}

fn generation_of(key: &str) -> String {
    format!("{key}{GENERATION_SUFFIX}")
}

/// The generation that a reader uses: the one that exists, or a fresh one that it creates.
async fn reader_generation(cache: &impl CacheUnderTest, key: &str) -> String {
    let name = generation_of(key);
    loop {
        if let Some(generation) = cache.get(&name).await {
            return generation;
        }
        cache.set_if_absent(&name, &SystemClock.now().epoch_ms().to_string()).await;
    }
}

async fn a_generation_never_returns_to_an_earlier_number(cache: &impl CacheUnderTest) {
    let mut generations: Vec<u64> = Vec::new();
    for is_evicted in [false, true, true, false, true] {
        generations.push(reader_generation(cache, "list").await.parse().unwrap());
        invalidate(cache, "list", CacheRemedy::Generation).await;
        generations.push(reader_generation(cache, "list").await.parse().unwrap());
        if is_evicted {
            cache.evict(&generation_of("list")).await;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    generations.dedup();
    assert!(generations.len() >= 8, "{generations:?}");
    assert!(generations.is_sorted_by(|before, after| before < after), "{generations:?}");
}

async fn a_generation_is_not_created_for_what_nobody_cached(cache: &impl CacheUnderTest) {
    let before = cache.keys().await;
    for _ in 0..2 {
        invalidate(cache, "nobody's list", CacheRemedy::Generation).await;
    }
    assert_eq!(cache.keys().await, before);
}

async fn an_invalidation_renews_the_life_of_a_generation(cache: &impl CacheUnderTest) {
    let name = generation_of("renewed");
    // For a minute.
    cache.set(&name, "1770000000000").await;
    invalidate(cache, "renewed", CacheRemedy::Generation).await;
    assert_eq!(cache.get(&name).await.as_deref(), Some("1770000000001"));
    let left = cache.time_to_live(&name).await.unwrap();
    assert!(left <= GENERATION_LIFE && left > GENERATION_LIFE - Duration::from_secs(60), "{left:?}");
    cache.evict(&name).await;
}

/// Such a value is deleted, and the next reader creates a fresh number: nobody reads what was stored under it.
async fn a_generation_that_is_not_a_number_is_deleted(cache: &impl CacheUnderTest) {
    let largest = i64::MAX.to_string();
    for foreign in ["", "first", "1.5", " 7", "99999999999999999999", &largest] {
        let name = generation_of("foreign");
        cache.set(&name, foreign).await;
        invalidate(cache, "foreign", CacheRemedy::Generation).await;
        assert_eq!(cache.get(&name).await, None, "{foreign:?}");
    }
}

/// A cache in memory holds only strings.
async fn a_generation_of_another_type_is_deleted(cache: &RedisUnderTest) {
    for foreign in [["LPUSH", "value"].as_slice(), &["HSET", "field", "value"], &["SADD", "value"]] {
        let name = generation_of("typed");
        let (command, value) = foreign.split_first().unwrap();
        cache.run::<()>(&name, &[&[*command, &*name], value].concat()).await;
        invalidate(cache, "typed", CacheRemedy::Generation).await;
        assert_eq!(cache.run::<u64>(&name, &["EXISTS", &name]).await, 0, "{command}");
    }
}

async fn every_listener_receives_the_invalidated_keys(cache: &impl CacheUnderTest) {
    let listeners = cache.listen().await;
    let mut keys = many_keys();
    keys.push(stale("quoted \"\\\u{1}", CacheRemedy::Delete));
    keys.push(stale("tombstone:2", CacheRemedy::Tombstone(Duration::from_millis(1))));
    keys.push(stale("list:2", CacheRemedy::Generation));
    assert!(cache.invalidate(&keys).await.iter().all(Result::is_ok));
    let expected: Vec<&str> = keys.iter().map(|stale| stale.key.as_str()).collect();
    for listener in listeners {
        assert_eq!(cache.received(listener, keys.len()).await, expected);
    }
    for key in ["tombstone:2", &format!("list:2{GENERATION_SUFFIX}")] {
        cache.evict(key).await;
    }
}

/// Where a reader finds and stores a value by the remedy's protocol: the key itself, or a key of its generation.
async fn storage_key(cache: &impl CacheUnderTest, key: &str, remedy: CacheRemedy) -> String {
    match remedy {
        CacheRemedy::Delete | CacheRemedy::Tombstone(_) => key.to_owned(),
        CacheRemedy::Generation => format!("{key}:{}:page-1", reader_generation(cache, key).await),
    }
}

async fn store(cache: &impl CacheUnderTest, storage_key: &str, value: u64, remedy: CacheRemedy) {
    match remedy {
        CacheRemedy::Tombstone(_) => cache.set_if_absent(storage_key, &value.to_string()).await,
        CacheRemedy::Delete | CacheRemedy::Generation => cache.set(storage_key, &value.to_string()).await,
    }
}

/// Runs the stale-set race with these pauses: a reader reads the item, the item changes and is invalidated, the reader stores what it
/// read. Returns whether a later reader gets the old value.
async fn is_stale(
    cache: &impl CacheUnderTest,
    key: &str,
    remedy: CacheRemedy,
    reader_pause_ms: u64,
    writer_pause_ms: u64,
) -> bool {
    let item = Arc::new(AtomicU64::new(1));
    let reader = async {
        let storage_key = storage_key(cache, key, remedy).await;
        let value = item.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(reader_pause_ms)).await;
        store(cache, &storage_key, value, remedy).await;
    };
    let writer = async {
        tokio::time::sleep(Duration::from_millis(writer_pause_ms)).await;
        item.store(2, Ordering::SeqCst);
        invalidate(cache, key, remedy).await;
    };
    tokio::join!(reader, writer);
    let storage_key = storage_key(cache, key, remedy).await;
    cache.get(&storage_key).await.as_deref() == Some("1")
}

/// The number of races with random pauses that leave a stale value.
async fn stale_races(cache: &impl CacheUnderTest, name: &str, remedy: CacheRemedy) -> usize {
    let mut random = SeededRandom::new(42);
    let mut stale = 0;
    for number in 0..RACES {
        let (reader, writer) = (random.below(12), random.below(12));
        stale += usize::from(is_stale(cache, &format!("{name}:{number}"), remedy, reader, writer).await);
    }
    stale
}

async fn a_delete_leaves_the_race_open(cache: &impl CacheUnderTest) {
    let stale = stale_races(cache, "delete", CacheRemedy::Delete).await;
    assert!(stale > 0, "no race left a stale value: no race happened");
}

async fn a_tombstone_closes_the_race_for_its_time(cache: &impl CacheUnderTest) {
    let remedy = CacheRemedy::Tombstone(TOMBSTONE_TIME);
    assert_eq!(stale_races(cache, "tombstone", remedy).await, 0);
    let short = CacheRemedy::Tombstone(Duration::from_millis(50));
    assert!(
        is_stale(cache, "slow", short, 200, 0).await,
        "a reader slower than the tombstone stores a stale value; otherwise the documentation can promise more"
    );
}

async fn a_generation_closes_the_race_for_any_reader(cache: &impl CacheUnderTest) {
    assert_eq!(stale_races(cache, "generation", CacheRemedy::Generation).await, 0);
    assert!(!is_stale(cache, "slow generation", CacheRemedy::Generation, 600, 0).await);
}

const TIME_TO_LIVE: Duration = Duration::from_secs(60);

impl CacheUnderTest for MemoryCache {
    type Listener = usize;

    async fn invalidate(&self, keys: &[StaleKey]) -> Vec<afterwrite_model::Result<()>> {
        Cache::invalidate(self, keys, Duration::from_secs(10)).await.results
    }

    async fn get(&self, key: &str) -> Option<String> {
        MemoryCache::get(self, key)
    }

    async fn set(&self, key: &str, value: &str) {
        MemoryCache::set(self, key, value, Some(TIME_TO_LIVE));
    }

    async fn set_if_absent(&self, key: &str, value: &str) {
        MemoryCache::set_if_absent(self, key, value, Some(TIME_TO_LIVE));
    }

    async fn evict(&self, key: &str) {
        self.remove(key);
    }

    async fn keys(&self) -> BTreeSet<String> {
        MemoryCache::keys(self).into_iter().collect()
    }

    async fn time_to_live(&self, key: &str) -> Option<Duration> {
        MemoryCache::time_to_live(self, key)
    }

    async fn listen(&self) -> Vec<usize> {
        vec![self.published().len()]
    }

    async fn received(&self, first: usize, _count: usize) -> Vec<String> {
        self.published().split_off(first)
    }
}

/// Redis, with a connection to every master for the application.
struct RedisUnderTest {
    cache: RedisCache,
    servers: Vec<RedisServer>,
}

impl RedisUnderTest {
    async fn node() -> Self {
        let server = RedisServer::start().await;
        let cache = RedisCache::new(&server.url(), CacheTopology::Single, None).unwrap();
        Self { cache, servers: vec![server] }
    }

    async fn cluster() -> Self {
        let cluster = RedisCluster::start().await;
        let cache = RedisCache::new(&cluster.url(), CacheTopology::Cluster, None).unwrap();
        Self { cache, servers: cluster.masters }
    }

    /// The index of the server that has a key.
    async fn home(&self, key: &str) -> usize {
        match self.servers.as_slice() {
            [_] => 0,
            masters => RedisCluster::home_among(masters, key).await,
        }
    }

    /// Runs a command on the server that has a key.
    async fn run<T: FromRedisValue>(&self, key: &str, command: &[&str]) -> T {
        self.servers[self.home(key).await].run(command).await
    }
}

impl CacheUnderTest for RedisUnderTest {
    type Listener = redis::aio::PubSub;

    async fn invalidate(&self, keys: &[StaleKey]) -> Vec<afterwrite_model::Result<()>> {
        self.cache.invalidate(keys, Duration::from_secs(10)).await.results
    }

    async fn get(&self, key: &str) -> Option<String> {
        self.run(key, &["GET", key]).await
    }

    async fn set(&self, key: &str, value: &str) {
        self.run::<()>(key, &["SET", key, value, "PX", "60000"]).await;
    }

    async fn set_if_absent(&self, key: &str, value: &str) {
        self.run::<()>(key, &["SET", key, value, "PX", "60000", "NX"]).await;
    }

    async fn evict(&self, key: &str) {
        self.run::<()>(key, &["DEL", key]).await;
    }

    async fn keys(&self) -> BTreeSet<String> {
        let mut keys = BTreeSet::new();
        for server in &self.servers {
            keys.extend(server.run::<Vec<String>>(&["KEYS", "*"]).await);
        }
        keys
    }

    async fn time_to_live(&self, key: &str) -> Option<Duration> {
        let ms: i64 = self.run(key, &["PTTL", key]).await;
        u64::try_from(ms).ok().map(Duration::from_millis)
    }

    async fn listen(&self) -> Vec<redis::aio::PubSub> {
        let mut listeners = Vec::new();
        for server in &self.servers {
            let client = redis::Client::open(server.url()).unwrap();
            let mut listener = client.get_async_pubsub().await.unwrap();
            listener.subscribe(INVALIDATION_CHANNEL).await.unwrap();
            listeners.push(listener);
        }
        listeners
    }

    async fn received(&self, mut listener: redis::aio::PubSub, count: usize) -> Vec<String> {
        let mut messages = listener.on_message();
        let mut received = Vec::new();
        while received.len() < count {
            let message = tokio::time::timeout(Duration::from_secs(5), messages.next()).await;
            let message = message.unwrap_or_else(|_| panic!("received {} keys only", received.len()));
            let message: String = message.unwrap().get_payload().unwrap();
            received.extend(serde_json::from_str::<Vec<String>>(&message).unwrap());
        }
        received
    }
}
