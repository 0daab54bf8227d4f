//! The recount agrees with the one that came with a recording.

use std::io::Read as _;
use std::path::Path;

use serde_json::Value;

use super::*;

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

fn history(records: &[Value]) -> History {
    let mut history = History::default();
    for line in records {
        let change = &line["record"]["dynamodb"];
        if !change["NewImage"].is_null() {
            let image = item(&change["NewImage"]);
            match kind(&image) {
                "PROJECT" => history.owners.entry(text(&image, "project_id").to_owned()),
                "QUESTION" => history.projects.entry(text(&image, "question_id").to_owned()),
                _ => continue,
            }
            .or_insert_with(|| {
                text(&image, if kind(&image) == "PROJECT" { "admin_id" } else { "project_id" }).to_owned()
            });
        }
        if line["record"]["userIdentity"]["principalId"] == "dynamodb.amazonaws.com" {
            history.expired.push(item(&change["OldImage"]));
        }
    }
    history
}

fn key(expected: &Value) -> Key {
    Key(expected["PK"].as_str().unwrap().to_owned(), expected["SK"].as_str().unwrap().to_owned())
}

#[test]
fn a_recording_is_recounted_as_expected() {
    let items: Vec<Item> = lines("items.jsonl.gz").iter().map(item).collect();
    let history = history(&lines("records.jsonl.gz"));
    assert!(!history.expired.is_empty());
    let counted = recount(&items, &history);

    let expected: Value = serde_json::from_slice(&file("expected.json")).unwrap();
    let mut rollups = BTreeMap::new();
    for rollup in expected["rollups"].as_array().unwrap() {
        let measures = rollup
            .as_object()
            .unwrap()
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), value.as_i64()?)));
        rollups.insert(key(rollup), measures.collect::<Measures>());
    }
    let question_counts: BTreeMap<Key, i64> = expected["question_count"]
        .as_array()
        .unwrap()
        .iter()
        .map(|project| (key(project), project["question_count"].as_i64().unwrap()))
        // A deleted project has no item that could show its count.
        .filter(|(project, _)| {
            items.iter().any(|item| text(item, "PK") == project.0 && text(item, "SK") == project.1)
        })
        .collect();

    // Measures that are nought are left out there.
    let without_noughts = |(key, measures): (&Key, &Measures)| {
        let counted = measures.iter().filter(|(_, value)| **value != 0);
        (key.clone(), counted.map(|(name, value)| (name.clone(), *value)).collect::<Measures>())
    };
    let found: BTreeMap<Key, Measures> =
        counted.rollups.iter().map(without_noughts).filter(|(_, measures)| !measures.is_empty()).collect();
    assert_eq!(question_counts.len(), 11);
    assert_eq!(found, rollups);
    assert_eq!(counted.question_counts, question_counts);
}
