//! The cache keys of the recorded exam platform.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::recording::StreamRecording;
use crate::redis_server::RedisServer;

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
#[must_use]
pub fn keys_of_all<'r>(records: impl IntoIterator<Item = &'r Value>) -> BTreeSet<String> {
    let images = records
        .into_iter()
        .flat_map(|record| [&record["dynamodb"]["OldImage"], &record["dynamodb"]["NewImage"]]);
    images.flat_map(keys_of).collect()
}

/// All keys of a server.
pub async fn keys_in(server: &RedisServer) -> BTreeSet<String> {
    server.run::<Vec<String>>(&["KEYS", "*"]).await.into_iter().collect()
}

/// The records of the platform, by time.
///
/// # Panics
/// If a record is malformed.
#[must_use]
pub fn recorded() -> Vec<Value> {
    let recording = StreamRecording::load("exam-42");
    recording.records().map(|record| serde_json::from_str(record.get()).expect("a record")).collect()
}

/// Fills a server with these keys, and for each with two others, one with a prefix and one with a suffix. Returns all of them.
///
/// # Panics
/// If the server refuses them.
pub async fn preload(server: &RedisServer, keys: &BTreeSet<String>) -> BTreeSet<String> {
    let keys = with_neighbours(keys);
    let mut pipeline = redis::pipe();
    keys.iter().for_each(|key| {
        pipeline.cmd("SET").arg(key).arg("cached").ignore();
    });
    pipeline.exec_async(&mut server.connection().await).await.expect("keys that the server takes");
    keys
}

/// These keys, and for each two others that must stay: one with a prefix and one with a suffix.
#[must_use]
pub fn with_neighbours(keys: &BTreeSet<String>) -> BTreeSet<String> {
    let keys = keys.iter().flat_map(|key| [key.clone(), format!("{key}:1"), format!("x{key}")]);
    keys.chain(["*".to_owned(), "project:*".to_owned()]).collect()
}
