//! D7: the list of records that EventBridge Pipes sends.

use afterwrite_datasets::export::event::ExporterEvent;
use afterwrite_model::ErrorKind;
use serde_json::{Value, json};

use super::world::{CountingWorld, item, model};

fn world() -> CountingWorld {
    CountingWorld::new(&model(
        r##"
        [entities.order]
        key = { PK = "ORDER#{order}", SK = "-" }
        attributes = { price = "N" }
        [rollups.all]
        key = { PK = "ALL", SK = "ROLLUP" }
        [[aggregates]]
        name = "orders"
        of = "order"
        into = "all"
        measures = { orders = "count" }
        "##,
    ))
}

fn order(number: u32) -> Value {
    item(&format!("ORDER#{number}"), "-", json!({ "price": { "N": "5" } }))
}

#[tokio::test]
async fn d7_a_bare_list_of_records_is_an_event() {
    let mut world = world();
    let records: Vec<Value> = (0..3).map(|number| world.insert(&order(number))).collect();
    for text in [json!(records).to_string(), format!(" \n{:#}\n", json!(records))] {
        let handled = world.handle(&text).await.expect("an event");
        assert_eq!((handled.records, handled.failures.len()), (3, 0));
        assert_eq!(world.rollups()["ALL / ROLLUP"]["orders"], "3");
    }
}

#[tokio::test]
async fn d7_a_record_of_the_list_fails_alone() {
    let mut world = world();
    let (good, mut bad) = (world.insert(&order(1)), world.insert(&order(2)));
    bad["dynamodb"].as_object_mut().unwrap().remove("Keys");
    let handled = world.handle(&json!([good, bad]).to_string()).await.expect("an event");
    assert_eq!(world.rollups()["ALL / ROLLUP"]["orders"], "1");
    let failures: Vec<_> = handled.failures.iter().map(|failed| failed.sequence_number.as_deref()).collect();
    assert_eq!(failures, [Some("2")]);
}

#[tokio::test]
async fn d7_other_lists_are_named() {
    let world = world();
    for (event, words) in [
        ("[]", "no list `Records`"),
        ("[5]", "no list `Records`"),
        ("[[]]", "no list `Records`"),
        (r#"[{"messageId":"1","body":"{}","eventSource":"aws:sqs"}]"#, "an SQS event"),
        (r#"[{"eventSource":"aws:kinesis","data":""}]"#, "a Kinesis event"),
        ("[{\"eventName\":", "not JSON"),
    ] {
        let error = world.handle(event).await.expect_err("not an event");
        assert_eq!(error.kind(), ErrorKind::Event);
        assert!(error.report().contains(words), "{event}: {}", error.report());
    }
    assert!(world.handle("[]").await.unwrap_err().report().contains("EventBridge Pipes"));
}

#[test]
fn d7_messages_of_a_queue_may_be_a_bare_list() {
    let created =
        json!({ "Records": [{ "s3": { "bucket": { "name": "b" }, "object": { "key": "archive/a.gz" } } }] });
    let messages = json!([{ "messageId": "1", "body": created.to_string(), "eventSource": "aws:sqs" }]);
    let event = ExporterEvent::read(&messages.to_string()).expect("messages");
    let ExporterEvent::Messages(messages) = event else { panic!("messages") };
    assert!(matches!(&messages[..], [(id, Ok(created))] if id == "1" && created.len() == 1));
}
