//! Rollups of rollups in a state table that is built from an archive or that lost changes: `replay --into`, and `backfill` after a time without a stream.

use std::fs;

use afterwrite_local::dynamodb::TableDefinition;

use super::levels::{
    FILL, LevelDeployment, MODEL, TABLE, assert_numbers, filled, recount, with_expired_days,
};
use super::world::STATE;

/// Writes the records of all orders into a file.
pub(super) fn record(deployment: &LevelDeployment, orders: usize) {
    let records = orders.to_string();
    let record = ["record", "--stream", "--table", TABLE, "--from-start", "--limit", &records];
    deployment.run(0, &[&record[..], &["--out", "records.jsonl"]].concat());
}

/// All days have expired before they are counted: the months and the total keep them, as they would have.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_replay_into_a_fresh_table_counts_expired_sources() {
    let (deployment, orders, best) = filled().await;
    fs::write(deployment.folder.path().join("model.toml"), with_expired_days()).unwrap();
    record(&deployment, orders.len());
    let deleting = TableDefinition { stream: true, ..TableDefinition::state("deleting") };
    let fresh = TableDefinition { ttl_attribute: None, ..TableDefinition::state("fresh") };
    for table in [&deleting, &TableDefinition { stream: true, ..fresh }] {
        deployment.dynamodb.create_table(table).await.unwrap();
    }
    let refused = deployment.run(2, &["replay", "records.jsonl", "--into", "deleting", "--yes"]);
    assert!(refused.contains("update-time-to-live --table-name deleting"), "{refused}");
    deployment.run(0, &["replay", "records.jsonl", "--into", "fresh", "--yes"]);
    assert_numbers(deployment.numbers_of("fresh").await, recount(&orders, &best));
    deployment.dynamodb.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_replay_into_a_fresh_table_counts_every_level() {
    let (deployment, orders, best) = filled().await;
    record(&deployment, orders.len());
    let fresh = |stream| TableDefinition { stream, ..TableDefinition::state("fresh") };
    let replay = ["replay", "records.jsonl", "--into", "fresh", "--yes"];

    deployment.dynamodb.create_table(&fresh(false)).await.unwrap();
    let text = deployment.run(2, &replay);
    assert!(text.contains("update-table --table-name fresh"), "{text}");
    let client = deployment.dynamodb.client();
    client.delete_table().table_name("fresh").send().await.unwrap();
    deployment.dynamodb.create_table(&fresh(true)).await.unwrap();
    let plan = deployment.run(2, &["replay", "records.jsonl", "--into", "fresh"]);
    assert!(plan.contains("level by level"), "{plan}");
    deployment.run(0, &replay);
    assert_numbers(deployment.numbers_of("fresh").await, recount(&orders, &best));
    deployment.run(0, &["state", "diff", STATE, "fresh"]);
    deployment.run(0, &["verify", "--state-table", "fresh", "--tolerance", "0"]);
    deployment.dynamodb.stop().await.unwrap();
}

/// The days changed while no stream recorded it: their sums are equal for the months, which keep only the largest day.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_backfill_brings_a_largest_value_to_the_next_level() {
    let deployment = LevelDeployment::start().await;
    let largest = MODEL.replace(
        "days = \"count\"\nrevenue = { sum = \"revenue\" }",
        "days = \"count\"\nrevenue = { max = \"revenue\" }",
    );
    assert_ne!(largest, MODEL);
    fs::write(deployment.folder.path().join("model.toml"), largest).unwrap();
    deployment.put((1, 1, 5, 2, 40, 3, true)).await;
    deployment.run(0, &FILL);
    deployment.damage("SHOP#1", "DAY#2026-02-05", "revenue").await;
    deployment.run(0, &FILL);
    let numbers = deployment.numbers_of(STATE).await;
    let largest = |sort: &str| numbers.get(&("SHOP#1".into(), sort.into(), "revenue".into())).copied();
    assert_eq!((largest("DAY#2026-02-05"), largest("MONTH#2026-02")), (Some(1040), Some(1040)));
    deployment.dynamodb.stop().await.unwrap();
}
