use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn path(dotted: &str) -> AttributePath {
    dotted.parse().unwrap()
}

fn of_names(names: &[String]) -> AttributePath {
    let mut names = names.iter().map(|name| Arc::from(name.as_str()));
    AttributePath::nested(names.next().unwrap(), names)
}

fn line(record: &str, secrets: &[&str]) -> String {
    let secrets: Vec<AttributePath> = secrets.iter().map(|secret| path(secret)).collect();
    archive_line(record, &secrets).expect("a record")
}

#[test]
fn without_secrets_only_the_white_space_between_tokens_is_dropped() {
    let record = "{ \"eventID\" : \"a b\\\" c\" ,\r\n\t\"dynamodb\":{\"NewImage\": {\"n\":{\"N\":\"1E+2\"}} , \"SizeBytes\": 1.50 } }";
    let expected = "{\"eventID\":\"a b\\\" c\",\"dynamodb\":{\"NewImage\":{\"n\":{\"N\":\"1E+2\"}},\"SizeBytes\":1.50}}\n";
    assert_eq!(line(record, &[]), expected);
    assert_eq!(line(record, &["nothing.there"]), expected);
}

#[test]
fn secrets_are_removed_from_both_images_and_kept_in_the_keys() {
    let record = r#"{"dynamodb":{"Keys":{"secret":{"S":"k"}},"NewImage":{"secret":{"S":"k"},"a":{"S":"1"}},"OldImage":{"a":{"S":"0"},"secret":{"S":"k"}}}}"#;
    let expected =
        r#"{"dynamodb":{"Keys":{"secret":{"S":"k"}},"NewImage":{"a":{"S":"1"}},"OldImage":{"a":{"S":"0"}}}}"#;
    assert_eq!(line(record, &["secret"]), format!("{expected}\n"));
}

#[test]
fn members_that_no_stream_delivers_are_left_out_if_there_are_secrets() {
    let record = r#"{"eventID":"1","item":{"secret":"LEAK"},"dynamodb":{"Item":{"secret":"LEAK"},"newImage":{"secret":{"S":"LEAK"}},"SizeBytes":1}}"#;
    assert_eq!(line(record, &["secret"]), "{\"eventID\":\"1\",\"dynamodb\":{\"SizeBytes\":1}}\n");
    assert_eq!(line(record, &[]), format!("{record}\n"));
}

#[test]
fn a_secret_in_a_map_or_a_list_is_removed_and_the_same_name_elsewhere_is_kept() {
    let record = r#"{"dynamodb":{"NewImage":{"pin":{"S":"0"},"card":{"M":{"pin":{"S":"1"},"held":{"M":{"pin":{"S":"2"}}}}},"list":{"L":[{"M":{"pin":{"S":"3"},"a":{"S":"4"}}},{"S":"5"}]}}}}"#;
    let expected = r#"{"dynamodb":{"NewImage":{"pin":{"S":"0"},"card":{"M":{"held":{"M":{}}}},"list":{"L":[{"M":{"a":{"S":"4"}}},{"S":"5"}]}}}}"#;
    assert_eq!(line(record, &["card.pin", "card.held.pin", "list.pin"]), format!("{expected}\n"));
}

#[test]
fn no_duplicate_and_no_escape_hides_a_secret() {
    let records = [
        r#"{"dynamodb":{"NewImage":{"password":{"S":"LEAK"},"password":{"S":"LEAK"}}}}"#,
        r#"{"dynamodb":{"NewImage":{"password":{"S":"LEAK"}},"NewImage":{}}}"#,
        r#"{"dynamodb":{"NewImage":{"password":{"S":"LEAK"}}},"dynamodb":{}}"#,
        r#"{"dynamodb":{"NewImage":{"p\u0061ssword":{"S":"LEAK"}}}}"#,
        r#"{"dynam\u006fdb":{"New\u0049mage":{"password":{"S":"LEAK"}}}}"#,
        r#"{"dynamodb":{"OldImage":{"user":{"\u004d":{"password":{"S":"LEAK"}},"M":{}}}}}"#,
    ];
    for record in records {
        let line = line(record, &["password", "user.password"]);
        assert!(!line.contains("LEAK"), "{line}");
        assert!(serde_json::from_str::<Value>(&line).is_ok(), "{line}");
    }
}

#[test]
fn an_absent_image_is_valid_and_an_image_that_cannot_be_searched_is_an_error() {
    assert_eq!(line(r#"{"dynamodb":{"OldImage":null}}"#, &["a"]), "{\"dynamodb\":{\"OldImage\":null}}\n");
    for record in [
        "[]",
        "\"text\"",
        r#"{"dynamodb":[]}"#,
        r#"{"dynamodb":{"NewImage":"LEAK"}}"#,
        r#"{"dynamodb":{"NewImage":{"a":"LEAK"}}}"#,
        r#"{"dynamodb":{"NewImage":{"a":{"M":["LEAK"]}}}}"#,
    ] {
        let error = archive_line(record, &[path("a.b")]).expect_err("it is malformed");
        assert_eq!(error.kind(), ErrorKind::Record);
        assert!(!error.to_string().contains("LEAK"), "{error}");
    }
    assert!(archive_line("[1]", &[]).is_err());
}

/// Names that are often secret, and often look like the JSON around them.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("secret".to_owned()),
        Just("M".to_owned()),
        Just("NewImage".to_owned()),
        Just("card".to_owned()),
        "[ -~]{0,6}",
        "\\PC{0,3}",
    ]
}

/// Attribute values as DynamoDB writes them.
fn value() -> impl Strategy<Value = Value> {
    let text = "[ \\-~\"\\\\\n\u{e9}\u{1f600}]{0,12}";
    let leaf = prop_oneof![
        text.prop_map(|text| serde_json::json!({ "S": text })),
        "-?[1-9][0-9]{0,36}(\\.[0-9])?".prop_map(|digits| serde_json::json!({ "N": digits })),
        "([A-Za-z0-9+/]{4}){0,4}".prop_map(|base64| serde_json::json!({ "B": base64 })),
        Just(serde_json::json!({ "SS": ["", "a"] })),
        Just(serde_json::json!({ "BOOL": true })),
        Just(serde_json::json!({ "NULL": true })),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(|list| serde_json::json!({ "L": list })),
            members(inner).prop_map(|map| serde_json::json!({ "M": map })),
        ]
    })
}

fn members(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let members = proptest::collection::vec((name(), value), 0..5);
    members.prop_map(|members| Value::Object(members.into_iter().collect()))
}

/// Removal on a parsed tree.
fn remove(members: &mut Value, path: &[Arc<str>]) {
    let (Some((first, rest)), Some(members)) = (path.split_first(), members.as_object_mut()) else { return };
    if rest.is_empty() {
        members.remove(&**first);
    } else if let Some(value) = members.get_mut(&**first) {
        remove_within(value, rest);
    }
}

/// Removal in an attribute value: in a map, or in every element of a list.
fn remove_within(value: &mut Value, path: &[Arc<str>]) {
    if let Some(inner) = value.get_mut("M") {
        remove(inner, path);
    }
    let elements = value.get_mut("L").and_then(Value::as_array_mut);
    elements.into_iter().flatten().for_each(|element| remove_within(element, path));
}

proptest! {
    #[test]
    fn a_line_is_the_record_without_its_secrets(
        new in members(value()),
        old in members(value()),
        keys in members(value()),
        secrets in proptest::collection::vec(proptest::collection::vec(name(), 1..3), 0..4),
        is_pretty in any::<bool>(),
    ) {
        let mut record = serde_json::json!({
            "eventID": "1", "dynamodb": { "Keys": keys, "NewImage": new, "OldImage": old, "SizeBytes": 7 },
        });
        let text = if is_pretty { serde_json::to_string_pretty(&record) } else { serde_json::to_string(&record) };
        let secrets: Vec<AttributePath> =
            secrets.iter().map(|names| of_names(names)).collect();
        let line = archive_line(&text.unwrap(), &secrets).unwrap();
        for image in ["NewImage", "OldImage"] {
            for secret in &secrets {
                remove(&mut record["dynamodb"][image], secret.names());
            }
        }
        prop_assert!(line.ends_with('\n') && line.lines().count() == 1);
        // Byte for byte: the order of members and the digits of numbers included.
        prop_assert_eq!(line.trim_end_matches('\n'), serde_json::to_string(&record).unwrap());
    }
}
