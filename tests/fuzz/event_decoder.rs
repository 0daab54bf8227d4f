//! The decoder accepts or rejects any bytes without a panic, and decodes the same values as `serde_json`.

#![no_main]

use std::sync::LazyLock;

use afterwrite_model::record::{
    AttributeInterner, AttributeValue, ChangeRecord, Image, Operation, RecordDecoder, decode,
};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

/// Some attributes of the seeds.
static VOCABULARY: LazyLock<AttributeInterner> = LazyLock::new(|| {
    AttributeInterner::new([
        "PK",
        "SK",
        "status",
        "score",
        "question_count",
        "archived",
        "details",
        "tags",
        "a",
        "",
    ])
});

fuzz_target!(|bytes: &[u8]| {
    let json: Option<Value> = serde_json::from_slice(bytes).ok();
    if let Ok(record) = RecordDecoder::new(&VOCABULARY).record(bytes) {
        json.iter().for_each(|json| assert_same(&record, json));
    }
    let mut decoder = RecordDecoder::new(&VOCABULARY);
    for line in bytes.split(|byte| *byte == b'\n') {
        let alone = RecordDecoder::new(&VOCABULARY).record(line);
        assert_eq!(
            format!("{:?}", decoder.record(line)),
            format!("{alone:?}"),
            "a record depends on other lines"
        );
    }
    let Ok(batch) = decode(bytes, &VOCABULARY) else { return };
    // Skipped parts may be JSON that `serde_json` rejects: numbers too large, lists too deep.
    let Some(json) = json else { return };
    let records = json.get("Records").unwrap_or(&json).as_array().expect("an event has records");
    assert_eq!(batch.records.len(), records.len());
    let texts: Vec<Value> = batch.json.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
    assert_eq!(&texts, records);
    for (record, json) in batch.records.iter().zip(records) {
        match record {
            Ok(record) => assert_same(record, json),
            Err(bad) => assert!(!bad.error.to_string().is_empty()),
        }
    }
});

fn assert_same(record: &ChangeRecord<'_>, json: &Value) {
    let at = |pointer: &str| json.pointer(pointer).filter(|value| !value.is_null());
    let text = |pointer: &str| at(pointer).and_then(Value::as_str);
    assert_eq!(text("/eventID").unwrap_or_default(), record.event_id);
    let operation = match record.operation {
        Operation::Insert => "INSERT",
        Operation::Modify => "MODIFY",
        Operation::Remove => "REMOVE",
    };
    assert_eq!(text("/eventName"), Some(operation));
    let source = format!(":table/{}/stream/{}", record.table, record.position.label());
    assert!(text("/eventSourceARN").is_some_and(|arn| arn.ends_with(&source)), "{source}");
    assert_eq!(text("/dynamodb/SequenceNumber"), Some(record.position.sequence_number()));
    if let Some(seconds) = at("/dynamodb/ApproximateCreationDateTime").and_then(Value::as_i64)
        && seconds < 100_000_000_000
    {
        let created_at = record.created_at.expect("a time").epoch_ms();
        assert_eq!(created_at, seconds.saturating_mul(1000));
    }
    let is_marked =
        ["type", "Type"].iter().any(|name| text(&format!("/userIdentity/{name}")) == Some("Service"));
    assert!(!record.expired || (is_marked && record.operation == Operation::Remove));

    let keys = at("/dynamodb/Keys").and_then(Value::as_object).expect("a record has keys");
    assert_eq!(record.keys.len(), keys.len());
    assert!(record.keys.iter().all(|(name, value)| keys.get(name).is_some_and(|json| is_same(value, json))));

    // `eventName` decides which images a record has.
    let (new, old) = (at("/dynamodb/NewImage"), at("/dynamodb/OldImage"));
    assert_image(record.new.as_ref(), new.filter(|_| record.operation != Operation::Remove));
    if let Ok(image) = record.old.decode(&VOCABULARY) {
        assert_image(image.as_ref(), old.filter(|_| record.operation != Operation::Insert));
    }
}

fn assert_image(image: Option<&Image<'_>>, json: Option<&Value>) {
    let nothing = Map::new();
    let Some(image) = image else { return assert!(json.is_none(), "the image is missing") };
    let attributes = json.map_or(&nothing, |json| json.as_object().expect("an image is an object"));
    let decoded = attributes.iter().filter_map(|(name, value)| Some((VOCABULARY.id(name)?, value)));
    let mut count = 0;
    for (id, json) in decoded {
        let value = image.get(id).expect("an attribute of the vocabulary");
        assert!(is_same(value, json), "{value:?} is not {json}");
        count += 1;
    }
    assert_eq!(image.iter().count(), count, "an attribute that the JSON lacks");
}

fn is_same(value: &AttributeValue<'_>, json: &Value) -> bool {
    let Some(json) = json.get(value.type_name()) else { return false };
    let texts = || json.as_array().into_iter().flatten().map(|member| member.as_str().unwrap_or_default());
    let length = json.as_array().map_or(0, Vec::len);
    match value {
        AttributeValue::S(text) => json == &**text,
        AttributeValue::N(number) => is_number(number, json.as_str().unwrap_or_default()),
        AttributeValue::B(bytes) => is_base64(bytes, json.as_str().unwrap_or_default()),
        AttributeValue::Bool(flag) => json == flag,
        AttributeValue::Null => *json == true,
        AttributeValue::M(members) => {
            members.len() == json.as_object().map_or(0, Map::len)
                && members
                    .iter()
                    .all(|(name, value)| json.get(&**name).is_some_and(|json| is_same(value, json)))
        }
        AttributeValue::L(members) => {
            let both = members.iter().zip(json.as_array().into_iter().flatten());
            members.len() == length && both.into_iter().all(|(value, json)| is_same(value, json))
        }
        AttributeValue::Ss(members) => {
            members.len() == length && members.iter().zip(texts()).all(|(a, b)| a == b)
        }
        AttributeValue::Ns(members) => {
            members.len() == length
                && members.iter().zip(texts()).all(|(number, text)| is_number(number, text))
        }
        AttributeValue::Bs(members) => {
            members.len() == length && members.iter().zip(texts()).all(|(bytes, text)| is_base64(bytes, text))
        }
    }
}

/// Whether both are the same number, up to the precision of a float.
fn is_number(number: &impl ToString, text: &str) -> bool {
    let (mine, theirs): (Result<f64, _>, Result<f64, _>) = (number.to_string().parse(), text.parse());
    matches!((mine, theirs), (Ok(mine), Ok(theirs)) if mine == theirs)
}

fn is_base64(bytes: &[u8], text: &str) -> bool {
    bytes.len() == text.trim_end_matches('=').len() * 3 / 4
}
