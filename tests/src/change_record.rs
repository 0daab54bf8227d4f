//! Changes of items as a table's stream has them.

use afterwrite_memory::ItemChange;
use afterwrite_model::record::Item;
use serde_json::{Map, Value, json};

use crate::sdk_items::image_json;

/// The ARN of a stream of a table.
#[must_use]
pub fn stream_of(table: &str) -> String {
    format!("arn:aws:dynamodb:eu-west-1:123456789012:table/{table}/stream/2026-02-06T10:00:00.000")
}

/// The record of a change between two images, which are in DynamoDB's JSON and have these key attributes. `at` is in epoch seconds.
///
/// # Panics
/// If there is no image.
#[must_use]
pub fn stream_record(
    stream: &str,
    key_names: &[&str],
    (sequence_number, at): (&str, i64),
    (old, new): (Option<&Value>, Option<&Value>),
) -> Value {
    let image = new.or(old).expect("an image");
    let keys: Map<String, Value> =
        key_names.iter().map(|name| ((*name).to_owned(), image[*name].clone())).collect();
    let operation = match (old, new) {
        (None, _) => "INSERT",
        (Some(_), Some(_)) => "MODIFY",
        (Some(_), None) => "REMOVE",
    };
    let mut record = json!({
        "eventID": format!("event-{sequence_number}"),
        "eventName": operation,
        "eventSource": "aws:dynamodb",
        "eventSourceARN": stream,
        "dynamodb": {
            "ApproximateCreationDateTime": at,
            "Keys": keys,
            "SequenceNumber": sequence_number,
            "SizeBytes": 100,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
    });
    for (name, image) in [("OldImage", old), ("NewImage", new)] {
        if let Some(image) = image {
            record["dynamodb"][name] = image.clone();
        }
    }
    record
}

/// The same record of the deletion of an expired item.
#[must_use]
pub fn expired(mut record: Value) -> Value {
    record["userIdentity"] = json!({ "type": "Service", "principalId": "dynamodb.amazonaws.com" });
    record
}

/// The record of a change of a table in memory.
#[must_use]
pub fn change_record(stream: &str, sequence_number: &str, change: &ItemChange) -> Value {
    let key_names: Vec<&str> = change.key.attributes().map(|key| &*key.name).collect();
    let image = |image: &Option<Item>| image.as_ref().map(image_json);
    let (old, new) = (image(&change.old), image(&change.new));
    let images = (old.as_ref(), new.as_ref());
    let record = stream_record(stream, &key_names, (sequence_number, change.time.epoch_seconds()), images);
    if change.is_expiry { expired(record) } else { record }
}
