//! A cache that dies, hangs or returns: its records fail in time, or succeed in place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use afterwrite::ErrorKind;
use afterwrite::commit::SystemClock;
use afterwrite::relay::invalidate::Invalidator;
use afterwrite::sink::redis::{Redis, Topology};
use afterwrite_tests::cloudfront::FakeCloudFront;
use afterwrite_tests::redis_server::{RedisServer, free_port};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use super::delivery::{deadline, deliver, model, of_cache, question, single};

#[tokio::test]
async fn an_unreachable_cache_fails_its_records_within_the_limit() {
    for topology in [Topology::Single, Topology::Cluster] {
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
    for topology in [Topology::Single, Topology::Cluster] {
        let begun = Instant::now();
        let outcome = deliver(&of_cache(&url, topology), &model(), &[question("p", "q")], deadline(2)).await;
        assert!(begun.elapsed() < Duration::from_secs(4), "{topology:?}: {:?}", begun.elapsed());
        assert_eq!(outcome.failures[&0].kind(), ErrorKind::Unavailable);
    }
}

#[tokio::test]
async fn a_dead_cache_does_not_hold_back_cloudfront() {
    let cloudfront = FakeCloudFront::start().await;
    let redis = Redis::new(&format!("redis://127.0.0.1:{}", free_port()), Topology::Single, None).unwrap();
    let invalidator = Invalidator::new(model(), Some(redis), Some(cloudfront.distribution()), SystemClock);
    let outcome = deliver(&invalidator, &model(), &[question("p", "q")], deadline(1)).await;
    assert_eq!(outcome.failures[&0].kind(), ErrorKind::Unavailable);
    assert_eq!(outcome.totals.paths, 2);
    let [asked] = cloudfront.asked().try_into().unwrap();
    assert_eq!(asked.paths, ["/api/projects/p", "/api/projects/p/*"]);
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn a_cache_that_dies_and_returns_within_the_limit_is_not_noticed() {
    let mut server = RedisServer::start().await;
    let port = server.port;
    let invalidator = single(&server);
    assert!(deliver(&invalidator, &model(), &[question("p", "q")], deadline(10)).await.failures.is_empty());
    server.kill();
    let revival = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        let server = RedisServer::start_on(port, &[]).await;
        server.run::<()>(&["SET", "unrelated", "cached"]).await;
        server
    };
    let model = model();
    let records = [question("p", "q")];
    let (outcome, server) = tokio::join!(deliver(&invalidator, &model, &records, deadline(10)), revival);
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    assert_eq!(server.run::<Vec<String>>(&["KEYS", "*"]).await, ["unrelated"]);
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

/// An address that leads to one server after another, as a name does that is resolved anew.
async fn address(leads_to: Arc<AtomicU16>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let to = ("127.0.0.1", leads_to.load(Ordering::SeqCst));
            tokio::spawn(async move {
                let mut server = TcpStream::connect(to).await.unwrap();
                copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
    url
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn a_primary_that_became_a_replica_is_left_for_its_successor() {
    let (first, successor) = (RedisServer::start().await, RedisServer::start().await);
    let leads_to = Arc::new(AtomicU16::new(first.port));
    let invalidator = of_cache(&address(Arc::clone(&leads_to)).await, Topology::Single);
    let records = [question("p", "q")];
    assert!(deliver(&invalidator, &model(), &records, deadline(10)).await.failures.is_empty());
    successor.run::<()>(&["SET", "question:q", "cached"]).await;
    // The first keeps its connections, and refuses their writes from now on.
    first.run::<()>(&["REPLICAOF", "127.0.0.1", &successor.port.to_string()]).await;
    leads_to.store(successor.port, Ordering::SeqCst);
    let outcome = deliver(&invalidator, &model(), &records, deadline(10)).await;
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    assert!(successor.run::<Vec<String>>(&["KEYS", "*"]).await.is_empty());
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn a_wrong_mode_is_named_by_its_variable() {
    let server = RedisServer::start().await;
    let outcome =
        deliver(&of_cache(&server.url(), Topology::Cluster), &model(), &[question("p", "q")], deadline(3))
            .await;
    let error = outcome.failures[&0].to_string();
    assert!(error.contains("AFTERWRITE_CACHE"), "{error}");
}
