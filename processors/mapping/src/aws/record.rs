//! A record of the API of DynamoDB Streams, as Lambda delivers it. The SDK of streams has value types of its own, so they are written here;
//! numbers keep the digits of the service.

use std::collections::HashMap;

use aws_sdk_dynamodbstreams::primitives::DateTime;
use aws_sdk_dynamodbstreams::types::{AttributeValue, Identity, Record, StreamRecord as ApiChange};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::stream::StreamRecord;

/// The record as Lambda delivers it: the API lacks the stream's ARN, and spells the members of `userIdentity` in upper case.
pub(super) fn lambda_record(record: &Record, stream_arn: &str) -> StreamRecord {
    let change = record.dynamodb();
    let mut json = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            json.insert(name.to_owned(), value);
        }
    };
    put("eventID", text(record.event_id()));
    put("eventName", text(record.event_name().map(aws_sdk_dynamodbstreams::types::OperationType::as_str)));
    put("eventVersion", text(record.event_version()));
    put("eventSource", text(record.event_source()));
    put("awsRegion", text(record.aws_region()));
    put("dynamodb", change.map(lambda_change));
    put("userIdentity", record.user_identity().map(identity));
    put("eventSourceARN", text(Some(stream_arn)));
    let sequence_number = change.and_then(ApiChange::sequence_number).unwrap_or_default().to_owned();
    StreamRecord { sequence_number, json: Value::Object(json).to_string() }
}

fn lambda_change(change: &ApiChange) -> Value {
    let mut json = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            json.insert(name.to_owned(), value);
        }
    };
    let created = change.approximate_creation_date_time().map(DateTime::secs);
    put("ApproximateCreationDateTime", created.map(Value::from));
    put("Keys", change.keys().map(item));
    put("NewImage", change.new_image().map(item));
    put("OldImage", change.old_image().map(item));
    put("SequenceNumber", text(change.sequence_number()));
    put("SizeBytes", change.size_bytes().map(Value::from));
    put(
        "StreamViewType",
        text(change.stream_view_type().map(aws_sdk_dynamodbstreams::types::StreamViewType::as_str)),
    );
    Value::Object(json)
}

fn text(value: Option<&str>) -> Option<Value> {
    value.map(Value::from)
}

fn identity(identity: &Identity) -> Value {
    json!({ "type": identity.r#type(), "principalId": identity.principal_id() })
}

fn item(attributes: &HashMap<String, AttributeValue>) -> Value {
    let attributes = attributes.iter().map(|(name, value)| (name.clone(), attribute(value)));
    Value::Object(attributes.collect())
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum of the SDK is open")]
fn attribute(value: &AttributeValue) -> Value {
    let base64 = |bytes: &aws_sdk_dynamodbstreams::primitives::Blob| STANDARD.encode(bytes.as_ref());
    match value {
        AttributeValue::S(text) => json!({ "S": text }),
        AttributeValue::N(number) => json!({ "N": number }),
        AttributeValue::B(bytes) => json!({ "B": base64(bytes) }),
        AttributeValue::Bool(boolean) => json!({ "BOOL": boolean }),
        AttributeValue::Null(is_null) => json!({ "NULL": is_null }),
        AttributeValue::M(members) => json!({ "M": item(members) }),
        AttributeValue::L(elements) => json!({ "L": elements.iter().map(attribute).collect::<Value>() }),
        AttributeValue::Ss(texts) => json!({ "SS": texts }),
        AttributeValue::Ns(numbers) => json!({ "NS": numbers }),
        AttributeValue::Bs(set) => json!({ "BS": set.iter().map(base64).collect::<Vec<_>>() }),
        // A type that DynamoDB adds later; the decoder of records reports it.
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodbstreams::primitives::Blob;
    use aws_sdk_dynamodbstreams::types::{OperationType, StreamViewType};

    use super::*;

    #[test]
    fn a_record_has_lambdas_form() {
        let value = AttributeValue::L(vec![
            AttributeValue::N("1.50".to_owned()),
            AttributeValue::B(Blob::new([0_u8, 255])),
            AttributeValue::Null(true),
            AttributeValue::M(HashMap::from([("x".to_owned(), AttributeValue::Bool(false))])),
            AttributeValue::Ss(vec!["a".to_owned()]),
        ]);
        let key = |text: &str| HashMap::from([("PK".to_owned(), AttributeValue::S(text.to_owned()))]);
        let change = ApiChange::builder()
            .approximate_creation_date_time(DateTime::from_secs(1_770_372_000))
            .set_keys(Some(key("p")))
            .old_image("list", value)
            .sequence_number("100000000000000000001")
            .size_bytes(26)
            .stream_view_type(StreamViewType::NewAndOldImages);
        let identity = Identity::builder().principal_id("dynamodb.amazonaws.com").r#type("Service").build();
        let record = Record::builder()
            .event_id("e1")
            .event_name(OperationType::Remove)
            .event_version("1.1")
            .event_source("aws:dynamodb")
            .aws_region("eu-west-1")
            .dynamodb(change.build())
            .user_identity(identity);
        let record = lambda_record(&record.build(), "arn:aws:dynamodb:eu-west-1:1:table/T/stream/x");
        assert_eq!(record.sequence_number, "100000000000000000001");
        assert_eq!(
            serde_json::from_str::<Value>(&record.json).unwrap(),
            json!({
                "eventID": "e1",
                "eventName": "REMOVE",
                "eventVersion": "1.1",
                "eventSource": "aws:dynamodb",
                "awsRegion": "eu-west-1",
                "dynamodb": {
                    "ApproximateCreationDateTime": 1_770_372_000,
                    "Keys": { "PK": { "S": "p" } },
                    "OldImage": { "list": { "L": [
                        { "N": "1.50" }, { "B": "AP8=" }, { "NULL": true }, { "M": { "x": { "BOOL": false } } }, { "SS": ["a"] },
                    ] } },
                    "SequenceNumber": "100000000000000000001",
                    "SizeBytes": 26,
                    "StreamViewType": "NEW_AND_OLD_IMAGES",
                },
                "userIdentity": { "type": "Service", "principalId": "dynamodb.amazonaws.com" },
                "eventSourceARN": "arn:aws:dynamodb:eu-west-1:1:table/T/stream/x",
            })
        );
    }
}
