//! The code that `docs/COOKBOOK.md` shows reads rollups from a real table: the Rust example is compiled here, and the Python example
//! runs in an interpreter. Both read the same items from an embedded DynamoDB.

use afterwrite_local::dynamodb::{EmbeddedDynamoDb, KeyDefinition, TableDefinition};
use afterwrite_tests::{page, python};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};

use super::rollup_reader::{RankedGroup, read_buckets, read_ranked, read_sharded};

const PAGE: &str = include_str!("../../docs/COOKBOOK.md");
const READER: &str = include_str!("rollup_reader.rs");
const TABLE: &str = "state";

/// 120 shards of two orders each, of which one is missing; three days; three items by sales; seven players of a game in two shards of a rank.
async fn written() -> EmbeddedDynamoDb {
    let server = EmbeddedDynamoDb::start().await.expect("a server");
    let key = KeyDefinition::new("PK", "SK");
    server
        .create_table(&TableDefinition {
            name: TABLE.to_owned(),
            key,
            indexes: vec![rank_index()],
            ..TableDefinition::default()
        })
        .await
        .expect("a table");
    let mut rollups: Vec<(String, &str, i64)> = (0..120)
        .filter(|shard| *shard != 7)
        .map(|shard| (format!("ORDERS#SHARD#{shard}"), "ROLLUP", 2))
        .collect();
    for (partition, sort, orders) in [
        ("REPO", "ROLLUP#DAY#2026-01-31", 1),
        ("REPO", "ROLLUP#DAY#2026-02-01", 2),
        ("REPO", "ROLLUP#DAY#2026-02-28", 3),
        ("REPO", "ROLLUP#DAY#2026-03-01", 4),
        ("SALES", "ITEM#a", 5),
        ("SALES", "ITEM#b", 70),
        ("SALES", "ITEM#c", 6),
        ("SALES", "OTHER", 1000),
    ] {
        rollups.push((partition.to_owned(), sort, orders));
    }
    for (partition, sort, orders) in rollups {
        let put = server.client().put_item().table_name(TABLE).item("PK", AttributeValue::S(partition));
        let put = put.item("SK", AttributeValue::S(sort.to_owned()));
        put.item("orders", AttributeValue::N(orders.to_string())).send().await.expect("a rollup");
    }
    write_players(&server.client()).await;
    server
}

/// Seven players of a game, in two shards of a rank.
async fn write_players(client: &Client) {
    let players = [("ann", 90), ("ben", 70), ("cem", 70), ("dee", 50), ("eva", 30), ("flo", 20), ("gus", 10)];
    for (place, (player, points)) in players.into_iter().enumerate() {
        let put = client.put_item().table_name(TABLE);
        let put = put.item("PK", text(format!("PLAYER#{player}"))).item("SK", text("GAME#chess".to_owned()));
        let put = put.item("rank_points", text(format!("score#GAME#chess#{}", place % 2)));
        put.item("points", AttributeValue::N(points.to_string())).send().await.expect("a ranked rollup");
    }
}

fn text(value: String) -> AttributeValue {
    AttributeValue::S(value)
}

/// The index of a rank, as [`TableDefinition::ranked`] defines it.
fn rank_index() -> (String, KeyDefinition) {
    let types = [("points".to_owned(), "N".to_owned())].into();
    ("rank_points".to_owned(), KeyDefinition { types, ..KeyDefinition::new("rank_points", "points") })
}

/// The results that both examples must read from [`written`].
fn expected() -> Value {
    json!({
        "sharded": 238,
        "buckets": ["ROLLUP#DAY#2026-02-01", "ROLLUP#DAY#2026-02-28"],
        "ranked": ["ITEM#b", "ITEM#c"],
        "top": [90, 70, 70],
        "around": [70, 70, 50, 30],
        "ranks": [1, 2, 4, 7],
    })
}

#[tokio::test]
async fn the_rust_example_reads_sharded_bucketed_and_ranked_rollups() {
    let server = written().await;
    let client = server.client();
    let sorts = |rollups: Vec<std::collections::HashMap<String, AttributeValue>>| -> Vec<String> {
        rollups.iter().map(|rollup| rollup["SK"].as_s().unwrap().clone()).collect()
    };
    let sharded = read_sharded(&client, TABLE, ("ORDERS", "ROLLUP"), 120, "orders").await.unwrap();
    let february = ("ROLLUP#DAY#2026-02-01", "ROLLUP#DAY#2026-02-28");
    let buckets = read_buckets(&client, TABLE, "REPO", february).await.unwrap();
    let ranked = read_ranked(&client, TABLE, ("SALES", "ITEM#"), "orders", 2).await.unwrap();
    let [top, around, ranks] = leaderboard(&client).await;
    let read = json!({
        "sharded": i64::try_from(sharded).unwrap(), "buckets": sorts(buckets), "ranked": sorts(ranked),
        "top": top, "around": around, "ranks": ranks,
    });
    assert_eq!(read, expected());
    server.stop().await.unwrap();
}

/// The points of the top three and of the page around 50, and the ranks of four values.
async fn leaderboard(client: &Client) -> [Vec<i64>; 3] {
    let group = RankedGroup { table: TABLE, group: "score#GAME#chess", measure: "points", shards: 2 };
    let points = |rollups: Vec<std::collections::HashMap<String, AttributeValue>>| -> Vec<i64> {
        rollups
            .iter()
            .map(|rollup| rollup["points"].as_n().expect("a number").parse().expect("points"))
            .collect()
    };
    let (top, around) =
        (group.top(client, 3).await.expect("the top"), group.around(client, 50, 2).await.expect("a page"));
    let mut ranks = Vec::new();
    for value in [90, 70, 50, 10] {
        ranks.push(group.rank(client, value).await.expect("a rank"));
    }
    [points(top), points(around), ranks]
}

#[tokio::test]
#[ignore = "needs boto3: run tests/run"]
async fn the_python_example_reads_sharded_bucketed_and_ranked_rollups() {
    let server = written().await;
    let mut command = python::script("documentation/read_rollups.py");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/COOKBOOK.md")).arg(TABLE);
    command.env("AWS_ENDPOINT_URL_DYNAMODB", server.endpoint()).env("AWS_DEFAULT_REGION", "eu-west-1");
    command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
    let done = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(serde_json::from_slice::<Value>(&done.stdout).unwrap(), expected());
    server.stop().await.unwrap();
}

#[test]
fn the_page_shows_the_rust_code_that_is_tested() {
    let examples = page::examples(PAGE);
    let of = |kind: &str| examples.iter().filter(|example| example.kind == kind).count();
    let rust: String =
        examples.iter().filter(|example| example.kind == "rust").map(|example| &*example.text).collect();
    assert_eq!(rust, READER, "docs/COOKBOOK.md differs from tests/documentation/rollup_reader.rs");
    assert_eq!(["python", "rust", "js", "go", "java"].map(of), [1; 5]);
}

#[test]
fn every_design_has_a_model_and_its_layout() {
    for name in ["ecommerce", "github", "leaderboard", "marketplace", "metering", "social"] {
        assert!(PAGE.contains(&format!("../common/model/src/table/models/{name}.toml")), "{name}");
    }
}
