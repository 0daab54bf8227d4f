//! Malformed records and events, and that they affect nothing else.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

#[test]
fn a_record_without_a_sequence_number_fails_alone() {
    for case in [
        record_without("/dynamodb/SequenceNumber"),
        record_with("/dynamodb/SequenceNumber", json!(4_421)),
        record_with("/dynamodb/SequenceNumber", json!("")),
        record_with("/dynamodb/SequenceNumber", json!("12x")),
        record_with("/dynamodb/SequenceNumber", json!("0")),
        record_with("/dynamodb/SequenceNumber", json!("0".repeat(40))),
        record_with("/dynamodb/SequenceNumber", json!("1".repeat(41))),
    ] {
        with_malformed(&case.to_string(), |_| ());
    }
}

#[test]
fn a_malformed_record_fails_alone() {
    let cases = [
        record_with("/eventName", json!("UPSERT")),
        record_with("/eventName", json!(1)),
        record_without("/eventName"),
        record_without("/eventSourceARN"),
        record_with("/eventSourceARN", json!("arn:aws:kinesis:eu-west-1:1:stream/Things")),
        record_with("/eventSourceARN", json!("arn:aws:dynamodb:eu-west-1:1:table/Things/stream/")),
        record_with("/eventSourceARN", json!("arn:aws:dynamodb:eu-west-1:1:table/Things/index/x")),
        record_with("/eventSourceARN", Value::Null),
        record_without("/dynamodb"),
        record_with("/dynamodb", json!([])),
        record_with("/userIdentity", json!("Service")),
        record_with("/userIdentity", json!({"type": 1})),
        record_without("/dynamodb/Keys"),
        record_with("/dynamodb/Keys", json!({})),
        record_with("/dynamodb/Keys", Value::Null),
        record_with("/dynamodb/Keys/PK", json!({"BOOL": true})),
        record_with("/dynamodb/Keys/PK", json!({"SS": [SECRET]})),
        record_with("/dynamodb/Keys/PK", json!(SECRET)),
        record_with("/dynamodb/Keys/third", json!({"S": SECRET})),
        record_with("/dynamodb/ApproximateCreationDateTime", json!(SECRET)),
        record_with("/dynamodb/ApproximateCreationDateTime", json!(u64::MAX)),
        record_with("/dynamodb/ApproximateCreationDateTime", json!(1e300)),
        record_with("/dynamodb/StreamViewType", json!(7)),
        record_with("/dynamodb/NewImage", json!(SECRET)),
        record_with("/dynamodb/NewImage", json!([])),
        record_with("/dynamodb/OldImage", json!(SECRET)),
        record_with("/dynamodb/OldImage", json!([])),
        json!(null),
        json!(SECRET),
        json!([SECRET]),
        json!({}),
    ];
    for case in cases {
        with_malformed(&case.to_string(), |_| ());
    }
    // `Value` cannot represent these: a number outside `f64`, and a lone surrogate.
    for (from, to) in [("1770000000", "1e999"), ("red", r"\ud800")] {
        with_malformed(&record().to_string().replace(from, to), |_| ());
    }
}

#[test]
fn an_error_names_the_malformed_attribute() {
    let cases = [
        json!({"N": SECRET}),
        json!({"N": ""}),
        json!({"N": "123456789012345678901234567890123456789"}),
        json!({"N": "1E126"}),
        json!({"N": "1E999999999"}),
        json!({"N": "NaN"}),
        json!({"N": 12}),
        json!({"S": 12}),
        json!({"S": null}),
        json!({"B": SECRET}),
        json!({"BOOL": "true"}),
        json!({"NULL": false}),
        json!({"SS": SECRET}),
        json!({"SS": [1]}),
        json!({"NS": ["1", SECRET]}),
        json!({"BS": ["%"]}),
        json!({"L": {}}),
        json!({"L": [{"N": SECRET}]}),
        json!({"M": []}),
        json!({"M": {"inner": {"N": SECRET}}}),
        json!({"M": {"inner": {}}}),
        json!({"X": SECRET}),
        json!({}),
        json!({"S": SECRET, "N": "1"}),
        json!(SECRET),
        json!(null),
    ];
    for value in cases {
        let json = record_with("/dynamodb/NewImage/colour", value.clone()).to_string();
        with_malformed(&json, |bad| {
            assert!(bad.error.to_string().contains("in: colour"), "{value}: {}", bad.error)
        });

        let json = record_with("/dynamodb/OldImage/colour", value).to_string();
        with_record(&json, |record| {
            let error = record.old.decode(&attributes()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Record);
            assert!(error.to_string().contains("in: colour"), "{error}");
            assert!(!error.to_string().contains(SECRET), "{error}");
        });
    }
}

#[test]
fn a_malformed_record_is_identified() {
    let mut json = record_with("/dynamodb/NewImage/size", json!({"N": "many"}));
    json["eventName"] = json!("REMOVE");
    json["userIdentity"] = json!({"type": "Service", "principalId": "dynamodb.amazonaws.com"});
    with_malformed(&json.to_string(), |bad| {
        assert_eq!(bad.sequence_number.as_deref(), Some("4421584500000000059450445319"));
        assert_eq!(bad.table.as_deref(), Some("Things"));
        assert_eq!(bad.position, Some(Position::new(LABEL, "4421584500000000059450445319").unwrap()));
        assert_eq!(bad.keys.unwrap().get("PK"), Some(&AttributeValue::from("THING#1")));
        assert!(bad.expired);
        assert!(bad.error.to_string().contains("4421584500000000059450445319"));
    });
    with_malformed(&record_with("/dynamodb/SequenceNumber", json!("12x")).to_string(), |bad| {
        assert_eq!(bad.sequence_number.as_deref(), Some("12x"));
        assert_eq!(bad.position, None);
        assert!(bad.keys.is_some() && bad.table.is_some() && !bad.expired);
    });
    with_malformed("[]", |bad| {
        assert!(bad.sequence_number.is_none() && bad.table.is_none() && bad.keys.is_none());
    });
}

#[test]
fn a_payload_that_is_not_an_event_fails() {
    let cases: [(&[u8], &str); 10] = [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"nonsense", "not JSON"),
        (br#"{"Records":[]"#, "not JSON"),
        (br#"{"Records":[]} {}"#, "not JSON"),
        (b"{\"Records\":[\"\xff\"]}", "not UTF-8"),
        (b"{}", "no list `Records`"),
        (b"[]", "no list `Records`"),
        (br#"{"Records":null}"#, "no list `Records`"),
        (br#"{"Records":{"0":{}}}"#, "no list `Records`"),
    ];
    for (event, message) in cases {
        let error = decode(event, &attributes()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Event);
        assert!(error.to_string().contains(message), "{error}");
    }
    let cut = event(&[record_with("/dynamodb/NewImage/colour", json!({"S": SECRET}))]);
    let error = decode(&cut.as_bytes()[..cut.len() - 1], &attributes()).unwrap_err();
    assert!(!error.to_string().contains(SECRET), "{error}");
}

/// A small JSON value of any type.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        "[0-9]{0,42}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let name = prop_oneof!["S|N|B|BOOL|NULL|M|L|SS|NS|BS|PK|colour", ".{0,4}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// The JSON pointers of a value and everything inside it.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    if let Value::Object(fields) = value {
        for (name, field) in fields {
            pointers(field, &format!("{at}/{name}"), found);
        }
    }
}

/// A position, a byte, and the edit: overwrite (0), insert (1) or delete (2).
type ByteEdit = (prop::sample::Index, u8, u8);

fn mutated(mut bytes: Vec<u8>, edits: Vec<ByteEdit>) -> Vec<u8> {
    for (place, byte, edit) in edits {
        let place = place.index(bytes.len());
        match edit {
            0 => bytes[place] = byte,
            1 => bytes.insert(place, byte),
            _ => {
                bytes.remove(place);
            }
        }
    }
    bytes
}

proptest! {
    /// The decoder does not panic, and the other records are decoded.
    #[test]
    fn any_value_anywhere_in_a_record_affects_no_other_record(place in any::<prop::sample::Index>(), value in any_json()) {
        let mut changed = record();
        let mut places = Vec::new();
        pointers(&changed, "", &mut places);
        *changed.pointer_mut(&places[place.index(places.len())]).unwrap() = value;
        let event = event(&[record(), changed, record()]);
        let batch = decode(event.as_bytes(), &attributes()).unwrap();
        prop_assert_eq!(batch.records.len(), 3);
        prop_assert!(batch.records[0].is_ok() && batch.records[2].is_ok());
        for record in batch.records.into_iter().flatten() {
            let _: Result<_, _> = record.old.decode(&attributes());
        }
    }

    #[test]
    fn mutated_bytes_never_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..6),
    ) {
        let bytes = mutated(event(&[record(), record()]).into_bytes(), edits);
        if let Ok(batch) = decode(&bytes, &attributes()) {
            for record in batch.records.into_iter().flatten() {
                let _: Result<_, _> = record.old.decode(&attributes());
            }
        }
    }

    /// The shape cache keeps nothing of a malformed line that changes how the next lines are decoded.
    #[test]
    fn a_mutated_line_affects_no_other_line(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..4),
    ) {
        let good = record().to_string().into_bytes();
        let malformed = mutated(good.clone(), edits);
        let attributes = attributes();
        let mut decoder = RecordDecoder::new(&attributes);
        for line in [&good, &malformed, &good, &malformed, &malformed] {
            let alone = RecordDecoder::new(&attributes).record(line);
            prop_assert_eq!(format!("{:?}", decoder.record(line)), format!("{:?}", alone));
        }
    }
}
