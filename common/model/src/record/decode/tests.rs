//! Given these bytes, expect these records.

use std::borrow::Cow;
use std::error::Error as _;

use serde_json::{Value, json};

use super::{RecordDecoder, decode};
use crate::ErrorKind;
use crate::record::{
    AttributeInterner, AttributeValue, BadRecord, ChangeRecord, Decimal, Image, Item, Operation, Position,
    StreamView, Timestamp,
};

mod images;
mod malformed;

const ARN: &str = "arn:aws:dynamodb:eu-west-1:123456789012:table/Things/stream/2026-02-06T10:00:00.000";
const LABEL: &str = "2026-02-06T10:00:00.000";
/// A value in images that must never occur in an error.
const SECRET: &str = "hunter2";

fn attributes() -> AttributeInterner {
    AttributeInterner::new([
        "colour", "size", "blob", "tags", "sizes", "blobs", "parts", "more", "done", "none",
    ])
}

/// A MODIFY with both images.
fn record() -> Value {
    json!({
        "eventID": "1",
        "eventName": "MODIFY",
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "eu-west-1",
        "dynamodb": {
            "ApproximateCreationDateTime": 1_770_000_000,
            "Keys": {"PK": {"S": "THING#1"}, "SK": {"N": "7"}},
            "NewImage": {"PK": {"S": "THING#1"}, "SK": {"N": "7"}, "colour": {"S": "red"}, "size": {"N": "12"}},
            "OldImage": {"PK": {"S": "THING#1"}, "SK": {"N": "7"}, "colour": {"S": "blue"}},
            "SequenceNumber": "4421584500000000059450445319",
            "SizeBytes": 500,
            "StreamViewType": "NEW_AND_OLD_IMAGES"
        },
        "eventSourceARN": ARN
    })
}

/// The record with the value at a JSON pointer set.
fn record_with(pointer: &str, value: Value) -> Value {
    let mut record = record();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    record.pointer_mut(parent).unwrap()[name] = value;
    record
}

/// The record without the value at a JSON pointer.
fn record_without(pointer: &str) -> Value {
    let mut record = record();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    record.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name).unwrap();
    record
}

fn event(records: &[Value]) -> String {
    json!({ "Records": records }).to_string()
}

/// Decodes a single record.
fn with_record<R>(record: &str, check: impl FnOnce(ChangeRecord<'_>) -> R) -> R {
    let event = format!(r#"{{"Records":[{record}]}}"#);
    let mut batch = decode(event.as_bytes(), &attributes()).unwrap();
    assert_eq!(batch.records.len(), 1);
    check(batch.records.remove(0).unwrap_or_else(|bad| panic!("{}", bad.error)))
}

/// Decodes a malformed record between two valid ones, which must be decoded.
fn with_malformed<R>(record_json: &str, check: impl FnOnce(BadRecord<'_>) -> R) -> R {
    let good = record();
    let event = format!(r#"{{"Records":[{good},{record_json},{good}]}}"#);
    let mut batch = decode(event.as_bytes(), &attributes()).unwrap();
    assert_eq!(batch.records.len(), 3);
    assert!(batch.records[0].is_ok());
    assert_eq!(format!("{:?}", batch.records[0]), format!("{:?}", batch.records[2]));
    let bad = match batch.records.remove(1) {
        Ok(_) => panic!("decoded although malformed: {record_json}"),
        Err(bad) => *bad,
    };
    assert_eq!(bad.error.kind(), ErrorKind::Record);
    assert!(!bad.error.to_string().contains(SECRET), "{}", bad.error);
    assert!(bad.error.source().is_none());
    check(bad)
}

fn attribute<'i, 'a>(image: &'i Image<'a>, name: &str) -> Option<&'i AttributeValue<'a>> {
    image.get(attributes().id(name).unwrap())
}

fn number(text: &str) -> AttributeValue<'static> {
    AttributeValue::N(text.parse().unwrap())
}

#[test]
fn a_complete_record_is_decoded() {
    with_record(&record().to_string(), |record| {
        assert_eq!((&*record.region, &*record.table), ("eu-west-1", "Things"));
        assert_eq!(record.position, Position::new(LABEL, "4421584500000000059450445319").unwrap());
        assert_eq!(record.position.sequence_number(), "4421584500000000059450445319");
        assert_eq!(record.operation, Operation::Modify);
        assert!(!record.expired);
        assert_eq!(record.keys.len(), 2);
        assert_eq!(record.keys.get("PK"), Some(&AttributeValue::from("THING#1")));
        assert_eq!(record.keys.get("SK"), Some(&number("7")));
        assert_eq!(record.keys.get("colour"), None);
        assert_eq!(record.created_at, Some(Timestamp::from_epoch_seconds(1_770_000_000)));
        assert_eq!(record.view, Some(StreamView::NewAndOldImages));
        let new = record.new.unwrap();
        assert_eq!(new.iter().count(), 2);
        assert_eq!(attribute(&new, "colour"), Some(&AttributeValue::from("red")));
        assert_eq!(attribute(&new, "size"), Some(&number("12")));
        assert!(record.old.is_present());
        let old = record.old.decode(&attributes()).unwrap().unwrap();
        assert_eq!(old.iter().count(), 1);
        assert_eq!(attribute(&old, "colour"), Some(&AttributeValue::from("blue")));
    });
}

#[test]
fn text_is_borrowed_from_the_event() {
    with_record(&record().to_string(), |record| {
        assert!(matches!(record.table, Cow::Borrowed(_)));
        let new = record.new.unwrap();
        assert!(matches!(attribute(&new, "colour"), Some(AttributeValue::S(Cow::Borrowed("red")))));
    });
}

#[test]
fn a_record_decodes_the_same_alone_and_after_others() {
    let all = attributes();
    let with_eager = attributes().with_eager_fields(all.id("size"));
    let image = |json: &str| format!(r#"{{"k":{{"S":"a"}},{json}"other":{{"L":[]}}}}"#);
    let images = [
        image(r#""colour":{"S":"blue"},"size":{"N":"1"},"#),
        image(r#""size":{"N":"1"},"colour":{"S":"blue"},"#),
        image(r#""colour":{"S":"b\u006cue"},"size":{"N":"1"},"size":{"N":"12"},"#),
        image(r#""colour" : {"S":"blue"},"#),
        image(r#""size":{"S":"1"},"new":{"S":"1"},"#),
        image(r#""size":{"N":"x"},"#),
        image(""),
        "{}".to_owned(),
        "null".to_owned(),
        "[]".to_owned(),
    ];
    let with = |new: &String, old: &String| {
        let mut record = record_without("/dynamodb/OldImage");
        record["dynamodb"]["NewImage"] = json!("NEW");
        record.to_string().replace(r#""NEW""#, &format!(r#"{new},"OldImage":{old}"#))
    };
    let lines: Vec<_> = images.iter().flat_map(|new| images.iter().map(move |old| with(new, old))).collect();
    for attributes in [&all, &with_eager] {
        let mut decoder = RecordDecoder::new(attributes);
        for line in &lines {
            let alone = RecordDecoder::new(attributes).record(line.as_bytes());
            let after_others = decoder.record(line.as_bytes());
            assert_eq!(format!("{after_others:?}"), format!("{alone:?}"), "{line}");
            let (Ok(record), Ok(json)) = (&after_others, serde_json::from_str::<Value>(line)) else {
                continue;
            };
            let text = |pointer: &str| json.pointer(pointer).and_then(Value::as_str);
            let colour = record.new.as_ref().and_then(|image| image.get(all.id("colour")?));
            assert_eq!(
                colour.and_then(AttributeValue::as_text),
                text("/dynamodb/NewImage/colour/S"),
                "{line}"
            );
        }
    }
}

#[test]
fn times_are_in_seconds_fractions_or_milliseconds() {
    let cases = [
        ("1770000000", Some(1_770_000_000_000)),
        ("1770000000.0", Some(1_770_000_000_000)),
        ("1.77e9", Some(1_770_000_000_000)),
        ("1770000000.5", Some(1_770_000_000_500)),
        ("1770000000.123", Some(1_770_000_000_123)),
        ("1770000000.001", Some(1_770_000_000_001)),
        ("1770000000.999", Some(1_770_000_000_999)),
        ("1770000000123", Some(1_770_000_000_123)),
        ("1770000000123.0", Some(1_770_000_000_123)),
        ("99999999999", Some(99_999_999_999_000)),
        ("100000000000", Some(100_000_000_000)),
        ("0", Some(0)),
        ("-0", Some(0)),
        ("-1", Some(-1000)),
        ("-1.5", Some(-1500)),
        ("null", None),
    ];
    for (json, epoch_ms) in cases {
        let text = record().to_string().replace("1770000000", json);
        with_record(&text, |record| {
            assert_eq!(record.created_at.map(Timestamp::epoch_ms), epoch_ms, "{json}");
        });
    }
    let absent = record_without("/dynamodb/ApproximateCreationDateTime");
    with_record(&absent.to_string(), |record| assert_eq!(record.created_at, None));
}

#[test]
fn unneeded_fields_may_be_missing_unknown_or_malformed() {
    let mut odd = record();
    for name in ["eventID", "eventVersion", "eventSource", "awsRegion"] {
        odd.as_object_mut().unwrap().remove(name);
    }
    odd["eventVersion"] = json!({"surprising": [1, 2]});
    odd["dynamodb"].as_object_mut().unwrap().remove("SizeBytes");
    odd["dynamodb"]["New"] = json!([[[]]]);
    odd["dynamodb"]["NewImage"]["unwanted"] = json!({"N": "not a number", "X": 1});
    odd["dynamodb"]["StreamViewType"] = json!("SOMETHING_NEW");
    odd["userIdentity"] = Value::Null;
    with_record(&odd.to_string(), |record| assert_eq!(record.view, None));
    with_record(&record_without("/dynamodb/StreamViewType").to_string(), |record| {
        assert_eq!(record.view, None)
    });

    let tumbling = json!({
        "shardId": "shardId-1",
        "window": {"start": "2026-02-06T10:00:00Z", "end": "2026-02-06T10:02:00Z"},
        "state": {"count": 3},
        "isFinalInvokeForWindow": false,
        "Records": [record()]
    });
    assert!(decode(tumbling.to_string().as_bytes(), &attributes()).unwrap().records[0].is_ok());
    assert!(decode(br#"{"Records":[]}"#, &attributes()).unwrap().records.is_empty());
}

#[test]
fn every_view_type_has_its_name() {
    for (name, view) in [
        ("NEW_AND_OLD_IMAGES", StreamView::NewAndOldImages),
        ("NEW_IMAGE", StreamView::NewImage),
        ("OLD_IMAGE", StreamView::OldImage),
        ("KEYS_ONLY", StreamView::KeysOnly),
    ] {
        assert_eq!(view.name(), name);
        let json = record_with("/dynamodb/StreamViewType", json!(name)).to_string();
        with_record(&json, |record| assert_eq!(record.view, Some(view)));
    }
}

#[test]
fn only_removals_are_expiries() {
    let lower = json!({"type": "Service", "principalId": "dynamodb.amazonaws.com"});
    let upper = json!({"PrincipalId": "dynamodb.amazonaws.com", "Type": "Service"});
    let cases = [
        ("REMOVE", lower.clone(), true),
        ("REMOVE", upper, true),
        ("MODIFY", lower, false),
        ("REMOVE", json!({"type": "Service", "principalId": "replication.dynamodb.amazonaws.com"}), false),
        ("REMOVE", json!({"type": "User", "principalId": "dynamodb.amazonaws.com"}), false),
        ("REMOVE", json!({"type": null, "principalId": "dynamodb.amazonaws.com"}), false),
        ("REMOVE", json!({}), false),
        ("REMOVE", Value::Null, false),
    ];
    for (name, identity, expired) in cases {
        let mut json = record_with("/userIdentity", identity.clone());
        json["eventName"] = json!(name);
        with_record(&json.to_string(), |record| assert_eq!(record.expired, expired, "{name} {identity}"));
    }
}

#[test]
fn fields_may_have_any_order() {
    let record = record();
    let names = ["userIdentity", "eventSourceARN", "dynamodb", "eventName"];
    let identity = json!({"type": "Service", "principalId": "dynamodb.amazonaws.com"});
    let field = |name: &str| match name {
        "userIdentity" => format!(r#""userIdentity":{identity}"#),
        "eventName" => r#""eventName":"REMOVE""#.to_owned(),
        _ => format!(r#""{name}":{}"#, record[name]),
    };
    let mut lines = Vec::new();
    for turn in 0..names.len() {
        for reversed in [false, true] {
            let mut order = names;
            order.rotate_left(turn);
            if reversed {
                order.reverse();
            }
            let json = format!("{{{}}}", order.map(field).join(" , "));
            with_record(&json, |record| assert!(record.expired && record.table == "Things", "{order:?}"));
            lines.push(json);
        }
    }
    let attributes = attributes();
    let mut decoder = RecordDecoder::new(&attributes);
    for line in &lines {
        let alone = RecordDecoder::new(&attributes).record(line.as_bytes());
        assert_eq!(format!("{:?}", decoder.record(line.as_bytes())), format!("{alone:?}"), "{line}");
    }
}

#[test]
fn the_last_of_duplicate_names_counts() {
    let old = r#""colour":{"S":"red"}"#;
    let text = record().to_string();
    assert!(text.contains(old));
    let again = text.replace(old, r#""colour":{"S":"green"},"colour":{"S":"pink","S":"red"}"#);
    with_record(&again, |record| {
        let new = record.new.unwrap();
        assert_eq!(attribute(&new, "colour"), Some(&AttributeValue::from("red")));
        assert_eq!(new.iter().count(), 2);
    });
    let keys = text.replace(r#""Keys":{"#, r#""Keys":{"OLD":{"S":"x"}},"Keys":{"PK":{"S":"first"},"#);
    with_record(&keys, |record| {
        assert_eq!(record.keys.len(), 2);
        assert_eq!(record.keys.get("PK"), Some(&AttributeValue::from("THING#1")));
    });
    let twice =
        format!("{{{},{}", r#""dynamodb":{"Keys":{"PK":{"S":"gone"}}},"eventName":"INSERT""#, &text[1..]);
    with_record(&twice, |record| {
        assert_eq!(record.operation, Operation::Modify);
        assert_eq!(record.keys.len(), 2);
    });
    let records = format!(r#"{{"Records":[1,2],"Records":[{text}]}}"#);
    let batch = decode(records.as_bytes(), &attributes()).unwrap();
    assert!(batch.records.len() == 1 && batch.records[0].is_ok());
}

#[test]
fn the_json_of_each_record_is_kept_even_if_it_is_malformed() {
    let good = serde_json::to_string_pretty(&record()).unwrap();
    for others in [
        vec![],
        vec!["5", r#"{"eventID":7}"#],
        vec![r#"{"eventID":"a", "x":[1 ] }"#, r#"{"eventID":"\u0062"}"#],
    ] {
        let all: Vec<&str> = [&*good].into_iter().chain(others).chain([&*good]).collect();
        let event = format!("{{\"first\":1,\"Records\" :[ {}\n],\"more\":{{}}}}", all.join(" ,\n"));
        let batch = decode(event.as_bytes(), &attributes()).unwrap();
        assert_eq!(batch.json, all);
        assert_eq!(batch.records.len(), all.len());
    }
}

#[test]
fn escapes_are_decoded_in_names_and_identifiers() {
    let text = record()
        .to_string()
        .replace("colour", r"c\u006flour")
        .replace("table/Things/stream", r"table\/Things\/stream")
        .replace("MODIFY", r"M\u004fDIFY")
        .replace("\"PK\"", r#""\u0050K""#)
        .replace("red", r"\ud83d\ude00\t");
    with_record(&text, |record| {
        assert_eq!((record.table.as_ref(), record.position.label()), ("Things", LABEL));
        assert_eq!(record.keys.get("PK"), Some(&AttributeValue::from("THING#1")));
        assert_eq!(attribute(&record.new.unwrap(), "colour"), Some(&AttributeValue::from("\u{1f600}\t")));
    });
}

#[test]
fn a_key_attribute_may_have_each_key_type() {
    for (value, expected) in [
        (json!({"S": "a"}), AttributeValue::from("a")),
        (json!({"N": "1.0"}), number("1")),
        (json!({"B": "AQ=="}), AttributeValue::B(vec![1].into())),
    ] {
        with_record(&record_with("/dynamodb/Keys", json!({"id": value})).to_string(), |record| {
            assert_eq!(record.keys.iter().collect::<Vec<_>>(), [("id", &expected)]);
        });
    }
}
