//! The recount agrees with the one that came with a recording.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::Value;

use super::items::TABLE;
use super::recount::recount;
use crate::exact::Exact;
use crate::item::{Item, Placed};
use crate::recount::{Key, Outcome, Sums};
use crate::rollups::Rollups;

fn file(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/exam-42");
    std::fs::read(folder.join(name)).unwrap()
}

fn lines(name: &str) -> Vec<Value> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(file(name).as_slice()).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The attributes that a recount may look at; others keep their name alone.
fn item(image: &Value) -> Item {
    let attribute = |value: &Value| match value.as_object().and_then(|value| value.iter().next()).unwrap() {
        (kind, Value::String(text)) if kind == "S" => AttributeValue::S(text.clone()),
        (kind, Value::String(number)) if kind == "N" => AttributeValue::N(number.clone()),
        (kind, Value::Bool(value)) if kind == "BOOL" => AttributeValue::Bool(*value),
        _ => AttributeValue::Null(true),
    };
    image.as_object().unwrap().iter().map(|(name, value)| (name.clone(), attribute(value))).collect()
}

/// How the recording ended: its last items, what expired, and every image on the way.
fn outcome(items: &[Value], records: &[Value]) -> Outcome {
    let placed = |image: &Value| Placed { table: TABLE.to_owned(), item: item(image) };
    let changes = || records.iter().map(|line| &line["record"]);
    let expired = changes()
        .filter(|record| record["userIdentity"]["principalId"] == "dynamodb.amazonaws.com")
        .map(|record| placed(&record["dynamodb"]["OldImage"]));
    let images = changes().map(|record| &record["dynamodb"]["NewImage"]).filter(|image| !image.is_null());
    Outcome {
        now: 0,
        items: items.iter().map(placed).collect(),
        expired: expired.collect(),
        images: images.map(placed).collect(),
    }
}

fn key(expected: &Value) -> Key {
    Key(expected["PK"].as_str().unwrap().to_owned(), expected["SK"].as_str().unwrap().to_owned())
}

#[test]
fn a_recording_is_recounted_as_expected() {
    let outcome = outcome(&lines("items.jsonl.gz"), &lines("records.jsonl.gz"));
    assert!(!outcome.expired.is_empty());
    let counted = recount(&outcome);

    let expected: Value = serde_json::from_slice(&file("expected.json")).unwrap();
    let mut rollups = BTreeMap::new();
    for rollup in expected["rollups"].as_array().unwrap() {
        let measures = rollup
            .as_object()
            .unwrap()
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), Exact::whole(value.as_i64()?))));
        rollups.insert(key(rollup), measures.collect::<Sums>());
    }
    // Measures that are nought are left out there.
    let without_noughts = |(key, sums): (&Key, &Sums)| {
        let counted = sums.iter().filter(|(_, value)| **value != Exact::ZERO);
        (key.clone(), counted.map(|(name, value)| (name.clone(), *value)).collect::<Sums>())
    };
    let found: BTreeMap<Key, Sums> =
        counted.sums.iter().map(without_noughts).filter(|(_, sums)| !sums.is_empty()).collect();
    assert_eq!(found, rollups);

    let shown: BTreeMap<String, String> = counted
        .shown
        .iter()
        .map(|shown| (shown.place.clone(), shown.expected.as_ref().unwrap().to_string()))
        .collect();
    // A deleted project has no item that could show its count.
    let question_counts: BTreeMap<String, String> = expected["question_count"]
        .as_array()
        .unwrap()
        .iter()
        .map(|project| (key(project), project["question_count"].to_string()))
        .map(|(Key(partition, sort), count)| (format!("{partition} {sort}"), count))
        .filter(|(place, _)| shown.contains_key(place))
        .collect();
    assert_eq!(shown.len(), 11);
    assert_eq!(shown, question_counts);
}

#[test]
fn an_admin_sees_the_last_31_days() {
    let rollup = |sort: String, attempts: u32| -> Item {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        Item::from([
            ("PK".to_owned(), text("ADMIN#a")),
            ("SK".to_owned(), AttributeValue::S(sort)),
            ("EntityType".to_owned(), text("ROLLUP")),
            ("attempts".to_owned(), AttributeValue::N(attempts.to_string())),
        ])
    };
    let days =
        |month: u32, days: u32| (1..=days).map(move |day| format!("ROLLUP#DAY#2026-{month:02}-{day:02}"));
    let mut state: Vec<_> = days(1, 31).chain(days(2, 10)).map(|sort| rollup(sort, 1)).collect();
    state.push(rollup("ROLLUP#TOTAL".to_owned(), 41));
    let chart = super::busiest_admin(&Rollups::of(&state));
    let shown: Vec<_> = chart.rows.iter().map(|row| row.cells[0].as_str()).collect();
    assert_eq!((shown.len(), shown[0], shown[30]), (31, "2026-01-11", "2026-02-10"));
    assert!(shown.is_sorted());
}
