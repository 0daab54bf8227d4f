//! The ledger on the embedded DynamoDB, over HTTP: its index of parked items, and its limit on expressions.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_functions::{AggregatedBatch, StreamAggregator};
use afterwrite_ledger::Ledger;
use afterwrite_local::dynamodb::{EmbeddedDynamoDb, PARKED_INDEX, TableDefinition};
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::table::{Model, ProblemCode};
use afterwrite_services::dynamodb::DynamoDb;
use afterwrite_tests::change_record::{expired, stream_of, stream_record};
use afterwrite_tests::deployment::event;
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Map, Value, json};

use super::world::{STATE, TABLE, parsed, source};

const LABEL: &str = "2026-02-06T10:00:00.000";

/// The aggregator of a model, with a state table of its own.
struct HttpWorld {
    server: EmbeddedDynamoDb,
    aggregator: StreamAggregator<DynamoDb, SystemClock>,
}

impl HttpWorld {
    async fn new(model: &str) -> Self {
        let server = EmbeddedDynamoDb::start().await.expect("a server");
        server.create_table(&TableDefinition::state(STATE)).await.expect("a table");
        let tables = DynamoDb::new(server.client());
        let ledger = Ledger::new(parsed(model), vec![TABLE.into()], Arc::from(STATE), tables, SystemClock);
        Self { server, aggregator: StreamAggregator::new(ledger) }
    }

    async fn deliver(&self, records: &[Value]) -> AggregatedBatch {
        let deadline = SystemClock.now().plus(Duration::from_secs(60));
        self.aggregator.handle(event(records).as_bytes(), deadline).await.expect("an event")
    }

    /// The parked items, as the index lists them: sort key, and `behind`.
    async fn parked(&self) -> Vec<(String, String)> {
        let scan = self.server.client().scan().table_name(STATE).index_name(PARKED_INDEX);
        let items = scan.send().await.expect("a scan of the index").items.unwrap_or_default();
        let text = |value: Option<&AttributeValue>| value.and_then(|value| value.as_s().ok()).cloned();
        let listed =
            |item: &HashMap<String, AttributeValue>| Some((text(item.get("SK"))?, text(item.get("behind"))?));
        items.iter().map(|item| listed(item).expect("a key and a mark")).collect()
    }

    /// A measure of the rollup `TOTAL#s1`.
    async fn measure(&self, name: &str) -> Option<String> {
        let get = self.server.client().get_item().table_name(STATE).consistent_read(true);
        let get = get.key("PK", AttributeValue::S("TOTAL#s1".to_owned()));
        let got = get.key("SK", AttributeValue::S("ROLLUP".to_owned())).send().await.expect("an answer");
        got.item?.get(name)?.as_n().ok().cloned()
    }
}

/// The record number `number` of the stream: an image of the reading `reading`, or its expiry.
fn record(number: u32, reading: &str, attributes: Map<String, Value>, is_expiry: bool) -> Value {
    let mut image = Value::Object(attributes);
    image["PK"] = json!({ "S": "SENSOR#s1" });
    image["SK"] = json!({ "S": format!("READING#{reading}") });
    let number = number.to_string();
    let change = (&*number, SystemClock.now().epoch_seconds());
    let record = |images| stream_record(&stream_of(TABLE), &["PK", "SK"], change, images);
    if is_expiry {
        return expired(record((Some(&image), None)));
    }
    let mut change = record((None, Some(&image)));
    change["eventName"] = json!("MODIFY");
    change
}

/// The attributes of a reading: the first is `first`, and each other one is larger by 1.
fn numbers(first: usize, count: usize) -> Map<String, Value> {
    let number = |index: usize| (format!("value_{}", index + 1), json!({ "N": (first + index).to_string() }));
    (0..count).map(number).collect()
}

/// A model of readings with this many attributes, each with a sum.
fn readings(sums: usize) -> String {
    let attributes: Vec<String> = (1..=sums).map(|sum| format!("value_{sum} = \"N\"")).collect();
    let attributes = attributes.join(", ");
    let mut model = format!(
        r##"
[entities.reading]
key = {{ PK = "SENSOR#{{sensor_id}}", SK = "READING#{{reading_id}}" }}
attributes = {{ {attributes} }}
[rollups.sensor]
key = {{ PK = "TOTAL#{{sensor_id}}", SK = "ROLLUP" }}
[[aggregates]]
name = "readings"
of = "reading"
into = "sensor"
[aggregates.measures]
"##
    );
    for sum in 1..=sums {
        writeln!(model, "total_{sum} = {{ sum = \"value_{sum}\" }}").expect("a text");
    }
    model
}

fn position(number: u32) -> String {
    format!("{LABEL}#{number:040}")
}

#[tokio::test]
async fn parked_items_are_listed_by_the_index_until_they_are_healed() {
    let world = HttpWorld::new(&readings(1)).await;
    let misfit = Map::from_iter([("value_1".to_owned(), json!({ "S": "three" }))]);
    assert!(world.deliver(&[record(1, "r1", numbers(3, 1), false)]).await.parked.is_empty());
    assert_eq!(world.parked().await, [], "the index is sparse");

    let batch = [record(2, "r1", misfit.clone(), false), record(3, "r2", misfit.clone(), true)];
    let delivered = world.deliver(&batch).await;
    assert_eq!((delivered.failures.len(), delivered.parked.len()), (0, 2));
    let mut listed = world.parked().await;
    listed.sort();
    let expiry = format!("READING#r2#EXPIRED#{}", position(3));
    let expected = [("READING#r1".to_owned(), position(2)), (expiry, position(3))];
    assert_eq!(listed, expected.map(|(key, position)| (key, format!("{position} RecordError"))));

    // The next change heals the item, and the corrected record heals the expiry.
    let batch = [record(4, "r1", numbers(5, 1), false), record(3, "r2", numbers(2, 1), true)];
    let delivered = world.deliver(&batch).await;
    assert_eq!((delivered.failures.len(), delivered.parked.len()), (0, 0));
    assert_eq!(world.parked().await, []);
    assert_eq!(world.measure("total_1").await.as_deref(), Some("7"));
    assert_eq!(world.measure("settled_total_1").await.as_deref(), Some("2"));
}

#[tokio::test]
async fn the_largest_rollup_that_the_loader_accepts_is_written_by_one_update() {
    const MOST_SUMS: usize = 213;
    let refused =
        Model::parse(&source(&readings(MOST_SUMS + 1)), "edge.toml").expect_err("one more is refused");
    let codes: Vec<ProblemCode> = refused.problems.iter().map(|problem| problem.code).collect();
    assert_eq!(codes, [ProblemCode::UpdateTooLong]);

    // One transaction adds to every measure and to every settled part, to each a number of its own.
    let world = HttpWorld::new(&readings(MOST_SUMS)).await;
    let (counted, expired) = (numbers(10_001, MOST_SUMS), numbers(1, MOST_SUMS));
    let batch = [record(1, "r1", counted, false), record(2, "r2", expired, true)];
    let delivered = world.deliver(&batch).await;
    assert_eq!((delivered.failures.len(), delivered.parked.len()), (0, 0));
    assert_eq!(delivered.totals.transactions, 1);
    let last = format!("total_{MOST_SUMS}");
    assert_eq!(world.measure(&last).await.as_deref(), Some("10426"));
    assert_eq!(world.measure(&format!("settled_{last}")).await.as_deref(), Some("213"));
}
