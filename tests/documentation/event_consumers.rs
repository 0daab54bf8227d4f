//! The consumers of events that `docs/COOKBOOK.md` shows run on the messages of the page's rules, each delivered more than once.

use afterwrite_local::dynamodb::{EmbeddedDynamoDb, KeyDefinition, TableDefinition};
use afterwrite_model::entity::SourceKey;
use afterwrite_model::projection::{Event, EventChange, SecretAttributes, events_of};
use afterwrite_model::record::RecordDecoder;
use afterwrite_model::table::Model;
use afterwrite_tests::change_record::{stream_of, stream_record};
use afterwrite_tests::{page, python};
use serde_json::{Value, json};

const PAGE: &str = include_str!("../../docs/COOKBOOK.md");
const TABLE: &str = "consumer";

fn model() -> Model {
    Model::parse(&page::model(PAGE), "docs/COOKBOOK.md").unwrap_or_else(|errors| panic!("{errors}"))
}

/// The events of a change of a paid order of the customer `c1` between two totals.
fn events(order: &str, sequence_number: &str, [old, new]: [Option<&str>; 2]) -> Vec<Event> {
    let model = model();
    let image = |total: Option<&str>| {
        total.map(|total| {
            json!({
                "PK": { "S": "CUSTOMER#c1" }, "SK": { "S": format!("ORDER#{order}") },
                "status": { "S": "PAID" }, "total": { "N": total },
            })
        })
    };
    let (old, new) = (image(old), image(new));
    let images = (old.as_ref(), new.as_ref());
    let record = stream_record(&stream_of("Store"), &["PK", "SK"], (sequence_number, 1_770_336_000), images)
        .to_string();
    let decoded = RecordDecoder::new(&model.attributes).record(record.as_bytes()).expect("a record");
    let source = SourceKey::of_keys(&model, 0, &decoded.keys).expect("a key");
    let candidates = source.candidates(&model);
    let change =
        EventChange { source: &source, candidates: Some(&candidates), record: &decoded, json: &record };
    events_of(&model, &change, &SecretAttributes::new(&model)).expect("events")
}

#[tokio::test]
#[ignore = "needs boto3: run tests/run"]
async fn the_consumers_of_the_cookbook_handle_each_event_once() {
    let body = |order: &str, total: &str| {
        let events = events(order, "100", [None, Some(total)]);
        events.iter().find(|event| &*event.name == "order_paid").expect("an event").body()
    };
    let (first, second) = (body("o1", "19.90"), body("o2", "0.10"));
    let change = |order: &str, number: &str, totals: [Option<&str>; 2]| {
        events(order, number, totals).pop().expect("a record").body()
    };
    let created = change("o1", "99", [None, Some("5")]);
    let deleted = change("o1", "100", [Some("5"), None]);
    let large = events("o2", "100", [None, Some("6")]).pop().expect("a record").body_without_detail();
    // The records of o3 arrive in the wrong order, twice, and the past of the others is published again.
    let (older, newer) = (change("o3", "99", [None, Some("7")]), change("o3", "100", [Some("7"), Some("8")]));
    let changes = [
        vec![&created, &deleted, &large],
        vec![&newer, &older, &newer, &older],
        vec![&created, &large, &older, &newer, &deleted],
    ];
    let position = |digits: &str| format!("2026-02-06T10:00:00.000#{digits:0>40}");
    let messages = json!({ "paid": [&first, &first, &second, &first], "changes": changes });
    assert_eq!(
        consume(messages).await,
        json!({
            "credited": [true, false, true, false],
            "points": 20,
            "written": [3, 1, 0],
            "index": {
                "CUSTOMER#c1|ORDER#o1": { "position": position("100"), "item": null },
                "CUSTOMER#c1|ORDER#o2": { "position": position("100"), "item": { "read": "CUSTOMER#c1" } },
                "CUSTOMER#c1|ORDER#o3": {
                    "position": position("100"),
                    "item": { "PK": "CUSTOMER#c1", "SK": "ORDER#o3", "status": "PAID", "total": "8" },
                },
            },
        })
    );
}

/// The results of the consumers, whose table is an embedded one.
async fn consume(messages: Value) -> Value {
    let server = EmbeddedDynamoDb::start().await.expect("a server");
    let key = KeyDefinition::new("PK", "SK");
    let table = TableDefinition { name: TABLE.to_owned(), key, ..TableDefinition::default() };
    server.create_table(&table).await.expect("a table");
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("messages.json");
    std::fs::write(&input, messages.to_string()).expect("the messages");
    let mut command = python::script("documentation/consume_events.py");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/COOKBOOK.md")).arg(TABLE);
    command.stdin(std::fs::File::open(&input).expect("the messages"));
    command.env("AWS_ENDPOINT_URL_DYNAMODB", server.endpoint()).env("AWS_DEFAULT_REGION", "eu-west-1");
    command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
    let done =
        tokio::task::spawn_blocking(move || command.output()).await.expect("a task").expect("a process");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    server.stop().await.expect("the end of the server");
    serde_json::from_slice(&done.stdout).expect("JSON")
}

#[test]
fn the_webhook_of_the_cookbook_is_of_a_rule_of_its_model() {
    let template: String = page::examples(PAGE)
        .into_iter()
        .filter(|example| example.kind == "yaml")
        .map(|example| example.text)
        .collect();
    let model = model();
    assert!(template.contains(&format!("source: [afterwrite.{}], detail-type: [order_paid]", model.name)));
    assert!(model.events.iter().any(|rule| &*rule.name == "order_paid"));
}
