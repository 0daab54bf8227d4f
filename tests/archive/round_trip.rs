//! The archive contains each record as the stream delivered it, field by field, without secrets.

use std::collections::BTreeMap;

use afterwrite_model::projection::archive_line;
use afterwrite_tests::archive::{EmbeddedArchive, by_event_id, lines};
use afterwrite_tests::recording::StreamRecording;
use serde_json::{Value, json};

use super::{RECORDING, deadline, recorded_lines, secrets};

#[tokio::test]
async fn every_record_of_a_month_is_archived_without_its_secrets() {
    let (archive, secret) = (EmbeddedArchive::start().await, "email");
    let archiver = archive.archiver(archive.stream());
    for batch in recorded_lines(&secrets(&[secret])).chunks(100) {
        let outcome = archiver.archive(&lines(batch), deadline(60)).await;
        assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
        assert_eq!((outcome.totals.lines, outcome.totals.firehose_records), (batch.len() as u64, 1));
    }
    let objects = archive.read_back().await;
    let (archived, count) = by_event_id(objects.values());
    let mut expected = BTreeMap::new();
    let mut secrets_seen = 0;
    for record in StreamRecording::load(RECORDING).records() {
        let mut record: Value = serde_json::from_str(record.get()).unwrap();
        for image in ["NewImage", "OldImage"] {
            if let Some(image) = record["dynamodb"].get_mut(image).and_then(Value::as_object_mut) {
                secrets_seen += usize::from(image.remove(secret).is_some());
            }
        }
        expected.insert(record["eventID"].as_str().unwrap().to_owned(), record);
    }
    assert!(secrets_seen > 0, "the recording holds secrets");
    assert_eq!((count, archived.len()), (expected.len(), expected.len()), "nothing is lost or duplicated");
    assert!(archived == expected, "a record differs");
}

/// A record with every type of value, at the limits of DynamoDB.
fn everything() -> Value {
    let digits = "12345678901234567890123456789012345678";
    let nested = json!({ "M": { "": { "S": "" }, "deep": { "L": [{ "M": { "n": { "N": digits } } }, { "NULL": true }] } } });
    let image = json!({
        "text": { "S": "línea\nnew \"quoted\" \\ \u{1f600} \u{0} \u{2028}" },
        "empty": { "S": "" },
        "number": { "N": digits },
        "small": { "N": "-0.00000000000000000000000000000000000012345678901234567890123456789012345678" },
        "binary": { "B": "AAEC/f7/+w==" },
        "empty_binary": { "B": "" },
        "texts": { "SS": ["", "a", "b"] },
        "numbers": { "NS": ["1", digits, "-1"] },
        "binaries": { "BS": ["AA==", ""] },
        "nested": nested,
        "empty_map": { "M": {} },
        "empty_list": { "L": [] },
        "yes": { "BOOL": true },
        "card": { "M": { "holder": { "S": "H" }, "pin": { "S": "LEAK" } } },
    });
    json!({
        "eventID": "everything", "eventName": "MODIFY", "eventVersion": "1.1", "eventSource": "aws:dynamodb",
        "awsRegion": "us-east-1", "eventSourceARN": "arn:aws:dynamodb:us-east-1:000000000000:table/T/stream/2026-02-06T10:00:00.000",
        "userIdentity": { "type": "Service", "principalId": "dynamodb.amazonaws.com" },
        "dynamodb": {
            "ApproximateCreationDateTime": 1_769_904_000.5, "Keys": { "card": { "S": "a key stays" } },
            "NewImage": image.clone(), "OldImage": image,
            "SequenceNumber": "4421584500000000059450445319", "SizeBytes": 500, "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
    })
}

#[tokio::test]
async fn every_type_of_value_is_archived_unchanged() {
    let archive = EmbeddedArchive::start().await;
    let mut record = everything();
    let pretty = serde_json::to_string_pretty(&record).unwrap();
    let line = archive_line(&pretty, &secrets(&["card.pin"])).unwrap();
    let texts = [("everything".to_owned(), line)];
    let outcome = archive.archiver(archive.stream()).archive(&lines(&texts), deadline(60)).await;
    assert!(outcome.failures.is_empty());
    let objects = archive.read_back().await;
    assert!(objects.values().all(|text| !text.contains("LEAK")));
    for image in ["NewImage", "OldImage"] {
        record["dynamodb"][image]["card"]["M"].as_object_mut().unwrap().remove("pin");
    }
    let (archived, _) = by_event_id(objects.values());
    assert_eq!(archived["everything"], record);
}
