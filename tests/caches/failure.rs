//! A cache that dies, hangs or returns: its records fail in time, or succeed in place.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use afterwrite::ErrorKind;
use afterwrite::clock::SystemClock;
use afterwrite::relay::invalidate::{CacheInvalidator, InvalidationOutcome};
use afterwrite::sink::cloudfront::CloudFront;
use afterwrite::sink::redis::{CacheTopology, RedisCache};
use afterwrite_tests::cloudfront::FakeCloudFront;
use afterwrite_tests::redis_server::{RedisServer, free_port};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;

use super::delivery::{deadline, deliver, model, of_cache, question, single};
use super::golden::{keys_in, keys_of_all, preload, recorded};
use super::way::Way;

#[tokio::test]
async fn an_unreachable_cache_fails_its_records_within_the_limit() {
    for topology in [CacheTopology::Single, CacheTopology::Cluster] {
        let invalidator = of_cache(&format!("redis://127.0.0.1:{}", free_port()), topology);
        let begun = Instant::now();
        let outcome =
            deliver(&invalidator, &model(), &[question("p", "q"), question("p", "r")], deadline(1)).await;
        assert!(begun.elapsed() < Duration::from_secs(3), "{topology:?}: {:?}", begun.elapsed());
        assert_eq!(outcome.failures.keys().copied().collect::<Vec<_>>(), [0, 1], "{topology:?}");
        assert!(
            outcome.failures.values().all(|error| error.kind() == ErrorKind::Unavailable),
            "{:?}",
            outcome.failures
        );
    }
}

#[tokio::test]
async fn a_cache_that_never_answers_does_not_block() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    for topology in [CacheTopology::Single, CacheTopology::Cluster] {
        let begun = Instant::now();
        let outcome = deliver(&of_cache(&url, topology), &model(), &[question("p", "q")], deadline(2)).await;
        assert!(begun.elapsed() < Duration::from_secs(4), "{topology:?}: {:?}", begun.elapsed());
        assert_eq!(outcome.failures[&0].kind(), ErrorKind::Unavailable);
    }
}

#[tokio::test]
async fn a_dead_cache_does_not_hold_back_cloudfront() {
    let cloudfront = FakeCloudFront::start().await;
    let redis =
        RedisCache::new(&format!("redis://127.0.0.1:{}", free_port()), CacheTopology::Single, None).unwrap();
    let invalidator =
        CacheInvalidator::new(model(), Some(redis), Some(cloudfront.distribution()), SystemClock);
    let outcome = deliver(&invalidator, &model(), &[question("p", "q")], deadline(1)).await;
    assert_eq!(outcome.failures[&0].kind(), ErrorKind::Unavailable);
    assert_eq!(outcome.totals.paths, 2);
    let [asked] = cloudfront.asked().try_into().unwrap();
    assert_eq!(asked.paths, ["/api/projects/p", "/api/projects/p/*"]);
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn a_cache_that_dies_and_returns_within_the_limit_is_not_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = lasting(&folder, free_port()).await;
    let port = server.port;
    let invalidator = single(&server);
    assert!(deliver(&invalidator, &model(), &[question("p", "q")], deadline(10)).await.failures.is_empty());
    for key in ["question:q", "project:p:questions", "unrelated"] {
        server.run::<()>(&["SET", key, "cached"]).await;
    }
    server.kill();
    let revival = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        lasting(&folder, port).await
    };
    let model = model();
    let records = [question("p", "q")];
    let (outcome, server) = tokio::join!(deliver(&invalidator, &model, &records, deadline(10)), revival);
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    assert_eq!(keys_in(&server).await, ["unrelated".to_owned()].into());
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn a_cache_that_dies_fails_its_records_and_the_next_delivery_finds_it_back() {
    let mut server = RedisServer::start().await;
    let port = server.port;
    let invalidator = single(&server);
    let records = [question("p", "q")];
    assert!(deliver(&invalidator, &model(), &records, deadline(10)).await.failures.is_empty());
    server.kill();
    let outcome = deliver(&invalidator, &model(), &records, deadline(1)).await;
    assert_eq!(outcome.failures[&0].kind(), ErrorKind::Unavailable);
    let server = RedisServer::start_on(port, &[]).await;
    server.run::<()>(&["SET", "question:q", "cached"]).await;
    assert!(deliver(&invalidator, &model(), &records, deadline(10)).await.failures.is_empty());
    assert!(server.run::<Vec<String>>(&["KEYS", "*"]).await.is_empty());
}

/// A server that finds again what it held when it was killed.
async fn lasting(folder: &TempDir, port: u16) -> RedisServer {
    let folder = folder.path().to_str().unwrap();
    let arguments = ["--dir", folder, "--appendonly", "yes", "--appendfsync", "always"];
    RedisServer::start_on(port, &arguments).await
}

/// Such a server with every key of the recording and others beside them, and an invalidator whose way to it can break.
struct Recorded {
    records: Vec<Value>,
    folder: TempDir,
    server: RedisServer,
    /// What the server must hold.
    held: BTreeSet<String>,
    way: Way,
    invalidator: CacheInvalidator<RedisCache, CloudFront, SystemClock>,
}

impl Recorded {
    async fn start() -> Self {
        let (records, folder) = (recorded(), tempfile::tempdir().unwrap());
        let server = lasting(&folder, free_port()).await;
        let held = preload(&server, &keys_of_all(&records)).await;
        let way = Way::to(server.port).await;
        let invalidator = of_cache(&way.url, CacheTopology::Single);
        Self { records, folder, server, held, way, invalidator }
    }

    /// Delivers a batch, of which the server is sent so many quarters of the bytes that its keys have: then it is killed, and started
    /// again. The way to it is mended after so long, if at all.
    async fn deliver_until_it_dies(
        &mut self,
        batch: &[Value],
        quarters: usize,
        mended_after: Option<Duration>,
    ) -> InvalidationOutcome {
        let must_go = keys_of_all(batch);
        self.way.break_after(must_go.iter().map(String::len).sum::<usize>() * quarters / 4);
        let Self { folder, server, held, way, .. } = self;
        let death = async {
            way.broken().await;
            let limit = Instant::now() + Duration::from_secs(10);
            let left = loop {
                let left = keys_in(server).await;
                if left != *held {
                    break left;
                }
                assert!(Instant::now() < limit, "nothing is gone");
            };
            assert!(!must_go.is_disjoint(&left), "everything is gone before it dies");
            server.kill();
            *server = lasting(folder, server.port).await;
            assert_eq!(keys_in(server).await, left, "it returns with what it held");
            if let Some(pause) = mended_after {
                tokio::time::sleep(pause).await;
                way.mend();
            }
        };
        let seconds = if mended_after.is_some() { 30 } else { 2 };
        let model = model();
        let (outcome, ()) = tokio::join!(deliver(&self.invalidator, &model, batch, deadline(seconds)), death);
        outcome
    }

    /// Delivers a batch; every one of its records must succeed, and after it exactly the keys of `all` must be gone.
    async fn deliver(&mut self, batch: &[Value], all: &[Value]) {
        self.way.mend();
        let outcome = deliver(&self.invalidator, &model(), batch, deadline(30)).await;
        assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
        self.assert_gone(all).await;
    }

    async fn assert_gone(&mut self, batch: &[Value]) {
        let gone = keys_of_all(batch);
        self.held.retain(|key| !gone.contains(key));
        assert_eq!(keys_in(&self.server).await, self.held);
    }

    /// The records of a batch that are to come again. The keys of all others must be gone.
    async fn failed(&self, batch: &[Value], outcome: &InvalidationOutcome) -> Vec<Value> {
        let is_unavailable = outcome.failures.values().all(|error| error.kind() == ErrorKind::Unavailable);
        assert!(is_unavailable, "{:?}", outcome.failures);
        let (mut failed, mut succeeded) = (Vec::new(), Vec::new());
        for (record, value) in batch.iter().enumerate() {
            let list = if outcome.failures.contains_key(&record) { &mut failed } else { &mut succeeded };
            list.push(value.clone());
        }
        let held = keys_in(&self.server).await;
        assert!(keys_of_all(&succeeded).is_disjoint(&held), "a record succeeded, and its keys are there");
        failed
    }
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn a_cache_that_dies_in_the_midst_of_a_batch_loses_nothing_when_what_failed_comes_again() {
    let mut recorded = Recorded::start().await;
    let records = recorded.records.clone();
    for (batch, quarters) in records.chunks(1_000).zip([2, 3, 4]) {
        let outcome = recorded.deliver_until_it_dies(batch, quarters, None).await;
        let again = recorded.failed(batch, &outcome).await;
        assert!(!again.is_empty());
        recorded.deliver(&again, batch).await;
    }
    recorded.deliver(&records[3_000..], &records).await;
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn what_had_gone_before_the_cache_died_does_not_come_again() {
    let mut recorded = Recorded::start().await;
    let records = recorded.records.clone();
    // More keys than one pipeline holds: it dies in the second.
    let outcome = recorded.deliver_until_it_dies(&records, 7, None).await;
    let again = recorded.failed(&records, &outcome).await;
    assert!(outcome.totals.keys > 0 && (1..records.len()).contains(&again.len()));
    recorded.deliver(&again, &records).await;
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn a_cache_that_dies_in_the_midst_of_a_batch_and_returns_within_the_limit_is_not_noticed() {
    let mut recorded = Recorded::start().await;
    let records = recorded.records.clone();
    let outcome = recorded.deliver_until_it_dies(&records, 3, Some(Duration::from_millis(300))).await;
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    recorded.assert_gone(&records).await;
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn a_primary_that_became_a_replica_is_left_for_its_successor() {
    let (first, successor) = (RedisServer::start().await, RedisServer::start().await);
    let way = Way::to(first.port).await;
    let invalidator = of_cache(&way.url, CacheTopology::Single);
    let records = [question("p", "q")];
    assert!(deliver(&invalidator, &model(), &records, deadline(10)).await.failures.is_empty());
    successor.run::<()>(&["SET", "question:q", "cached"]).await;
    // The first keeps its connections, and refuses their writes from now on.
    first.run::<()>(&["REPLICAOF", "127.0.0.1", &successor.port.to_string()]).await;
    way.lead_to(successor.port);
    let outcome = deliver(&invalidator, &model(), &records, deadline(10)).await;
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    assert!(successor.run::<Vec<String>>(&["KEYS", "*"]).await.is_empty());
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn a_wrong_mode_is_named_by_its_variable() {
    let server = RedisServer::start().await;
    let outcome = deliver(
        &of_cache(&server.url(), CacheTopology::Cluster),
        &model(),
        &[question("p", "q")],
        deadline(3),
    )
    .await;
    let error = outcome.failures[&0].to_string();
    assert!(error.contains("AFTERWRITE_CACHE"), "{error}");
}
