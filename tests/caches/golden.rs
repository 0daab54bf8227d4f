//! The recorded exam platform: exactly the keys that its records make stale are deleted.

pub(crate) use afterwrite_tests::cached_keys::{keys_in, keys_of_all, preload, recorded};
use afterwrite_tests::redis_server::RedisServer;

use super::delivery::{deadline, deliver, model, question, single};

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn exactly_the_stale_keys_are_deleted() {
    let records = recorded();
    let all = keys_of_all(&records);
    let server = RedisServer::start().await;
    let preloaded = preload(&server, &all).await;

    let (invalidator, model) = (single(&server), model());
    let (first, _) = records.split_at(records.len() / 2);
    let mut keys = 0;
    for batch in first.chunks(1_000) {
        let outcome = deliver(&invalidator, &model, batch, deadline(30)).await;
        assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
        assert!(outcome.totals.keys_gone_ms.is_some());
        keys += outcome.totals.keys;
    }
    let stale = keys_of_all(first);
    assert!(keys >= stale.len() && stale.len() > 100 && stale.len() < all.len());
    assert_eq!(keys_in(&server).await, preloaded.difference(&stale).cloned().collect());
    // All records, so the first half is delivered a second time.
    for batch in records.chunks(1_000) {
        let outcome = deliver(&invalidator, &model, batch, deadline(30)).await;
        assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    }
    assert_eq!(keys_in(&server).await, preloaded.difference(&all).cloned().collect());
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn characters_in_an_id_have_no_meaning_in_its_keys() {
    let server = RedisServer::start().await;
    let (invalidator, model) = (single(&server), model());
    let long = "ü".repeat(2_000);
    for id in ["*", "a b", "x\r\nFLUSHALL\r\n", "試験", "\u{1}\u{7f}", "%2A", "[a-z]?", &long] {
        let (key, other) = (format!("question:{id}"), format!("question:{id}x"));
        for key in [key.as_str(), other.as_str(), "question:abc"] {
            server.run::<()>(&["SET", key, "cached"]).await;
        }
        let outcome = deliver(&invalidator, &model, &[question("p", id)], deadline(10)).await;
        assert!(outcome.failures.is_empty());
        assert_eq!(keys_in(&server).await, [other.clone(), "question:abc".to_owned()].into());
        server.run::<()>(&["FLUSHALL"]).await;
    }
}
