//! D5: deletions by TTL that DynamoDB does not mark.

use std::sync::Arc;

use afterwrite_model::entity::SourceKey;
use afterwrite_model::projection::{RecordImages, datasets_of, decode_old_image, rows};
use afterwrite_model::record::RecordDecoder;
use afterwrite_model::table::Model;
use serde_json::{Value, json};

use super::world::{CountingWorld, NOW, item, model, problems};

const SESSIONS: &str = r##"
    [entities.session]
    key = { PK = "USER#{user}", SK = "SESSION#{session}" }
    attributes = { expires_at = "N", seconds = "N", kind = "S", started_at = "S" }
    ttl = "expires_at"
    [rollups.user]
    key = { PK = "OF#{user}", SK = "ROLLUP" }
    [[aggregates]]
    name = "sessions"
    of = "session"
    into = "user"
    measures = { sessions = "count", seconds = { sum = "seconds" } }
    [datasets.sessions]
    of = "session"
    partition = "started_at:day"
    columns = { seconds = "int64", started_at = "timestamp" }
"##;

fn sessions() -> Arc<Model> {
    model(SESSIONS)
}

fn session(expires_at: Value) -> Value {
    item(
        "USER#u",
        "SESSION#1",
        json!({ "expires_at": expires_at, "seconds": { "N": "60" }, "kind": { "S": "web" }, "started_at": { "S": "2026-02-06" } }),
    )
}

/// The counted and the settled seconds after a session and its removal.
async fn after_removal(model: &Arc<Model>, old: &Value, marked: bool) -> [Option<String>; 2] {
    let mut world = CountingWorld::new(model);
    let insert = world.insert(old);
    let mut remove = world.record(Some(old), None);
    if marked {
        remove["userIdentity"] = json!({ "type": "Service", "principalId": "dynamodb.amazonaws.com" });
    }
    for records in [&[insert, remove.clone()][..], &[remove]] {
        let handled = world.deliver(records).await;
        assert!(handled.failures.is_empty() && handled.parked.is_empty(), "{handled:?}");
    }
    let rollup = world.rollups().remove("OF#u / ROLLUP").unwrap_or_default();
    ["seconds", "settled_seconds"].map(|measure| rollup.get(measure).cloned())
}

#[tokio::test]
async fn d5_the_removal_of_an_item_that_had_expired_is_an_expiry() {
    let kept = [Some("60".to_owned()), Some("60".to_owned())];
    let removed = [None, None];
    let number = |seconds: i64| json!({ "N": seconds.to_string() });
    let year = 365 * 86_400;
    for (expires_at, marked, expected) in [
        (number(NOW - 1), false, &kept),
        (number(NOW), false, &kept),
        (json!({ "N": format!("{}.5", NOW - 1) }), false, &kept),
        (number(NOW - 4 * year), false, &kept),
        (number(NOW + 1), false, &removed),
        // The application deleted these: TTL ignores them.
        (number(NOW - 6 * year), false, &removed),
        (number((NOW - 1) * 1000), false, &removed),
        (json!({ "NULL": true }), false, &removed),
        (number(NOW + 1), true, &kept),
    ] {
        assert_eq!(
            after_removal(&sessions(), &session(expires_at.clone()), marked).await,
            *expected,
            "{expires_at}"
        );
    }
    let mut without = session(number(NOW - 1));
    without.as_object_mut().unwrap().remove("expires_at");
    assert_eq!(after_removal(&sessions(), &without, false).await, removed);
    let subtracting = model(&SESSIONS.replace("ttl =", "on_expiry = \"subtract\"\n    ttl ="));
    assert_eq!(after_removal(&subtracting, &session(number(NOW - 1)), false).await, removed);
    let without_ttl = model(&SESSIONS.replace("ttl = \"expires_at\"", ""));
    assert_eq!(after_removal(&without_ttl, &session(number(NOW - 1)), false).await, removed);
}

#[tokio::test]
async fn d5_the_entity_that_the_item_was_of_names_the_attribute() {
    let two = SESSIONS.replace("ttl = \"expires_at\"", "ttl = \"expires_at\"\n    when.kind = [\"web\"]")
        + "[entities.device]\nkey = { PK = \"USER#{user}\", SK = \"SESSION#{device}\" }\nattributes = { kind = \"S\" }\nwhen.kind = [\"device\"]";
    let two = model(&two);
    let expired = json!({ "N": (NOW - 1).to_string() });
    let kept = [Some("60".to_owned()), Some("60".to_owned())];
    assert_eq!(after_removal(&two, &session(expired.clone()), false).await, kept);
    let mut device = session(expired);
    device["kind"] = json!({ "S": "device" });
    assert_eq!(after_removal(&two, &device, false).await, [None, None]);
}

#[test]
fn d5_rows_of_such_a_removal_are_expiries() {
    let model = sessions();
    let mut world = CountingWorld::new(&model);
    for (expires_at, expected) in [(NOW - 1, "EXPIRE"), (NOW + 1, "REMOVE")] {
        let old = session(json!({ "N": expires_at.to_string() }));
        let json = world.record(Some(&old), None).to_string();
        let record = RecordDecoder::new(&model.row_attributes).record(json.as_bytes()).expect("a record");
        let source = SourceKey::of_keys(&model, 0, &record.keys).expect("a key");
        let candidates = source.candidates(&model);
        let old = decode_old_image(&candidates, &record).unwrap();
        let images = RecordImages { new: None, old: old.as_ref() };
        let operations: Vec<&str> = datasets_of(&candidates)
            .flat_map(|(_, dataset)| rows(dataset, &candidates, &record, images))
            .map(|row| row.operation.name())
            .collect();
        assert_eq!(operations, [expected]);
    }
}

#[test]
fn d5_a_wrong_attribute_is_reported() {
    for (written, code, words) in [
        ("ttl = \"expire_at\"", "AW021", "did you mean"),
        ("ttl = \"kind\"", "AW014", "seconds since 1970"),
        ("ttl = \"user\"", "AW014", "top-level attribute"),
        ("ttl = \"expires_at:day\"", "AW014", "top-level attribute"),
        ("ttl = 5", "AW006", "string"),
        ("ttl = \"expires_at\"\n    secret = [\"expires_at\"]", "AW090", "`ttl`"),
    ] {
        let found = problems(&SESSIONS.replace("ttl = \"expires_at\"", written));
        assert!(found.contains(code) && found.contains(words), "{written}: {found}");
    }
}
