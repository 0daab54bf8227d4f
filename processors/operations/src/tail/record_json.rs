//! A record of the streams API as Lambda delivers it.

use afterwrite::record::Timestamp;
use aws_sdk_dynamodbstreams::primitives::Blob;
use aws_sdk_dynamodbstreams::types::{AttributeValue, Identity, Record, StreamRecord};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

type SdkImage = std::collections::HashMap<String, AttributeValue>;

/// The JSON that Lambda delivers for a record of the stream with this ARN.
pub(super) fn lambda_record(record: &Record, stream_arn: &str) -> String {
    let mut json = Map::new();
    let mut insert = |name: &str, value: Value| drop(json.insert(name.to_owned(), value));
    insert("eventID", json!(record.event_id()));
    insert("eventName", json!(record.event_name().map(|name| name.as_str())));
    insert("eventVersion", json!(record.event_version()));
    insert("eventSource", json!(record.event_source()));
    insert("awsRegion", json!(record.aws_region()));
    if let Some(identity) = record.user_identity() {
        insert("userIdentity", user_identity(identity));
    }
    if let Some(change) = record.dynamodb() {
        insert("dynamodb", change_json(change));
    }
    insert("eventSourceARN", json!(stream_arn));
    Value::Object(json).to_string()
}

fn user_identity(identity: &Identity) -> Value {
    json!({ "principalId": identity.principal_id(), "type": identity.r#type() })
}

fn change_json(change: &StreamRecord) -> Value {
    let mut json = Map::new();
    let mut insert = |name: &str, value: Value| drop(json.insert(name.to_owned(), value));
    if let Some(created) = change.approximate_creation_date_time() {
        let seconds = created
            .to_millis()
            .map_or_else(|_| created.secs(), |ms| Timestamp::from_epoch_ms(ms).epoch_seconds());
        insert("ApproximateCreationDateTime", json!(seconds));
    }
    for (name, image) in
        [("Keys", change.keys()), ("NewImage", change.new_image()), ("OldImage", change.old_image())]
    {
        if let Some(image) = image {
            insert(name, image_json(image));
        }
    }
    insert("SequenceNumber", json!(change.sequence_number()));
    insert("SizeBytes", json!(change.size_bytes()));
    insert("StreamViewType", json!(change.stream_view_type().map(|view| view.as_str())));
    Value::Object(json)
}

fn image_json(image: &SdkImage) -> Value {
    Value::Object(image.iter().map(|(name, value)| (name.clone(), value_json(value))).collect())
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the SDK keeps the variant for unknown types private")]
fn value_json(value: &AttributeValue) -> Value {
    let base64 = |bytes: &Blob| STANDARD.encode(bytes.as_ref());
    match value {
        AttributeValue::S(text) => json!({ "S": text }),
        AttributeValue::N(number) => json!({ "N": number }),
        AttributeValue::B(bytes) => json!({ "B": base64(bytes) }),
        AttributeValue::Bool(flag) => json!({ "BOOL": flag }),
        AttributeValue::Null(_) => json!({ "NULL": true }),
        AttributeValue::M(map) => json!({ "M": image_json(map) }),
        AttributeValue::L(list) => json!({ "L": list.iter().map(value_json).collect::<Vec<_>>() }),
        AttributeValue::Ss(set) => json!({ "SS": set }),
        AttributeValue::Ns(set) => json!({ "NS": set }),
        AttributeValue::Bs(set) => json!({ "BS": set.iter().map(base64).collect::<Vec<_>>() }),
        // A type of a later version of DynamoDB: the decoder reports it.
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodbstreams::primitives::DateTime;
    use aws_sdk_dynamodbstreams::types::{OperationType, StreamViewType};

    use super::*;

    #[test]
    fn a_record_is_written_as_lambda_writes_it() {
        let change = StreamRecord::builder()
            .approximate_creation_date_time(DateTime::from_secs_and_nanos(1_770_372_000, 500_000_000))
            .keys("PK", AttributeValue::S("a".to_owned()))
            .old_image("n", AttributeValue::N("12345678901234567890123456789012345678".to_owned()))
            .old_image("b", AttributeValue::B(Blob::new([0, 255])))
            .old_image("l", AttributeValue::L(vec![AttributeValue::Null(true), AttributeValue::Bool(false)]))
            .sequence_number("100000000000000000001")
            .size_bytes(59)
            .stream_view_type(StreamViewType::NewAndOldImages)
            .build();
        let identity = Identity::builder().principal_id("dynamodb.amazonaws.com").r#type("Service").build();
        let record = Record::builder()
            .event_id("e1")
            .event_name(OperationType::Remove)
            .event_version("1.1")
            .event_source("aws:dynamodb")
            .aws_region("eu-west-1")
            .user_identity(identity)
            .dynamodb(change)
            .build();
        let expected = json!({
            "eventID": "e1", "eventName": "REMOVE", "eventVersion": "1.1", "eventSource": "aws:dynamodb",
            "awsRegion": "eu-west-1", "eventSourceARN": "arn:stream",
            "userIdentity": {"principalId": "dynamodb.amazonaws.com", "type": "Service"},
            "dynamodb": {
                "ApproximateCreationDateTime": 1_770_372_000, "Keys": {"PK": {"S": "a"}},
                "OldImage": {
                    "n": {"N": "12345678901234567890123456789012345678"}, "b": {"B": "AP8="},
                    "l": {"L": [{"NULL": true}, {"BOOL": false}]},
                },
                "SequenceNumber": "100000000000000000001", "SizeBytes": 59,
                "StreamViewType": "NEW_AND_OLD_IMAGES",
            },
        });
        let written = lambda_record(&record, "arn:stream");
        assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), expected);
    }
}
