//! Rollups that are sources, expire while nothing reads the state table's stream, and are deleted by TTL: they stay counted, and every
//! command names them.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use afterwrite_model::record::Timestamp;
use aws_sdk_dynamodb::types::AttributeValue;

use super::levels::{FILL, LevelDeployment, MODEL, TABLE};
use super::world::STATE;

/// How long after the orders are written their minute expires, in seconds: longer than a backfill takes.
const LIFETIME: u64 = 20;

fn epoch_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// The model of levels, whose days are minutes that expire `after` seconds after their start.
fn expiring(after: u64) -> String {
    let minutes = MODEL.replace("DAY#{placed_at:day}", "DAY#{placed_at:minute}").replace(
        "[rollups.day]",
        &format!("[rollups.day]\nexpires = {{ after = \"{after} seconds\", of = \"placed_at\" }}"),
    );
    assert_ne!(minutes, MODEL);
    minutes
}

async fn put(deployment: &LevelDeployment, number: u32, placed_at: &str) {
    let text = |value: &str| AttributeValue::S(value.to_owned());
    let put = deployment.dynamodb.client().put_item().table_name(TABLE);
    let put = put.item("pk", text("SHOP#1")).item("sk", text(&format!("ORDER#{number}")));
    let put = put.item("total", AttributeValue::N("10".to_owned())).item("placed_at", text(placed_at));
    put.item("customer", text("c1")).item("status", text("PAID")).send().await.unwrap();
}

/// The revenue of the only shop, in its month and in all, and the minutes that the month has.
async fn revenue(deployment: &LevelDeployment) -> [i64; 3] {
    let numbers = deployment.numbers_of(STATE).await;
    let sum = |begin: &str, measure: &str| -> i64 {
        let of = numbers.iter().filter(|((_, sort, name), _)| sort.starts_with(begin) && name == measure);
        of.map(|(_, number)| number).sum()
    };
    [sum("MONTH#", "revenue"), sum("ALL", "revenue"), sum("MONTH#", "days")]
}

/// Deletes the minutes as TTL does; no record of it is read.
async fn delete_minutes(deployment: &LevelDeployment) -> usize {
    let client = deployment.dynamodb.client();
    let pages = client.scan().table_name(STATE).into_paginator().items().send();
    let items = pages.collect::<Result<Vec<_>, _>>().await.unwrap();
    let minutes: Vec<_> = items
        .into_iter()
        .filter(|item| {
            let begins = |name: &str, text: &str| item[name].as_s().unwrap().starts_with(text);
            begins("PK", "SHOP#") && begins("SK", "DAY#")
        })
        .collect();
    for item in &minutes {
        let delete = client.delete_item().table_name(STATE);
        delete.key("PK", item["PK"].clone()).key("SK", item["SK"].clone()).send().await.unwrap();
    }
    minutes.len()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_source_rollup_that_expired_without_a_record_stays_counted_and_is_named() {
    let deployment = LevelDeployment::start().await;
    let now = epoch_seconds();
    let model = expiring(now % 60 + LIFETIME);
    fs::write(deployment.folder.path().join("model.toml"), model).unwrap();
    let placed_at = Timestamp::from_epoch_seconds(i64::try_from(now).unwrap()).to_string();
    for number in 0..3 {
        put(&deployment, number, &placed_at).await;
    }
    deployment.run(0, &FILL);
    assert_eq!(revenue(&deployment).await, [30, 30, 1]);
    deployment.run(0, &["verify", "--tolerance", "0"]);

    tokio::time::sleep(Duration::from_secs((now + LIFETIME + 2).saturating_sub(epoch_seconds()))).await;
    // The minute, and the member of its distinct count.
    assert_eq!(delete_minutes(&deployment).await, 2);
    let backfills =
        [&FILL[..], &[&FILL[..], &["--all"]].concat(), &[&FILL[..], &["--accept-lives"]].concat()]
            .map(<[&str]>::to_vec);
    for backfill in backfills {
        let told = deployment.run(1, &backfill);
        assert!(told.contains("rollups that are sources have expired"), "{backfill:?}: {told}");
        assert_eq!(revenue(&deployment).await, [30, 30, 1], "{backfill:?}");
    }
    let told = deployment.run(1, &["verify", "--tolerance", "0", "--report", "drift.jsonl"]);
    assert!(told.contains("no record shows that TTL deleted it"), "{told}");
    deployment.run(1, &["repair", "drift.jsonl", "--yes", "--tolerance", "0"]);
    assert_eq!(revenue(&deployment).await, [30, 30, 1], "after the repair");
    deployment.dynamodb.stop().await.unwrap();
}
