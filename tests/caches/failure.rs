//! A cache that dies, hangs or restarts: its records fail in time, or succeed after retries.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use afterwrite_model::ErrorKind;
use afterwrite_model::clock::SystemClock;
use afterwrite_relay::invalidate::{CacheInvalidator, InvalidationOutcome};
use afterwrite_services::PathTarget;
use afterwrite_services::cloudfront::CloudFront;
use afterwrite_services::redis::{CacheTopology, RedisCache};
use afterwrite_services::sqs::SqsQueue;
use afterwrite_tests::cloudfront::{distribution, start_cloudfront};
use afterwrite_tests::redis_server::{RedisServer, free_port};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;

use super::delivery::{deadline, deliver, model, of_cache, question, single};
use super::golden::{keys_in, keys_of_all, preload, recorded};
use super::tcp_proxy::TcpProxy;

#[tokio::test]
async fn an_unreachable_cache_fails_its_records_in_time() {
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
async fn a_cache_that_never_responds_does_not_block() {
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
async fn no_path_is_sent_while_its_keys_are_there() {
    let cloudfront = start_cloudfront().await;
    let redis =
        RedisCache::new(&format!("redis://127.0.0.1:{}", free_port()), CacheTopology::Single, None).unwrap();
    let invalidator: CacheInvalidator<_, _, SqsQueue, _> = CacheInvalidator::new(
        Some(redis),
        Some(PathTarget::Distribution(distribution(&cloudfront))),
        SystemClock,
    );
    let outcome = deliver(&invalidator, &model(), &[question("p", "q")], deadline(1)).await;
    assert_eq!(outcome.failures[&0].kind(), ErrorKind::Unavailable);
    assert!(outcome.keys_gone.is_empty());
    assert_eq!((outcome.totals.paths, cloudfront.requests()), (0, Vec::new()));
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn a_cache_that_restarts_in_time_fails_no_record() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = start_persistent(&folder, free_port()).await;
    let port = server.port;
    let invalidator = single(&server);
    assert!(deliver(&invalidator, &model(), &[question("p", "q")], deadline(10)).await.failures.is_empty());
    for key in ["question:q", "project:p:questions", "unrelated"] {
        server.run::<()>(&["SET", key, "cached"]).await;
    }
    server.kill();
    let restart = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        start_persistent(&folder, port).await
    };
    let model = model();
    let records = [question("p", "q")];
    let (outcome, server) = tokio::join!(deliver(&invalidator, &model, &records, deadline(10)), restart);
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    assert_eq!(keys_in(&server).await, ["unrelated".to_owned()].into());
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn a_dead_cache_fails_its_records_and_the_next_delivery_reconnects() {
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

/// A server whose data survives when it is killed.
async fn start_persistent(folder: &TempDir, port: u16) -> RedisServer {
    let folder = folder.path().to_str().unwrap();
    let arguments = ["--dir", folder, "--appendonly", "yes", "--appendfsync", "always"];
    RedisServer::start_on(port, &arguments).await
}

/// A persistent server with every key of the recording and others, and an invalidator behind a proxy that can break.
struct RecordedCache {
    records: Vec<Value>,
    folder: TempDir,
    server: RedisServer,
    /// The keys that the server must have.
    expected: BTreeSet<String>,
    proxy: TcpProxy,
    invalidator: CacheInvalidator<RedisCache, CloudFront, SqsQueue, SystemClock>,
}

impl RecordedCache {
    async fn start() -> Self {
        let (records, folder) = (recorded(), tempfile::tempdir().unwrap());
        let server = start_persistent(&folder, free_port()).await;
        let expected = preload(&server, &keys_of_all(&records)).await;
        let proxy = TcpProxy::to(server.port).await;
        let invalidator = of_cache(&proxy.url, CacheTopology::Single);
        Self { records, folder, server, expected, proxy, invalidator }
    }

    /// Delivers a batch. After `quarters` quarters of the bytes of its keys, the server is killed and restarted. The proxy is repaired
    /// after a pause, or not at all.
    async fn deliver_through_crash(
        &mut self,
        batch: &[Value],
        quarters: usize,
        repair_after: Option<Duration>,
    ) -> InvalidationOutcome {
        let stale = keys_of_all(batch);
        self.proxy.break_after(stale.iter().map(String::len).sum::<usize>() * quarters / 4);
        let Self { folder, server, expected, proxy, .. } = self;
        let crash = async {
            proxy.broken().await;
            let limit = Instant::now() + Duration::from_secs(10);
            let left = loop {
                let left = keys_in(server).await;
                if left != *expected {
                    break left;
                }
                assert!(Instant::now() < limit, "no key is deleted");
            };
            assert!(!stale.is_disjoint(&left), "every key is deleted before the crash");
            server.kill();
            *server = start_persistent(folder, server.port).await;
            // The server may have deleted more keys between the look and the kill.
            let survived = keys_in(server).await;
            assert!(survived.is_subset(&left), "what was deleted stays deleted");
            assert!(left.difference(&survived).all(|key| stale.contains(key)), "the data survives");
            if let Some(pause) = repair_after {
                tokio::time::sleep(pause).await;
                proxy.repair();
            }
        };
        let seconds = if repair_after.is_some() { 30 } else { 2 };
        let model = model();
        let (outcome, ()) = tokio::join!(deliver(&self.invalidator, &model, batch, deadline(seconds)), crash);
        outcome
    }

    /// Delivers a batch. All its records must succeed; then exactly the keys of `all` must be deleted.
    async fn deliver(&mut self, batch: &[Value], all: &[Value]) {
        self.proxy.repair();
        let outcome = deliver(&self.invalidator, &model(), batch, deadline(30)).await;
        assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
        self.assert_deleted(all).await;
    }

    async fn assert_deleted(&mut self, batch: &[Value]) {
        let stale = keys_of_all(batch);
        self.expected.retain(|key| !stale.contains(key));
        assert_eq!(keys_in(&self.server).await, self.expected);
    }

    /// The failed records of a batch. The keys of all other records must be deleted.
    async fn failed_records(&self, batch: &[Value], outcome: &InvalidationOutcome) -> Vec<Value> {
        let is_unavailable = outcome.failures.values().all(|error| error.kind() == ErrorKind::Unavailable);
        assert!(is_unavailable, "{:?}", outcome.failures);
        let (mut failed, mut succeeded) = (Vec::new(), Vec::new());
        for (record, value) in batch.iter().enumerate() {
            let list = if outcome.failures.contains_key(&record) { &mut failed } else { &mut succeeded };
            list.push(value.clone());
        }
        let left = keys_in(&self.server).await;
        assert!(keys_of_all(&succeeded).is_disjoint(&left), "a record succeeded, and its keys exist");
        failed
    }
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn after_a_crash_during_a_batch_the_failed_records_complete_it() {
    let mut recorded = RecordedCache::start().await;
    let records = recorded.records.clone();
    for (batch, quarters) in records.chunks(1_000).zip([2, 3, 4]) {
        let outcome = recorded.deliver_through_crash(batch, quarters, None).await;
        let failed = recorded.failed_records(batch, &outcome).await;
        assert!(!failed.is_empty());
        recorded.deliver(&failed, batch).await;
    }
    recorded.deliver(&records[3_000..], &records).await;
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn records_whose_keys_were_deleted_before_the_crash_do_not_fail() {
    let mut recorded = RecordedCache::start().await;
    let records = recorded.records.clone();
    // The keys need two pipelines; the crash happens in the second.
    let outcome = recorded.deliver_through_crash(&records, 7, None).await;
    let failed = recorded.failed_records(&records, &outcome).await;
    assert!(outcome.totals.keys > 0 && (1..records.len()).contains(&failed.len()));
    recorded.deliver(&failed, &records).await;
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn a_crash_during_a_batch_with_a_restart_in_time_fails_no_record() {
    let mut recorded = RecordedCache::start().await;
    let records = recorded.records.clone();
    let outcome = recorded.deliver_through_crash(&records, 3, Some(Duration::from_millis(300))).await;
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    recorded.assert_deleted(&records).await;
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn after_a_failover_the_new_primary_is_used() {
    let (first, successor) = (RedisServer::start().await, RedisServer::start().await);
    let proxy = TcpProxy::to(first.port).await;
    let invalidator = of_cache(&proxy.url, CacheTopology::Single);
    let records = [question("p", "q")];
    assert!(deliver(&invalidator, &model(), &records, deadline(10)).await.failures.is_empty());
    successor.run::<()>(&["SET", "question:q", "cached"]).await;
    // The first server keeps its connections, and refuses their writes from now on.
    first.run::<()>(&["REPLICAOF", "127.0.0.1", &successor.port.to_string()]).await;
    proxy.redirect_to(successor.port);
    let outcome = deliver(&invalidator, &model(), &records, deadline(10)).await;
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    assert!(successor.run::<Vec<String>>(&["KEYS", "*"]).await.is_empty());
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn a_wrong_mode_is_reported_with_the_setting() {
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
