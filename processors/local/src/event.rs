//! A record of the streams API as Lambda delivers it, and several of them as one event.
//!
//! The two differ: Lambda adds `eventSourceARN`, writes times as epoch seconds, bytes as base64, and the identity's
//! names in lower case.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodbstreams::types::{AttributeValue, Identity, Record, StreamRecord};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// One record as it stands in an event's `Records`.
pub(super) fn record_json(record: &Record, stream_arn: &str) -> String {
    let mut fields = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value);
        }
    };
    set("eventID", record.event_id().map(Value::from));
    set("eventName", record.event_name().map(|name| Value::from(name.as_str())));
    set("eventVersion", record.event_version().map(Value::from));
    set("eventSource", record.event_source().map(Value::from));
    set("awsRegion", record.aws_region().map(Value::from));
    set("dynamodb", record.dynamodb().map(change_json));
    set("userIdentity", record.user_identity().map(identity_json));
    set("eventSourceARN", Some(Value::from(stream_arn)));
    Value::Object(fields).to_string()
}

/// An event of these records, each as [`record_json`] wrote it.
pub(super) fn event_json<'a>(records: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let mut event = String::from("{\"Records\":[");
    for (position, record) in records.enumerate() {
        if position > 0 {
            event.push(',');
        }
        event.push_str(record);
    }
    event.push_str("]}");
    event.into_bytes()
}

fn change_json(change: &StreamRecord) -> Value {
    let mut fields = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value);
        }
    };
    set("ApproximateCreationDateTime", change.approximate_creation_date_time().map(time_json));
    set("Keys", change.keys().map(item_json));
    set("NewImage", change.new_image().map(item_json));
    set("OldImage", change.old_image().map(item_json));
    set("SequenceNumber", change.sequence_number().map(Value::from));
    set("SizeBytes", change.size_bytes().map(Value::from));
    set("StreamViewType", change.stream_view_type().map(|view| Value::from(view.as_str())));
    Value::Object(fields)
}

fn time_json(time: &aws_sdk_dynamodbstreams::primitives::DateTime) -> Value {
    if time.subsec_nanos() == 0 { Value::from(time.secs()) } else { Value::from(time.as_secs_f64()) }
}

fn identity_json(identity: &Identity) -> Value {
    json!({ "type": identity.r#type(), "principalId": identity.principal_id() })
}

fn item_json(item: &HashMap<String, AttributeValue>) -> Value {
    // In order of name, so that the same record is always the same text.
    let ordered: BTreeMap<&String, &AttributeValue> = item.iter().collect();
    ordered.into_iter().map(|(name, value)| (name.clone(), value_json(value))).collect::<Map<_, _>>().into()
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the SDK's enum is open, and its unknown variant private")]
fn value_json(value: &AttributeValue) -> Value {
    let bytes = |blob: &aws_sdk_dynamodbstreams::primitives::Blob| STANDARD.encode(blob.as_ref());
    match value {
        AttributeValue::S(text) => json!({ "S": text }),
        AttributeValue::N(number) => json!({ "N": number }),
        AttributeValue::B(blob) => json!({ "B": bytes(blob) }),
        AttributeValue::Bool(value) => json!({ "BOOL": value }),
        AttributeValue::Null(value) => json!({ "NULL": value }),
        AttributeValue::M(map) => json!({ "M": item_json(map) }),
        AttributeValue::L(list) => json!({ "L": list.iter().map(value_json).collect::<Vec<_>>() }),
        AttributeValue::Ss(set) => json!({ "SS": set }),
        AttributeValue::Ns(set) => json!({ "NS": set }),
        AttributeValue::Bs(set) => json!({ "BS": set.iter().map(bytes).collect::<Vec<_>>() }),
        // A type that this SDK does not know: the record is delivered, and whoever reads it says what is wrong.
        _ => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodbstreams::primitives::{Blob, DateTime};
    use aws_sdk_dynamodbstreams::types::{OperationType, StreamViewType};

    use super::*;

    #[test]
    fn a_record_is_written_as_lambda_writes_it() {
        let image = HashMap::from([
            ("n".to_owned(), AttributeValue::N("12345678901234567890123456789012345678".to_owned())),
            ("b".to_owned(), AttributeValue::B(Blob::new(vec![0, 255]))),
            (
                "list".to_owned(),
                AttributeValue::L(vec![AttributeValue::Null(true), AttributeValue::Bool(false)]),
            ),
            (
                "map".to_owned(),
                AttributeValue::M(HashMap::from([(
                    "s".to_owned(),
                    AttributeValue::S("試験 \"x\"".to_owned()),
                )])),
            ),
            ("sets".to_owned(), AttributeValue::Ns(vec!["1".to_owned()])),
        ]);
        let change = StreamRecord::builder()
            .approximate_creation_date_time(DateTime::from_secs(1_769_904_000))
            .keys("PK", AttributeValue::S("a".to_owned()))
            .set_old_image(Some(image))
            .sequence_number("100000000000000000001")
            .size_bytes(59)
            .stream_view_type(StreamViewType::NewAndOldImages)
            .build();
        let record = Record::builder()
            .event_id("e1")
            .event_name(OperationType::Remove)
            .event_version("1.1")
            .event_source("aws:dynamodb")
            .aws_region("us-east-1")
            .dynamodb(change)
            .user_identity(
                Identity::builder().r#type("Service").principal_id("dynamodb.amazonaws.com").build(),
            )
            .build();
        let event = event_json([record_json(&record, "arn:stream").as_str()].into_iter());
        let expected = json!({"Records": [{
            "eventID": "e1", "eventName": "REMOVE", "eventVersion": "1.1", "eventSource": "aws:dynamodb",
            "awsRegion": "us-east-1", "eventSourceARN": "arn:stream",
            "userIdentity": {"type": "Service", "principalId": "dynamodb.amazonaws.com"},
            "dynamodb": {
                "ApproximateCreationDateTime": 1_769_904_000, "Keys": {"PK": {"S": "a"}},
                "OldImage": {
                    "n": {"N": "12345678901234567890123456789012345678"}, "b": {"B": "AP8="},
                    "list": {"L": [{"NULL": true}, {"BOOL": false}]}, "map": {"M": {"s": {"S": "試験 \"x\""}}},
                    "sets": {"NS": ["1"]},
                },
                "SequenceNumber": "100000000000000000001", "SizeBytes": 59, "StreamViewType": "NEW_AND_OLD_IMAGES",
            },
        }]});
        assert_eq!(serde_json::from_slice::<Value>(&event).unwrap(), expected);
    }

    #[test]
    fn what_a_record_lacks_is_left_out() {
        let record = Record::builder().dynamodb(StreamRecord::builder().build()).build();
        assert_eq!(record_json(&record, "arn:stream"), r#"{"dynamodb":{},"eventSourceARN":"arn:stream"}"#);
    }
}
