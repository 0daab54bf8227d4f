//! New and old images, and their attributes.

use serde_json::{Value, json};

use super::*;

#[test]
fn every_attribute_type_is_decoded() {
    let image = json!({
        "colour": {"S": "rot \"ß\" 試験 \u{1f600}\n"},
        "size": {"N": "-12345678901234567890.123456789012345678"},
        "blob": {"B": "AP8="},
        "tags": {"SS": ["a", "b"]},
        "sizes": {"NS": ["1", "2.50"]},
        "blobs": {"BS": ["AA==", ""]},
        "parts": {"L": [{"S": "x"}, {"L": [{"N": "1"}]}, {"M": {}}]},
        "more": {"M": {"deep": {"M": {"er": {"BOOL": false}}}}},
        "done": {"BOOL": true},
        "none": {"NULL": true}
    });
    with_record(&record_with("/dynamodb/NewImage", image).to_string(), |record| {
        let new = record.new.unwrap();
        let deep = AttributeValue::M([("er".into(), AttributeValue::Bool(false))].into());
        let expected = [
            ("colour", AttributeValue::text("rot \"ß\" 試験 \u{1f600}\n")),
            ("size", number("-12345678901234567890.123456789012345678")),
            ("blob", AttributeValue::B(vec![0, 255].into())),
            ("tags", AttributeValue::Ss(vec!["a".into(), "b".into()])),
            ("sizes", AttributeValue::Ns(vec![Decimal::ONE, "2.5".parse().unwrap()])),
            ("blobs", AttributeValue::Bs(vec![vec![0].into(), vec![].into()])),
            (
                "parts",
                AttributeValue::L(vec![
                    AttributeValue::text("x"),
                    AttributeValue::L(vec![number("1")]),
                    AttributeValue::M([].into()),
                ]),
            ),
            ("more", AttributeValue::M([("deep".into(), deep)].into())),
            ("done", AttributeValue::Bool(true)),
            ("none", AttributeValue::Null),
        ];
        assert_eq!(new.iter().count(), expected.len());
        for (name, value) in expected {
            assert_eq!(attribute(&new, name), Some(&value), "{name}");
        }
    });
}

#[test]
fn an_item_read_from_its_table_has_the_same_image() {
    let item: Item = [
        ("colour".into(), AttributeValue::text("red")),
        ("size".into(), number("12")),
        ("unknown".into(), AttributeValue::Null),
    ]
    .into();
    let image = Image::from_item(&item, &attributes());
    with_record(&record().to_string(), |record| assert_eq!(record.new, Some(image)));
}

#[test]
fn nesting_up_to_the_limit_of_dynamodb_is_decoded() {
    let mut value = json!({"S": "leaf"});
    for _ in 0..32 {
        value = json!({"L": [value]});
    }
    with_record(&record_with("/dynamodb/NewImage/parts", value).to_string(), |record| {
        assert!(attribute(&record.new.unwrap(), "parts").is_some());
    });
}

#[test]
fn an_image_without_attributes_is_absent() {
    let absent = record_without("/dynamodb/NewImage");
    with_record(&absent.to_string(), |record| assert_eq!(record.new, None));
    with_record(&record_with("/dynamodb/NewImage", Value::Null).to_string(), |record| {
        assert_eq!(record.new, None)
    });
    let empty = record_with("/dynamodb/NewImage", json!({}));
    with_record(&empty.to_string(), |record| assert!(record.new.is_none() && record.lacks_image()));
    let unknown = record_with("/dynamodb/NewImage", json!({"unknown": {"BOOL": true}}));
    with_record(&unknown.to_string(), |record| assert_eq!(record.new, Some(Image::default())));

    let absent = record_without("/dynamodb/OldImage");
    with_record(&absent.to_string(), |record| {
        assert!(!record.old.is_present());
        assert_eq!(record.old.decode(&attributes()).unwrap(), None);
    });
    with_record(&record_with("/dynamodb/OldImage", Value::Null).to_string(), |record| {
        assert!(!record.old.is_present())
    });
    let empty = record_with("/dynamodb/OldImage", json!({}));
    with_record(&empty.to_string(), |record| {
        assert_eq!(record.old.decode(&attributes()).unwrap(), Some(Image::default()));
        assert!(record.old.is_present() && !record.old.has_attributes() && record.lacks_image());
    });
    let unknown = record_with("/dynamodb/OldImage", json!({"unknown": {"BOOL": true}}));
    with_record(&unknown.to_string(), |record| assert!(record.old.has_attributes()));
}

#[test]
fn eager_fields_equal_the_decoded_old_image() {
    let all = attributes();
    let with_eager = attributes().with_eager_fields(all.id("size"));
    let seen = json!({"colour": {"S": "blue"}, "size": {"N": "12"}, "other": {"L": [{"S": "]}"}]}});
    for (old, fields) in [
        (seen, Some(1)),
        (json!({"colour": {"S": "red"}}), Some(0)),
        (json!({}), Some(0)),
        (Value::Null, None),
    ] {
        let json = record_with("/dynamodb/OldImage", old).to_string();
        let event = format!(r#"{{"Records":[{json}]}}"#);
        let batch = decode(event.as_bytes(), &with_eager).unwrap();
        let old = &batch.records[0].as_ref().unwrap().old;
        assert_eq!(old.eager_fields().map(|fields| fields.iter().count()), fields, "{json}");
        assert_eq!(
            old.eager_fields().cloned(),
            old.decode(with_eager.eager_fields().unwrap()).unwrap(),
            "{json}"
        );
        with_record(&json, |record| {
            assert_eq!(record.old.eager_fields(), None);
            assert_eq!(record.old.decode(&all).unwrap(), old.decode(&all).unwrap(), "{json}");
        });
    }
    // A name that is not valid Unicode; DynamoDB does not write such names.
    let invalid_name =
        record_with("/dynamodb/OldImage", json!({"NAME": {}})).to_string().replace("NAME", r"\ud800");
    for attributes in [&all, &with_eager] {
        assert!(RecordDecoder::new(attributes).record(invalid_name.as_bytes()).is_err());
    }
    for (old, message) in [
        (json!(SECRET), "OldImage must be a map"),
        (json!([]), "OldImage must be a map"),
        (json!({"size": {"N": SECRET}}), "N must be a decimal number"),
    ] {
        let event = json!({"Records": [record_with("/dynamodb/OldImage", old)]}).to_string();
        let batch = decode(event.as_bytes(), &with_eager).unwrap();
        let error = batch.records[0].as_ref().unwrap_err().error.to_string();
        assert!(error.contains(message) && !error.contains(SECRET), "{error}");
    }
}

#[test]
fn the_last_value_of_each_of_200_duplicate_attributes_counts() {
    let names: Vec<String> = (0..200).map(|number| format!("a{number}")).collect();
    let attributes = AttributeInterner::new(names.iter().map(String::as_str));
    let members = |rounds: std::ops::Range<usize>| -> Vec<String> {
        let member = |(round, name)| format!(r#""{name}":{{"S":"{name} {round}"}}"#);
        rounds.flat_map(|round| names.iter().map(move |name| (round, name))).map(member).collect()
    };
    let mut record = record();
    record["dynamodb"]["NewImage"] = json!("IMAGE");
    let image = format!("{{{}}}", members(0..2).join(","));
    let event = format!(r#"{{"Records":[{record}]}}"#).replace(r#""IMAGE""#, &image);
    let batch = decode(event.as_bytes(), &attributes).unwrap();
    let image = batch.records[0].as_ref().unwrap().new.as_ref().unwrap();
    assert_eq!(image.iter().count(), names.len());
    for name in &names {
        let value = image.get(attributes.id(name).unwrap()).and_then(AttributeValue::as_text);
        assert_eq!(value, Some(&*format!("{name} 1")));
    }
}
