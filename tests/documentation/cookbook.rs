//! The code that `docs/COOKBOOK.md` shows reads rollups from a real table: the Rust example is compiled here, and the examples in other
//! languages run as programs. All of them read the same items from an embedded DynamoDB.

use std::process::Command;

use afterwrite_local::dynamodb::{EmbeddedDynamoDb, KeyDefinition, TableDefinition};
use afterwrite_local::sdk::{CREDENTIAL, REGION};
use afterwrite_tests::{page, python, tools};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};

use super::rollup_reader::{RankedGroup, read_buckets, read_ranked, read_sharded};

pub(super) const PAGE: &str = include_str!("../../docs/COOKBOOK.md");
const READER: &str = include_str!("rollup_reader.rs");
const TABLE: &str = "state";

/// 120 shards of two orders each, of which one is missing; three days; three items by sales; the players of two games.
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

/// Seven players of a game, in two shards of a rank, and the only player of another game, whose rank has one partition.
async fn write_players(client: &Client) {
    let players = [("ann", 90), ("ben", 70), ("cem", 70), ("dee", 50), ("eva", 30), ("flo", 20), ("gus", 10)];
    for (place, (player, points)) in players.into_iter().enumerate() {
        write_player(client, player, &format!("score#GAME#chess#{}", place % 2), points).await;
    }
    write_player(client, "hal", "score#GAME#checkers", 42).await;
}

async fn write_player(client: &Client, player: &str, group: &str, points: i64) {
    let put = client.put_item().table_name(TABLE);
    let put = put.item("PK", text(format!("PLAYER#{player}"))).item("SK", text("SCORE".to_owned()));
    let put = put.item("rank_points", text(group.to_owned()));
    put.item("points", AttributeValue::N(points.to_string())).send().await.expect("a ranked rollup");
}

fn text(value: String) -> AttributeValue {
    AttributeValue::S(value)
}

/// The index of a rank, as [`TableDefinition::ranked`] defines it.
fn rank_index() -> (String, KeyDefinition) {
    let types = [("points".to_owned(), "N".to_owned())].into();
    ("rank_points".to_owned(), KeyDefinition { types, ..KeyDefinition::new("rank_points", "points") })
}

/// The results that all examples must read from [`written`].
fn expected() -> Value {
    json!({
        "sharded": 238,
        "buckets": ["ROLLUP#DAY#2026-02-01", "ROLLUP#DAY#2026-02-28"],
        "ranked": ["ITEM#b", "ITEM#c"],
        "top": [90, 70, 70],
        "around": [70, 70, 50, 30],
        "ranks": [1, 2, 4, 7],
        "only": [42],
    })
}

/// Runs a program, with the table as its last argument: it prints the results as JSON.
pub(super) async fn assert_reads_all(mut program: Command) {
    let server = written().await;
    program.arg(TABLE).envs([
        ("AWS_ENDPOINT_URL_DYNAMODB", &*server.endpoint()),
        // Python's SDK reads the second name.
        ("AWS_REGION", REGION),
        ("AWS_DEFAULT_REGION", REGION),
        ("AWS_ACCESS_KEY_ID", CREDENTIAL),
        ("AWS_SECRET_ACCESS_KEY", CREDENTIAL),
    ]);
    let printed = tokio::task::spawn_blocking(move || tools::output(program)).await.expect("a program");
    assert_eq!(serde_json::from_slice::<Value>(&printed).expect("JSON"), expected());
    server.stop().await.expect("the end of the server");
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
    let [top, around, ranks, only] = leaderboard(&client).await;
    let read = json!({
        "sharded": i64::try_from(sharded).unwrap(), "buckets": sorts(buckets), "ranked": sorts(ranked),
        "top": top, "around": around, "ranks": ranks, "only": only,
    });
    assert_eq!(read, expected());
    server.stop().await.unwrap();
}

/// The points of the top three and of the page around 50, the ranks of four values, and the points of the other game.
async fn leaderboard(client: &Client) -> [Vec<i64>; 4] {
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
    let other = RankedGroup { group: "score#GAME#checkers", shards: 1, ..group };
    let only = other.top(client, 3).await.expect("the only player");
    [points(top), points(around), ranks, points(only)]
}

#[tokio::test]
#[ignore = "needs boto3: run tests/run"]
async fn the_python_example_reads_sharded_bucketed_and_ranked_rollups() {
    let mut command = python::script("documentation/read_rollups.py");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/COOKBOOK.md"));
    assert_reads_all(command).await;
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
