//! A secret attribute belongs to its entity: an attribute of the same name of another entity is archived.

use serde_json::{Value, json};

use super::delivery::deadline;
use super::relay_failures::{archived, event, in_memory, shop};

/// `token` is a secret of a user and an ordinary attribute of a device.
const MODEL: &str = r#"
name = "fleet"
generation = 1

[tables.Fleet]
key = ["PK", "SK"]

[entities.user]
key = { PK = "USER#{user_id}", SK = "USER" }
secret = ["token", "profile.phone"]

[entities.device]
key = { PK = "DEVICE#{device_id}", SK = "DEVICE" }
attributes = { token = "S", made = "S" }
secret = ["serial"]

[datasets.devices]
of = "device"
partition = "made:day"
[datasets.devices.columns]
device_id = "string"
token = "string"
"#;

/// The MODIFY of an item with every attribute.
fn change(number: &str, partition: &str, sort: &str) -> Value {
    let keys = json!({ "PK": { "S": partition }, "SK": { "S": sort } });
    let mut image = json!({
        "token": { "S": "t" }, "serial": { "S": "s" }, "other": { "S": "o" },
        "profile": { "M": { "phone": { "S": "p" }, "name": { "S": "n" } } },
    });
    image.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    json!({
        "eventID": format!("event-{number}"), "eventName": "MODIFY",
        "eventSourceARN": "arn:aws:dynamodb:us-east-1:000000000000:table/Fleet/stream/2026-02-06T10:00:00.000",
        "dynamodb": { "Keys": keys, "OldImage": image, "NewImage": image, "SequenceNumber": number }
    })
}

/// The record as it is archived, without these attributes.
fn without(record: &Value, secrets: &[&str]) -> Value {
    let mut record = record.clone();
    for image in ["OldImage", "NewImage"] {
        let image = record["dynamodb"][image].as_object_mut().unwrap();
        for secret in secrets {
            match secret.split_once('.') {
                Some((map, name)) => drop(image[map]["M"].as_object_mut().unwrap().remove(name)),
                None => drop(image.remove(*secret)),
            }
        }
    }
    record
}

#[tokio::test]
async fn the_secrets_of_an_entity_are_cut_from_its_own_lines() {
    let model = shop(MODEL);
    let mut malformed = change("104", "DEVICE#1", "DEVICE");
    malformed["eventName"] = json!("UPSERT");
    let records = [
        change("101", "USER#1", "USER"),
        change("102", "DEVICE#1", "DEVICE"),
        // An item of no entity, and a malformed record, may hold the secrets of any.
        change("103", "STRANGER#1", "STRANGER"),
        malformed,
    ];
    let (relay, stream) = in_memory(&model, None);
    relay.handle(event(&records).as_bytes(), deadline(5)).await.unwrap();
    let all = ["token", "serial", "profile.phone"];
    let expected = [
        without(&records[0], &["token", "profile.phone"]),
        without(&records[1], &["serial"]),
        without(&records[2], &all),
        without(&records[3], &all),
    ];
    assert_eq!(archived(&stream), expected);
}
