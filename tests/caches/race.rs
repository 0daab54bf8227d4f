//! The stale-set race, really run: a reader reads the item, the item changes and is invalidated, the reader stores what it read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use afterwrite::clock::{Clock, SystemClock};
use afterwrite::projection::StaleKey;
use afterwrite::sink::Cache;
use afterwrite::sink::TOMBSTONE;
use afterwrite::sink::redis::{CacheTopology, RedisCache};
use afterwrite::table::CacheRemedy;
use afterwrite_tests::random::SeededRandom;
use afterwrite_tests::redis_server::RedisServer;
use redis::aio::MultiplexedConnection;
use redis::cmd;

const TOMBSTONE_TIME: Duration = Duration::from_millis(400);
const ROUNDS: u64 = 150;

async fn invalidate(redis: &RedisCache, key: &str, remedy: CacheRemedy) {
    let stale = StaleKey { key: key.to_owned(), remedy, records: vec![0], rule: 0 };
    let answers = redis.invalidate(&[stale], SystemClock.now(), Duration::from_secs(5)).await.results;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

/// Where the reader finds and stores, by the remedy's protocol: the key itself, or under its generation.
async fn place(connection: &mut MultiplexedConnection, key: &str, remedy: CacheRemedy) -> String {
    if remedy != CacheRemedy::Generation {
        return key.to_owned();
    }
    let name = format!("{key}:generation");
    loop {
        let generation: Option<i64> = cmd("GET").arg(&name).query_async(connection).await.unwrap();
        if let Some(generation) = generation {
            return format!("{key}:{generation}:page-1");
        }
        let now = SystemClock.now().epoch_ms();
        cmd("SET").arg(&name).arg(now).arg("NX").exec_async(connection).await.unwrap();
    }
}

async fn store(connection: &mut MultiplexedConnection, place: &str, value: u64, remedy: CacheRemedy) {
    let mut set = cmd("SET");
    set.arg(place).arg(value).arg("PX").arg(60_000);
    if let CacheRemedy::Tombstone(_) = remedy {
        set.arg("NX");
    }
    set.exec_async(connection).await.unwrap();
}

/// What a reader that comes now is served from the cache.
async fn served(connection: &mut MultiplexedConnection, key: &str, remedy: CacheRemedy) -> Option<String> {
    let place = place(connection, key, remedy).await;
    let found: Option<String> = cmd("GET").arg(place).query_async(connection).await.unwrap();
    found.filter(|found| found != TOMBSTONE)
}

/// Runs the race with these pauses; `true` if the old value is served after the change was invalidated.
async fn is_stale(
    server: &RedisServer,
    key: &str,
    remedy: CacheRemedy,
    reader_ms: u64,
    writer_ms: u64,
) -> bool {
    let redis = RedisCache::new(&server.url(), CacheTopology::Single, None).unwrap();
    let item = Arc::new(AtomicU64::new(1));
    let mut connection = server.connection().await;
    let reader = async {
        let mut connection = connection.clone();
        let place = place(&mut connection, key, remedy).await;
        let read = item.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(reader_ms)).await;
        store(&mut connection, &place, read, remedy).await;
    };
    let writer = async {
        tokio::time::sleep(Duration::from_millis(writer_ms)).await;
        item.store(2, Ordering::SeqCst);
        invalidate(&redis, key, remedy).await;
    };
    tokio::join!(reader, writer);
    served(&mut connection, key, remedy).await.is_some_and(|value| value == "1")
}

/// How many rounds of the race, with random pauses, end in a stale cache.
async fn stale_rounds(remedy: CacheRemedy) -> usize {
    let server = RedisServer::start().await;
    let mut random = SeededRandom::new(42);
    let mut stale = 0;
    for round in 0..ROUNDS {
        let (reader, writer) = (random.below(12), random.below(12));
        let is_stale = is_stale(&server, &format!("list:{round}"), remedy, reader, writer).await;
        stale += usize::from(is_stale);
    }
    stale
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn delete_alone_does_not_close_the_race() {
    let stale = stale_rounds(CacheRemedy::Delete).await;
    assert!(stale > 0, "no round was stale: the race was not run");
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn a_tombstone_closes_it_for_its_time() {
    assert_eq!(stale_rounds(CacheRemedy::Tombstone(TOMBSTONE_TIME)).await, 0);
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn a_reader_slower_than_the_tombstone_is_not_stopped() {
    let server = RedisServer::start().await;
    let remedy = CacheRemedy::Tombstone(Duration::from_millis(50));
    assert!(
        is_stale(&server, "slow", remedy, 200, 0).await,
        "if this holds now, the documentation may promise more"
    );
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn a_tombstone_ends_by_itself() {
    let server = RedisServer::start().await;
    let redis = RedisCache::new(&server.url(), CacheTopology::Single, None).unwrap();
    let remedy = CacheRemedy::Tombstone(TOMBSTONE_TIME);
    invalidate(&redis, "k", remedy).await;
    // The function is gone now; nobody does anything more.
    drop(redis);
    assert_eq!(server.run::<String>(&["GET", "k"]).await, TOMBSTONE);
    let left: u64 = server.run(&["PTTL", "k"]).await;
    assert!(u128::from(left) <= TOMBSTONE_TIME.as_millis());
    tokio::time::sleep(TOMBSTONE_TIME + Duration::from_millis(50)).await;
    let mut connection = server.connection().await;
    store(&mut connection, "k", 2, remedy).await;
    assert_eq!(served(&mut connection, "k", remedy).await.as_deref(), Some("2"));
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn a_generation_closes_it_however_slow_the_reader() {
    assert_eq!(stale_rounds(CacheRemedy::Generation).await, 0);
    let server = RedisServer::start().await;
    assert!(!is_stale(&server, "slow", CacheRemedy::Generation, 600, 0).await);
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn an_evicted_generation_never_comes_back_with_a_number_it_had() {
    let server = RedisServer::start().await;
    let redis = RedisCache::new(&server.url(), CacheTopology::Single, None).unwrap();
    let mut seen: Vec<u64> = Vec::new();
    for _ in 0..5 {
        invalidate(&redis, "list", CacheRemedy::Generation).await;
        seen.push(server.run(&["GET", "list:generation"]).await);
        server.run::<()>(&["DEL", "list:generation"]).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(seen.is_sorted_by(|before, after| before < after), "{seen:?}");
}
