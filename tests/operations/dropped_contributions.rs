//! Items that are counted after a rollup of theirs has expired, if the rollup is a source: every command that counts them says that the levels above lack
//! them, and `replay --into` counts them.

use std::collections::BTreeMap;
use std::fs;

use afterwrite_local::dynamodb::TableDefinition;
use aws_sdk_dynamodb::types::AttributeValue;

use super::levels::{FILL, LevelDeployment, Order, TABLE, assert_numbers, recount, with_expired_days};
use super::rebuilt_levels::record;

/// The line of a command: each order is missing in its day, and in the members of the day's distinct count.
const SIX: &str = "6 contributions to rollups that are sources and have expired";

/// Three orders of one day, which has expired.
fn orders() -> [Order; 3] {
    [0, 1, 2].map(|number| (0, number, 1, 2, 10, number, true))
}

/// A deployment with the orders, of which nothing is counted, and their records in a file.
async fn uncounted() -> LevelDeployment {
    let deployment = LevelDeployment::start().await;
    fs::write(deployment.folder.path().join("model.toml"), with_expired_days()).unwrap();
    for order in orders() {
        deployment.put(order).await;
    }
    record(&deployment, orders().len());
    deployment
}

async fn fresh_table(deployment: &LevelDeployment) {
    let fresh = TableDefinition { ttl_attribute: None, ..TableDefinition::state("fresh") };
    deployment.dynamodb.create_table(&TableDefinition { stream: true, ..fresh }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_backfill_names_what_the_levels_above_an_expired_source_lack() {
    let deployment = uncounted().await;
    let plan = deployment.run(2, &["backfill", "--without-recovery"]);
    assert!(plan.contains("sources and have expired"), "{plan}");
    let text = deployment.run(1, &[&FILL[..], &["--json"]].concat());
    assert!(text.contains(SIX) && text.contains("replay --into"), "{text}");
    assert!(text.contains("\"dropped_contributions\": 6"), "{text}");
    // It is known once: the ledger has counted the orders.
    for arguments in [FILL.to_vec(), [&FILL[..], &["--all"]].concat()] {
        let text = deployment.run(0, &arguments);
        assert!(!text.contains("contributions"), "{text}");
    }
    fresh_table(&deployment).await;
    deployment.run(0, &["replay", "records.jsonl", "--into", "fresh", "--yes"]);
    assert_numbers(deployment.numbers_of("fresh").await, recount(&orders(), &BTreeMap::from([(0, 30)])));
    deployment.dynamodb.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_late_replay_names_what_the_levels_above_an_expired_source_lack() {
    let deployment = uncounted().await;
    let text = deployment.run(1, &["replay", "records.jsonl", "--dry-run"]);
    assert!(text.contains(SIX), "{text}");
    let replay = ["replay", "records.jsonl", "--yes", "--without-recovery", "--json"];
    let text = deployment.run(1, &replay);
    assert!(text.contains(SIX) && text.contains("\"dropped_contributions\": 6"), "{text}");
    let text = deployment.run(0, &replay);
    assert!(!text.contains("contributions to rollups"), "{text}");
    deployment.dynamodb.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_repair_names_what_the_levels_above_an_expired_source_lack() {
    let deployment = uncounted().await;
    deployment.run(1, &["verify", "--tolerance", "0", "--report", "drift.jsonl"]);
    let repair = ["repair", "drift.jsonl", "--tolerance", "0"];
    let text = deployment.run(1, &[&repair[..], &["--dry-run"]].concat());
    assert!(text.contains(SIX), "{text}");
    let text = deployment.run(1, &[&repair[..], &["--yes", "--without-recovery"]].concat());
    assert!(text.contains(SIX), "{text}");
    deployment.run(0, &[&repair[..], &["--yes", "--without-recovery"]].concat());
    deployment.dynamodb.stop().await.unwrap();
}

/// An order is parked, and is corrected after its day has expired.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_redrive_of_parked_items_names_what_the_levels_above_an_expired_source_lack() {
    let deployment = LevelDeployment::start().await;
    fs::write(deployment.folder.path().join("model.toml"), with_expired_days()).unwrap();
    let text = |value: &str| AttributeValue::S(value.to_owned());
    let put = deployment.dynamodb.client().put_item().table_name(TABLE).item("pk", text("SHOP#0"));
    let put = put.item("sk", text("ORDER#0")).item("total", text("ten")).item("customer", text("c0"));
    put.item("placed_at", text("2026-02-01T10:00:00Z")).item("status", text("PAID")).send().await.unwrap();
    record(&deployment, 1);
    let parked = deployment.run(1, &["replay", "records.jsonl", "--yes", "--without-recovery"]);
    assert!(parked.contains("parked"), "{parked}");
    let [corrected, ..] = orders();
    deployment.put(corrected).await;
    let two = "2 contributions to rollups that are sources and have expired";
    for mode in [&["--dry-run"][..], &["--yes", "--without-recovery"]] {
        let text = deployment.run(1, &[&["redrive"][..], mode].concat());
        assert!(text.contains(two), "{text}");
    }
    deployment.run(0, &["redrive", "--yes", "--without-recovery"]);
    deployment.dynamodb.stop().await.unwrap();
}

/// The archive begins after three of five orders: the backfill of the older ones finds their day expired.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_backfill_after_a_rebuild_names_the_items_that_are_older_than_the_archive() {
    let deployment = LevelDeployment::start().await;
    fs::write(deployment.folder.path().join("model.toml"), with_expired_days()).unwrap();
    for order in orders().into_iter().chain([3, 4].map(|number| (0, number, 1, 2, 10, number, true))) {
        deployment.put(order).await;
    }
    record(&deployment, 5);
    let records = fs::read_to_string(deployment.folder.path().join("records.jsonl")).unwrap();
    let archived: Vec<&str> = records.lines().skip(3).collect();
    assert_eq!(archived.len(), 2);
    fs::write(deployment.folder.path().join("archive.jsonl"), archived.join("\n")).unwrap();
    fresh_table(&deployment).await;
    deployment.run(0, &["replay", "archive.jsonl", "--into", "fresh", "--yes"]);
    let text = deployment.run(1, &[&FILL[..], &["--state-table", "fresh"]].concat());
    assert!(text.contains(SIX), "{text}");
    deployment.dynamodb.stop().await.unwrap();
}

/// Nothing counts the days; the members of their distinct counts expire with them.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn an_expired_rollup_that_is_no_source_is_not_named() {
    let deployment = uncounted().await;
    let model = with_expired_days();
    let by_order = model.replace("name = \"days\"\nof = \"day\"", "name = \"days\"\nof = \"order\"").replace(
        "days = \"count\"\nrevenue = { sum = \"revenue\" }",
        "days = \"count\"\nrevenue = { sum = \"total\" }",
    );
    assert_ne!(by_order, model);
    fs::write(deployment.folder.path().join("model.toml"), by_order).unwrap();
    let text = deployment.run(0, &FILL);
    assert!(!text.contains("contributions"), "{text}");
    deployment.dynamodb.stop().await.unwrap();
}
