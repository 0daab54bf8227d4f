//! B3: a model that is older than the ledger is refused before a job is planned, also if the job reads no entry.

use aws_sdk_dynamodb::types::AttributeValue;

use super::deployment::{STATE, Shop};

/// The first generation, and the second one with another column, as `--model` takes them.
fn models(shop: &Shop) -> [String; 2] {
    let model = std::fs::read_to_string(shop.path("model.toml")).unwrap();
    let model =
        model.replace("attributes = { price", "attributes = { note = \"S\", placed_at = \"S\", price");
    let dataset =
        "[datasets.orders]\nof = \"order\"\npartition = \"placed_at:day\"\ncolumns.order = \"string\"\n";
    let older = format!("{model}{dataset}");
    let newer = format!("{}columns.note = \"string\"\n", older.replace("generation = 1", "generation = 2"));
    [("older.toml", older), ("newer.toml", newer)].map(|(name, text)| {
        std::fs::write(shop.path(name), text).unwrap();
        format!("--model={}", shop.path(name).display())
    })
}

const DATASETS: [&str; 4] = ["backfill", "--datasets-only", "--bucket", "archive"];

/// Each job that reads no entry, and one that does.
fn assert_refused(shop: &Shop, older: &str) {
    let jobs = shop.text(0, &["jobs", "list"]);
    let export = "--export=s3://archive/AWSDynamoDB/01";
    for job in [
        &[&DATASETS[..], &["--yes"]].concat()[..],
        &["backfill", "--yes", "--without-recovery"],
        &["backfill", "--bulk", export, "--mapping-since=2026-01-01", "--into=fresh", "--without-recovery"],
        &["replay", "records.jsonl", "--into=fresh", "--yes"],
    ] {
        let refused = shop.text(2, &[job, &[older]].concat());
        for words in ["written by a newer table model", "ledger's generation: 2", "model's generation: 1"] {
            assert!(refused.contains(words), "no {words}: {job:?}: {refused}");
        }
    }
    assert_eq!(shop.text(0, &["jobs", "list"]), jobs, "a job that is refused is not created");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn b3_a_model_that_is_older_than_entries_of_the_ledger_is_refused() {
    let shop = Shop::with_orders(30).await;
    let [older, newer] = models(&shop);
    std::fs::write(shop.path("records.jsonl"), Shop::records(0..30)).unwrap();
    // Of an empty ledger, each model may be the first.
    for model in [&newer, &older] {
        assert!(shop.text(2, &[&DATASETS[..], &[model]].concat()).contains("datasets: about"));
    }
    shop.text(0, &["replay", "records.jsonl", "--yes", "--without-recovery", &newer]);
    assert_refused(&shop, &older);
    assert!(shop.text(2, &[&DATASETS[..], &[&newer]].concat()).contains("datasets: about"));
    shop.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn b3_a_model_that_is_older_than_a_backfill_that_is_done_is_refused() {
    let shop = Shop::with_orders(30).await;
    let [older, newer] = models(&shop);
    std::fs::write(shop.path("records.jsonl"), Shop::records(0..30)).unwrap();
    for model in [&older, &newer] {
        shop.text(0, &["backfill", "--yes", "--without-recovery", model]);
    }
    // Nothing was counted otherwise, so no entry shows the second generation.
    let scan = shop.server.client().scan().table_name(STATE).into_paginator().items().send();
    let items: Vec<_> = scan.try_collect().await.unwrap();
    let generations: Vec<_> = items.iter().filter_map(|item| item.get("generation")).collect();
    let first = AttributeValue::N("1".to_owned());
    assert!(generations.len() == 30 && generations.iter().all(|generation| **generation == first));
    assert_refused(&shop, &older);
    shop.server.stop().await.unwrap();
}
