//! The recount agrees with the one that came with a recording.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};

use super::items::TABLE;
use super::recount::recount;
use crate::item::{ItemValue, SdkItem, TableItem, item};
use crate::recount::WorkloadOutcome;
use crate::rollups::{MeasureValues, RollupKey, RollupSet};

fn file(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/exam-42");
    std::fs::read(folder.join(name)).unwrap()
}

fn lines(name: &str) -> Vec<Value> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(file(name).as_slice()).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The attributes that a recount may read; of all other attributes, only the names.
fn sdk_item(image: &Value) -> SdkItem {
    let attribute = |value: &Value| match value.as_object().and_then(|value| value.iter().next()).unwrap() {
        (kind, Value::String(text)) if kind == "S" => AttributeValue::S(text.clone()),
        (kind, Value::String(number)) if kind == "N" => AttributeValue::N(number.clone()),
        (kind, Value::Bool(value)) if kind == "BOOL" => AttributeValue::Bool(*value),
        _ => AttributeValue::Null(true),
    };
    image.as_object().unwrap().iter().map(|(name, value)| (name.clone(), attribute(value))).collect()
}

/// How the recording ended: its last items, the expired items, and every image.
fn outcome(items: &[Value], records: &[Value]) -> WorkloadOutcome {
    let placed = |image: &Value| TableItem { table: TABLE.to_owned(), item: sdk_item(image) };
    let changes = || records.iter().map(|line| &line["record"]);
    let expired = changes()
        .filter(|record| record["userIdentity"]["principalId"] == "dynamodb.amazonaws.com")
        .map(|record| placed(&record["dynamodb"]["OldImage"]));
    let images = changes().map(|record| &record["dynamodb"]["NewImage"]).filter(|image| !image.is_null());
    WorkloadOutcome {
        now: 0,
        items: items.iter().map(placed).collect(),
        expired: expired.collect(),
        images: images.map(placed).collect(),
    }
}

fn key(expected: &Value) -> RollupKey {
    RollupKey(expected["PK"].as_str().unwrap().to_owned(), expected["SK"].as_str().unwrap().to_owned())
}

#[test]
fn a_recording_is_recounted_as_expected() {
    let outcome = outcome(&lines("items.jsonl.gz"), &lines("records.jsonl.gz"));
    assert!(!outcome.expired.is_empty());
    let recount = recount(&outcome);

    let expected: Value = serde_json::from_slice(&file("expected.json")).unwrap();
    let mut rollups = BTreeMap::new();
    for rollup in expected["rollups"].as_array().unwrap() {
        let measures = rollup
            .as_object()
            .unwrap()
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), ItemValue::Number(value.as_i64()?.into()))));
        rollups.insert(key(rollup), measures.collect::<MeasureValues>());
    }
    // The recording leaves out measures that are zero, and what is settled of them.
    let mut found = recount.rollups.clone();
    for measures in found.values_mut() {
        measures.retain(|name, value| !name.starts_with("settled_") && *value != ItemValue::Number(0.into()));
    }
    found.retain(|_, measures| !measures.is_empty());
    assert_eq!(found, rollups);

    let shown: BTreeMap<String, String> = recount
        .mirrored
        .iter()
        .map(|mirrored| (mirrored.place.clone(), mirrored.expected.as_ref().unwrap().to_string()))
        .collect();
    // A deleted project has no item to show its count.
    let question_counts: BTreeMap<String, String> = expected["question_count"]
        .as_array()
        .unwrap()
        .iter()
        .map(|project| (key(project), project["question_count"].to_string()))
        .map(|(key, count)| (key.to_string(), count))
        .filter(|(place, _)| shown.contains_key(place))
        .collect();
    assert_eq!(shown.len(), 11);
    assert_eq!(shown, question_counts);
}

#[test]
fn an_admin_sees_the_last_31_days() {
    let rollup = |sort: String, attempts: u32| {
        item(json!({ "PK": "ADMIN#a", "SK": sort, "EntityType": "ROLLUP", "attempts": attempts }))
    };
    let days =
        |month: u32, days: u32| (1..=days).map(move |day| format!("ROLLUP#DAY#2026-{month:02}-{day:02}"));
    let mut state: Vec<_> = days(1, 31).chain(days(2, 10)).map(|sort| rollup(sort, 1)).collect();
    state.push(rollup("ROLLUP#TOTAL".to_owned(), 41));
    let chart = super::busiest_admin(&RollupSet::of(&state));
    let shown: Vec<_> = chart.rows.iter().map(|row| row.cells[0].as_str()).collect();
    assert_eq!((shown.len(), shown[0], shown[30]), (31, "2026-01-11", "2026-02-10"));
    assert!(shown.is_sorted());
}
