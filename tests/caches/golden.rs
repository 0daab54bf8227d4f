//! The recorded exam platform: exactly the keys that its records make stale are deleted.

use std::collections::BTreeSet;

use afterwrite_tests::recording::StreamRecording;
use afterwrite_tests::redis_server::RedisServer;
use serde_json::Value;

use super::delivery::{deadline, deliver, model, question, single};

/// The keys of an image, written by hand, independent of the model.
fn keys_of(image: &Value) -> Vec<String> {
    let text = |name: &str| image[name]["S"].as_str();
    let (Some(pk), Some(sk)) = (text("PK"), text("SK")) else { return Vec::new() };
    let of = |key: &str, prefix: &str| key.strip_prefix(prefix).map(str::to_owned);
    if let Some(email) = of(pk, "USER#") {
        let id = text("user_id").map(|id| format!("user:{id}"));
        return id.into_iter().chain([format!("user:email:{email}")]).collect();
    }
    if let (Some(admin), Some(project)) = (of(pk, "ADMIN#"), of(sk, "PROJECT#")) {
        let state = image["archived"]["BOOL"].as_bool().map(|is| if is { "archived" } else { "active" });
        let list = state.map(|state| format!("admin:{admin}:projects:{state}"));
        return [format!("project:{project}"), format!("admin:{admin}:projects")]
            .into_iter()
            .chain(list)
            .collect();
    }
    if let (Some(project), Some(question)) = (of(pk, "PROJECT#"), of(sk, "QUESTION#")) {
        return vec![format!("project:{project}:questions"), format!("question:{question}")];
    }
    if let (Some(candidate), Some(attempt)) = (of(pk, "CANDIDATE#"), of(sk, "ATTEMPT#")) {
        let project = text("project_id").map(|project| format!("project:{project}:attempts"));
        let own = [format!("attempt:{attempt}"), format!("candidate:{candidate}:attempts")];
        return own.into_iter().chain(project).collect();
    }
    let attempt = of(pk, "ATTEMPT#").filter(|_| sk.starts_with("ANSWER#"));
    attempt.map(|attempt| format!("attempt:{attempt}:answers")).into_iter().collect()
}

/// The keys that these records make stale.
pub(crate) fn keys_of_all<'r>(records: impl IntoIterator<Item = &'r Value>) -> BTreeSet<String> {
    let images = records
        .into_iter()
        .flat_map(|record| [&record["dynamodb"]["OldImage"], &record["dynamodb"]["NewImage"]]);
    images.flat_map(keys_of).collect()
}

pub(crate) async fn keys_in(server: &RedisServer) -> BTreeSet<String> {
    server.run::<Vec<String>>(&["KEYS", "*"]).await.into_iter().collect()
}

/// The records of the platform, by time.
pub(crate) fn recorded() -> Vec<Value> {
    let recording = StreamRecording::load("exam-42");
    recording.records().map(|record| serde_json::from_str(record.get()).unwrap()).collect()
}

/// Fills a server with these keys, and for each with two others, one with a prefix and one with a suffix. Returns all of them.
pub(crate) async fn preload(server: &RedisServer, keys: &BTreeSet<String>) -> BTreeSet<String> {
    let keys = keys.iter().flat_map(|key| [key.clone(), format!("{key}:1"), format!("x{key}")]);
    let keys: BTreeSet<String> = keys.chain(["*".to_owned(), "project:*".to_owned()]).collect();
    let mut pipeline = redis::pipe();
    keys.iter().for_each(|key| {
        pipeline.cmd("SET").arg(key).arg("cached").ignore();
    });
    pipeline.exec_async(&mut server.connection().await).await.unwrap();
    keys
}

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
