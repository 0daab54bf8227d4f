//! The embedded DynamoDB behaves like AWS's as far as Afterwrite relies on it.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that meets the unexpected must fail at once"
)]

use std::collections::HashMap;

use afterwrite_local::dynamodb::{EmbeddedDynamoDb, EmbeddedStream, KeyDefinition, TableDefinition};
use afterwrite_mapping::{
    EventSourceMapping, MappingControl, MappingEnd, MappingOptions, MappingPace, MappingProgress,
    MappingSettings, MemoryCheckpoints, ShardPosition, StreamRecord, StreamSource as _,
};
use afterwrite_model::clock::SystemClock;
use aws_sdk_dynamodb::types::{
    AttributeValue, Put, ReturnConsumedCapacity, ReturnValuesOnConditionCheckFailure, TransactWriteItem,
    Update,
};
use serde_json::Value;

const TABLE: &str = "Things";

fn definition() -> TableDefinition {
    TableDefinition {
        name: TABLE.to_owned(),
        key: KeyDefinition::new("PK", "SK"),
        indexes: vec![("ByOwner".to_owned(), KeyDefinition::new("owner", "SK"))],
        stream: true,
        ttl_attribute: Some("ttl".to_owned()),
    }
}

async fn started() -> (EmbeddedDynamoDb, aws_sdk_dynamodb::Client) {
    let server = EmbeddedDynamoDb::start().await.unwrap();
    let client = server.client();
    server.create_table(&definition()).await.unwrap();
    (server, client)
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

fn number(value: i64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

async fn put(client: &aws_sdk_dynamodb::Client, sort: &str, value: i64) {
    let put = client.put_item().table_name(TABLE).item("PK", text("p")).item("SK", text(sort));
    put.item("owner", text("o")).item("value", number(value)).send().await.unwrap();
}

/// All records of the stream's only shard, as parsed JSON.
async fn records(stream: &EmbeddedStream) -> Vec<(StreamRecord, Value)> {
    let shards = stream.describe(None).await.unwrap().shards;
    assert_eq!(shards.len(), 1);
    let mut iterator = stream.iterator(&shards[0].id, &ShardPosition::TrimHorizon).await.unwrap();
    let mut all = Vec::new();
    loop {
        let page = stream.read(&iterator).await.unwrap();
        if page.is_at_end {
            return all;
        }
        iterator = page.next.expect("the shard is open");
        for record in page.records {
            let json = serde_json::from_str(&record.json).unwrap();
            all.push((record, json));
        }
    }
}

#[tokio::test]
async fn a_stream_reads_like_one_of_aws() {
    let (server, client) = started().await;
    put(&client, "a", 1).await;
    put(&client, "a", 1).await; // changes nothing: AWS emits nothing
    put(&client, "a", 2).await;
    client.delete_item().table_name(TABLE).key("PK", text("p")).key("SK", text("a")).send().await.unwrap();
    let stream = server.stream(TABLE).await.unwrap();
    let records = records(&stream).await;
    let names: Vec<_> = records.iter().map(|(_, json)| json["eventName"].as_str().unwrap()).collect();
    assert_eq!(names, ["INSERT", "MODIFY", "REMOVE"]);
    for (record, json) in &records {
        assert_eq!(json["awsRegion"], "us-east-1");
        assert_eq!(json["eventSource"], "aws:dynamodb");
        assert_eq!(json["eventSourceARN"], stream.arn());
        assert_eq!(json["dynamodb"]["Keys"]["PK"]["S"], "p");
        assert_eq!(json["dynamodb"]["SequenceNumber"], record.sequence_number);
        assert_eq!(json["dynamodb"]["StreamViewType"], "NEW_AND_OLD_IMAGES");
        assert!(json["dynamodb"]["ApproximateCreationDateTime"].as_i64().unwrap() > 1_700_000_000);
        assert!((21..=40).contains(&record.sequence_number.len()));
        assert!(json.get("userIdentity").is_none());
    }
    let label = stream.arn().rsplit('/').next().unwrap();
    assert!(format!("{label}Z").parse::<jiff::Timestamp>().is_ok(), "{label}");
    assert!(stream.arn().starts_with("arn:aws:dynamodb:us-east-1:000000000000:table/Things/stream/"));
    assert!(records[1].1["dynamodb"]["OldImage"]["value"]["N"] == "1");
    assert!(records[1].1["dynamodb"]["NewImage"]["value"]["N"] == "2");
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_page_of_writes_that_change_nothing_does_not_look_like_the_end() {
    let (server, client) = started().await;
    for value in [1, 1, 1, 2] {
        put(&client, "a", value).await;
    }
    let stream = server.stream(TABLE).await.unwrap();
    let shard = stream.describe(None).await.unwrap().shards.remove(0).id;
    let first = records(&stream).await.remove(0).0.sequence_number;
    let iterator = stream.iterator(&shard, &ShardPosition::After(first)).await.unwrap();
    let page = stream.read(&iterator).await.unwrap();
    assert_eq!(page.records.len(), 1);
}

#[tokio::test]
async fn a_mapping_delivers_each_write_in_order_while_it_is_written() {
    let (server, client) = started().await;
    let stream = server.stream(TABLE).await.unwrap();
    let seen = std::sync::Mutex::new(Vec::<(String, i64)>::new());
    let handler = |event: Vec<u8>, _remaining| {
        let event: Value = serde_json::from_slice(&event).unwrap();
        for record in event["Records"].as_array().unwrap() {
            let image = &record["dynamodb"]["NewImage"];
            let value = image["value"]["N"].as_str().unwrap().parse().unwrap();
            seen.lock().unwrap().push((image["SK"]["S"].as_str().unwrap().to_owned(), value));
        }
        std::future::ready(Ok(b"{}".to_vec()))
    };
    let settings = MappingSettings { batch_size: 7, ..MappingSettings::default() };
    let (progress, checkpoints) = (MappingProgress::default(), MemoryCheckpoints::default());
    let control = MappingControl::default();
    let write = async {
        for value in 0..20 {
            futures::future::join_all(["a", "b", "c"].map(|sort| put(&client, sort, value))).await;
        }
        control.drain();
    };
    let options =
        MappingOptions { pace: MappingPace::local(), ..MappingOptions::new(&progress, &checkpoints) };
    let mapping = EventSourceMapping::new(&stream, &handler, &SystemClock, &settings, options);
    let ((), delivered) = futures::future::join(write, mapping.run(&control)).await;
    assert_eq!(delivered.unwrap(), MappingEnd::Drained);
    for sort in ["a", "b", "c"] {
        let of_item: Vec<i64> =
            seen.lock().unwrap().iter().filter(|(seen, _)| seen == sort).map(|(_, value)| *value).collect();
        assert_eq!(of_item, (0..20).collect::<Vec<_>>());
    }
    assert_eq!((progress.counts().read, progress.counts().accepted), (60, 60));
}

#[tokio::test]
async fn only_expired_items_are_swept_and_marked() {
    let (server, client) = started().await;
    for (sort, ttl) in [("past", 1_700_000_000), ("future", 4_000_000_000)] {
        let put = client.put_item().table_name(TABLE).item("PK", text("p")).item("SK", text(sort));
        put.item("ttl", number(ttl)).send().await.unwrap();
    }
    assert_eq!(server.sweep_expired().await.unwrap(), 1);
    assert_eq!(server.sweep_expired().await.unwrap(), 0);
    let stream = server.stream(TABLE).await.unwrap();
    let (_, expiry) = records(&stream).await.pop().unwrap();
    assert_eq!(expiry["eventName"], "REMOVE");
    assert_eq!(expiry["dynamodb"]["OldImage"]["SK"]["S"], "past");
    assert_eq!(
        expiry["userIdentity"],
        serde_json::json!({"type": "Service", "principalId": "dynamodb.amazonaws.com"})
    );
}

#[tokio::test]
async fn a_cancelled_transaction_returns_reasons_and_the_old_item() {
    let (server, client) = started().await;
    put(&client, "there", 7).await;
    let fresh = Put::builder().table_name(TABLE).item("PK", text("p")).item("SK", text("fresh"));
    let refused = Update::builder()
        .table_name(TABLE)
        .key("PK", text("p"))
        .key("SK", text("there"))
        .update_expression("SET #v = :new")
        .condition_expression("#v = :old")
        .expression_attribute_names("#v", "value")
        .expression_attribute_values(":new", number(9))
        .expression_attribute_values(":old", number(8))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    let error = client
        .transact_write_items()
        .transact_items(TransactWriteItem::builder().put(fresh.build().unwrap()).build())
        .transact_items(TransactWriteItem::builder().update(refused.build().unwrap()).build())
        .send()
        .await
        .unwrap_err()
        .into_service_error();
    let aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError::TransactionCanceledException(
        cancelled,
    ) = error
    else {
        panic!("another error: {error}")
    };
    let reasons = cancelled.cancellation_reasons();
    assert_eq!(reasons[0].code(), Some("None"));
    assert_eq!(reasons[1].code(), Some("ConditionalCheckFailed"));
    let stored: &HashMap<_, _> = reasons[1].item().unwrap();
    assert_eq!(stored["value"], number(7));
    let absent = client.get_item().table_name(TABLE).key("PK", text("p")).key("SK", text("fresh"));
    assert!(absent.send().await.unwrap().item.is_none());
    server.stop().await.unwrap();
}

#[tokio::test]
async fn consumed_capacity_is_that_of_aws() {
    let (_server, client) = started().await;
    let item = |sort: &str, bytes: usize| {
        HashMap::from([
            ("PK".to_owned(), text("p")),
            ("SK".to_owned(), text(sort)),
            ("owner".to_owned(), text("o")),
            ("fill".to_owned(), text(&"x".repeat(bytes))),
        ])
    };
    let put = client.put_item().table_name(TABLE).set_item(Some(item("a", 10)));
    let put = put.return_consumed_capacity(ReturnConsumedCapacity::Total).send().await.unwrap();
    let single = put.consumed_capacity.unwrap();
    // One unit in the table, one in the index.
    assert_eq!(single.capacity_units, Some(2.0));
    let put = |item| {
        let put = Put::builder().table_name(TABLE).set_item(Some(item)).build().unwrap();
        TransactWriteItem::builder().put(put).build()
    };
    let transaction = client
        .transact_write_items()
        .transact_items(put(item("b", 10)))
        .transact_items(put(item("c", 1500)))
        .return_consumed_capacity(ReturnConsumedCapacity::Total)
        .send()
        .await
        .unwrap();
    let total: f64 = transaction.consumed_capacity().iter().filter_map(|table| table.capacity_units).sum();
    // 1 + 2 units: twice in the table, once in the index, where a transaction costs no more than a single write.
    assert_eq!(total, 9.0);
}

#[tokio::test]
async fn every_response_has_a_date() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let (server, _client) = started().await;
    let address = server.endpoint().replacen("http://", "", 1);
    let mut connection = tokio::net::TcpStream::connect(&address).await.unwrap();
    let request = format!("GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    connection.read_to_string(&mut response).await.unwrap();
    assert!(response.to_ascii_lowercase().contains("\r\ndate: "), "{response}");
}
