//! Filter patterns.

use afterwrite_mapping::FilterCriteria;
use serde_json::{Value, json};

use super::harness::MappingRun;
use super::simulated_stream::SimulatedStream;

fn record() -> String {
    json!({
        "eventName": "MODIFY",
        "userIdentity": null,
        "dynamodb": {
            "Keys": { "PK": { "S": "ORDER#7" }, "SK": { "S": "META" } },
            "NewImage": {
                "status": { "S": "PAID" }, "note": { "S": "" }, "total": { "N": "42.50" },
                "gone": { "NULL": true }, "tags": { "SS": ["red", "blue"] }, "file": { "S": "a/b.png" },
            },
            "OldImage": { "status": { "S": "OPEN" } },
        },
    })
    .to_string()
}

/// Whether a record passes a filter on an attribute of its new image.
fn accepts(attribute: &str, conditions: Value) -> bool {
    let (name, kind) = attribute.split_once('.').unwrap();
    accepts_pattern(&json!({ "dynamodb": { "NewImage": { name: { kind: conditions } } } }).to_string())
}

fn accepts_pattern(pattern: &str) -> bool {
    FilterCriteria::from_patterns([pattern]).unwrap().accepts(&record())
}

fn refusal(pattern: &str) -> String {
    FilterCriteria::from_patterns([pattern]).unwrap_err().to_string()
}

#[test]
fn equals_prefix_suffix_and_anything_but() {
    for (attribute, conditions, expected) in [
        ("status.S", json!(["PAID"]), true),
        ("status.S", json!(["OPEN", "PAID"]), true),
        ("status.S", json!(["paid"]), false),
        ("status.S", json!([{ "equals-ignore-case": "paid" }]), true),
        ("status.S", json!([{ "prefix": "PA" }]), true),
        ("status.S", json!([{ "prefix": "AID" }]), false),
        ("file.S", json!([{ "suffix": ".png" }]), true),
        ("file.S", json!([{ "suffix": ".jpg" }]), false),
        ("status.S", json!([{ "anything-but": ["OPEN", "VOID"] }]), true),
        ("status.S", json!([{ "anything-but": ["PAID"] }]), false),
        ("status.S", json!([{ "anything-but": { "prefix": "PA" } }]), false),
        ("missing.S", json!([{ "anything-but": ["PAID"] }]), false),
        ("tags.SS", json!(["blue"]), true),
        ("tags.SS", json!(["green"]), false),
        ("gone.NULL", json!([true]), true),
    ] {
        assert_eq!(accepts(attribute, conditions.clone()), expected, "{attribute} {conditions}");
    }
}

#[test]
fn null_and_the_empty_text_are_values() {
    assert!(accepts_pattern(r#"{"userIdentity": [null]}"#));
    assert!(!accepts_pattern(r#"{"eventName": [null]}"#));
    assert!(accepts("note.S", json!([""])));
    assert!(!accepts("status.S", json!([""])));
    assert!(!accepts_pattern(r#"{"awsRegion": [null]}"#), "a missing field is not null");
}

#[test]
fn exists_is_about_leaves_only() {
    assert!(accepts("status.S", json!([{ "exists": true }])));
    assert!(!accepts("status.S", json!([{ "exists": false }])));
    assert!(accepts("missing.S", json!([{ "exists": false }])));
    assert!(!accepts_pattern(r#"{"dynamodb": {"OldImage": [{"exists": true}]}}"#), "an image is not a leaf");
    assert!(accepts_pattern(r#"{"dynamodb": {"OldImage": [{"exists": false}]}}"#), "an image is not a leaf");
}

#[test]
fn all_fields_must_match_and_any_alternative() {
    assert!(accepts_pattern(
        r#"{"eventName": ["INSERT", "MODIFY"], "dynamodb": {"Keys": {"PK": {"S": [{"prefix": "ORDER#"}]}}}}"#
    ));
    assert!(!accepts_pattern(
        r#"{"eventName": ["INSERT"], "dynamodb": {"Keys": {"PK": {"S": [{"prefix": "ORDER#"}]}}}}"#
    ));
    let either =
        r#"{"$or": [{"eventName": ["REMOVE"]}, {"dynamodb": {"NewImage": {"status": {"S": ["PAID"]}}}}]}"#;
    assert!(accepts_pattern(either));
    assert!(!accepts_pattern(r#"{"$or": [{"eventName": ["REMOVE"]}, {"eventName": ["INSERT"]}]}"#));
    assert!(refusal(r#"{"$or": [{"eventName": ["REMOVE"]}]}"#).contains("at least two alternatives"));
}

#[test]
fn the_last_of_two_equal_keys_counts() {
    let twice = r#"{"dynamodb": {"OldImage": {"status": {"S": ["VOID"]}}}, "dynamodb": {"NewImage": {"status": {"S": ["PAID"]}}}}"#;
    assert!(accepts_pattern(twice), "the condition on the old image is lost");
    let nested =
        r#"{"dynamodb": {"OldImage": {"status": {"S": ["VOID"]}}, "NewImage": {"status": {"S": ["PAID"]}}}}"#;
    assert!(!accepts_pattern(nested));
}

#[test]
fn numeric_conditions_are_refused_because_a_stream_has_numbers_as_texts() {
    let error = refusal(r#"{"dynamodb": {"NewImage": {"total": {"N": [{"numeric": [">", 10]}]}}}}"#);
    assert!(error.starts_with("`numeric` of `N` never matches a record of DynamoDB"), "{error}");
    assert!(accepts("total.N", json!(["42.50"])));
    assert!(!accepts("total.N", json!([42.5])));
}

#[test]
fn five_filters_are_allowed_and_any_of_them_accepts() {
    let pattern = |name: &str| json!({ "eventName": [name] }).to_string();
    let patterns = ["A", "B", "C", "D", "MODIFY", "E"].map(pattern);
    let of = |count: usize| FilterCriteria::from_patterns(patterns[..count].iter().map(String::as_str));
    assert!(!of(4).unwrap().accepts(&record()));
    assert!(of(5).unwrap().accepts(&record()));
    assert!(of(6).unwrap_err().to_string().starts_with("FilterCriteria has 6 filters. Lambda takes up to 5"));
}

#[test]
fn malformed_patterns_are_refused_with_their_place() {
    for (pattern, message) in [
        ("{", "the pattern of a filter is not JSON (filter: 1)"),
        ("[]", "the pattern of a filter is not an object"),
        (r#"{"eventName": "INSERT"}"#, "`eventName` of a filter must be an object or a list of conditions"),
        (r#"{"eventName": []}"#, "`eventName` of a filter must be an object or a list of conditions"),
        (r#"{"eventName": [{"like": "x"}]}"#, "`like` of `eventName` is not an operator of filters"),
        (r#"{"eventName": [{"prefix": 5}]}"#, "`prefix` of `eventName` needs a text"),
    ] {
        let error = refusal(pattern);
        assert!(error.starts_with(message), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn filtered_records_are_not_delivered_and_the_checkpoint_passes_them() {
    let stream = SimulatedStream::of(&[]);
    for (number, key) in [("1", "ORDER#1"), ("2", "USER#1"), ("3", "ORDER#2"), ("4", "USER#2")] {
        stream.write_item("s", number, key);
    }
    let pattern = r#"{"dynamodb": {"Keys": {"PK": {"S": [{"prefix": "ORDER#"}]}}}}"#;
    let run = MappingRun::new(&stream, json!({ "FilterCriteria": { "Filters": [{ "Pattern": pattern }] } }));
    let outcome = run.drain().await;
    assert_eq!(outcome.batches(), ["1 3"]);
    assert_eq!((outcome.counts.read, outcome.counts.filtered, outcome.counts.accepted), (4, 2, 2));
    let checkpoint = run.checkpoints.stored().shards["s"].clone();
    assert_eq!(checkpoint, afterwrite_mapping::ShardCheckpoint::After("4".to_owned()));
}
