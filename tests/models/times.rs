//! Times in every form and bucket, from records to rollups, cache keys and rows: the model of `fixtures/times`.

use afterwrite_model::table::Model;
use serde_json::{Value, json};

use super::delivery::DeliveryOrder;
use super::workload::TableWorkload;

const MODEL: &str = include_str!("../fixtures/times/model.toml");
const TABLE: &str = "shop";

/// Made at 2017-10-10T04:00:47Z, a Tuesday in week 41.
const KSUID: &str = "0ujtsYcgvSTl8PAuAdqWYSMnLOv";

fn workload() -> TableWorkload {
    let model = Model::parse(MODEL, "times.toml").unwrap_or_else(|errors| panic!("{errors}"));
    TableWorkload::of_model(model)
}

fn order(created: i64, local_time: &str) -> Value {
    json!({
        "PK": "CUSTOMER#c1", "SK": format!("ORDER#{KSUID}"), "created": created, "local_time": local_time,
        "GSI1PK": format!("ORDER#{KSUID}"),
    })
}

#[tokio::test]
async fn orders_are_counted_by_the_calendar_of_each_rollup() {
    let mut workload = workload();
    // A second after the beginning of 1970: by its size, it would be taken for 1000 seconds.
    workload.put(TABLE, order(1000, "2026-10-25 02:30:00"));
    // The clocks of Berlin show 02:30 twice; the second time is 01:30 UTC. The same hour counts both.
    let mut second = order(1_770_388_200_000, "2026-10-25T01:30:00Z");
    second["PK"] = json!("CUSTOMER#c2");
    second["paid"] = json!("1770315299");
    second["trace"] = json!("017F22E2-79B0-7CC3-98C4-DC0C0C07398F");
    workload.put(TABLE, second);
    let week = "ROLLUP#WEEK#2017-W41";
    workload
        .assert_derived(
            &[
                // The hour begins at 2026-10-25T00:00:00Z.
                ("HOUR#2026-10-25T02", "ROLLUP", json!({ "orders": 2, "expires_at": 1_792_972_800 })),
                // The week begins on 2017-10-09.
                ("CUSTOMER#c1", week, json!({ "orders": 1, "expires_at": 1_939_507_200 })),
                ("CUSTOMER#c2", week, json!({ "orders": 1, "expires_at": 1_939_507_200 })),
                ("MINUTE#1970-01-01T00:00", "ROLLUP", json!({ "orders": 1 })),
                ("MINUTE#2026-02-06T14:30", "ROLLUP", json!({ "orders": 1 })),
                ("QUARTER#1970-Q1", "ROLLUP", json!({ "orders": 1 })),
                ("QUARTER#2026-Q1", "ROLLUP", json!({ "orders": 1 })),
                // 2026-02-05T18:14:59Z; midnight is a second later.
                ("PAID#2026-02-05", "ROLLUP", json!({ "paid": 1 })),
                ("TRACE#2022", "ROLLUP", json!({ "traced": 1, "last_month": "2026-02" })),
            ],
            &[],
        )
        .await;
}

#[tokio::test]
async fn an_order_moves_between_buckets_and_days() {
    let mut workload = workload();
    // Skipped by the clocks of Berlin, which show 03:30 instead.
    workload.put(TABLE, order(1_770_388_200_000, "2026-03-29 02:30:00"));
    workload.assert_row("orders 2026-03-29 INSERT");
    assert_eq!(workload.stale(), ["orders:2026-03-29T03", "orders:2026-Q1"]);
    // In UTC, the day is the same.
    workload.put(TABLE, order(1_775_000_000_000, "2026-03-29T22:15:00Z"));
    let rows: Vec<String> = workload.rows().into_iter().map(|(row, _)| row).collect();
    assert_eq!(rows, ["orders 2026-03-30 MODIFY", "orders 2026-03-29 REMOVE"]);
    assert_eq!(workload.stale(), ["orders:2026-03-29T03", "orders:2026-03-30T00", "orders:2026-Q1"]);
    workload
        .assert_derived(
            &[
                ("HOUR#2026-03-30T00", "ROLLUP", json!({ "orders": 1, "expires_at": 1_774_908_000 })),
                ("CUSTOMER#c1", "ROLLUP#WEEK#2017-W41", json!({ "orders": 1, "expires_at": 1_939_507_200 })),
                ("MINUTE#2026-03-31T23:33", "ROLLUP", json!({ "orders": 1 })),
                ("QUARTER#2026-Q1", "ROLLUP", json!({ "orders": 1 })),
            ],
            &[],
        )
        .await;
}

#[tokio::test]
async fn a_day_in_the_key_is_a_day_of_its_zone() {
    let mut workload = workload();
    workload.put(
        TABLE,
        json!({ "PK": "PARCEL#01ARYZ6S41TSV4RRFFQ69G5FAV", "SK": "SENT#2026-03-08", "weight": 2 }),
    );
    workload.assert_row("parcels 2026-03-08 INSERT");
    workload
        .assert_derived(
            &[
                // Midnight in New York is 05:00 UTC.
                ("SENT#2026-03-08", "ROLLUP", json!({ "parcels": 1, "expires_at": 1_773_032_400 })),
                ("SENT#2026-03", "ROLLUP#MADE#2016-07-30T22:36", json!({ "parcels": 1 })),
            ],
            &[],
        )
        .await;
}

#[tokio::test]
async fn outputs_of_lookups_are_read_as_in_their_entity() {
    let mut workload = workload();
    workload.put(TABLE, order(1_000, "2026-10-25 12:00:00"));
    workload.put(TABLE, json!({ "PK": "COMPLAINT#x", "SK": "COMPLAINT", "order_id": KSUID }));
    let delivered = workload.deliver(DeliveryOrder::OneByOne).await;
    let keys: Vec<String> = delivered.rollups().into_keys().map(|(partition, _)| partition).collect();
    assert!(keys.contains(&"COMPLAINTS#1970-W01".to_owned()), "{keys:?}");
}

#[tokio::test]
async fn every_rollup_key_is_parsed_again() {
    let mut workload = workload();
    workload.put(TABLE, order(1_770_388_200_000, "2026-03-06"));
    workload.put(TABLE, json!({ "PK": "PARCEL#01ARYZ6S41TSV4RRFFQ69G5FAV", "SK": "SENT#2026-03-08" }));
    let delivered = workload.deliver(DeliveryOrder::OneByOne).await;
    let rollups = delivered.rollups();
    assert_eq!(rollups.len(), 6);
    for (partition, sort) in rollups.keys() {
        let found = workload.model.rollups.iter().filter(|rollup| rollup.has_key(partition, sort)).count();
        assert_eq!(found, 1, "{partition} {sort}");
    }
}

#[tokio::test]
async fn columns_are_read_as_the_entity_states() {
    let mut workload = workload();
    workload.put(TABLE, order(1000, "2026-02-06 00:30:00"));
    workload.assert_row("orders 2026-02-06 INSERT");
    let exported = workload.exported().await;
    let row = &exported["orders"][0];
    let times = ["made", "created", "local_time", "local_day"].map(|column| &*row[column]);
    assert_eq!(times, ["2017-10-10T04:00:47Z", "1970-01-01T00:00:01Z", "2026-02-05T23:30:00Z", "2026-02-05"]);
}

#[tokio::test]
async fn a_value_that_is_not_such_a_time_fails_its_record() {
    let mut workload = workload();
    let mut wrong = order(1_770_388_200_000, "2026-02-06");
    wrong["SK"] = json!("ORDER#2026-02-06T14:30:00Z");
    workload.put(TABLE, wrong);
    let failures = workload.failures().await;
    assert!(failures.contains("is not a KSUID"), "{failures}");
    assert!(!failures.contains("14:30"), "the error has no content of the item: {failures}");
}
