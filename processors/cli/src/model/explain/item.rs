//! The item to explain, as `aws dynamodb get-item` prints it or as plain JSON; and the change record that writing it would make.

use std::collections::BTreeMap;
use std::io::Read as _;

use afterwrite::table::Table;
use afterwrite::{Error, ErrorKind, Result};
use serde_json::json;
use serde_json::value::RawValue;

/// DynamoDB's type names.
const TYPES: [&str; 10] = ["S", "N", "B", "BOOL", "NULL", "M", "L", "SS", "NS", "BS"];

/// Attributes in DynamoDB's JSON. Numbers keep their digits.
#[derive(Debug)]
pub(super) struct ItemFile(BTreeMap<String, Box<RawValue>>);

type Members = BTreeMap<String, Box<RawValue>>;

impl ItemFile {
    /// Reads the item of a file, or of standard input if the file is `-`.
    ///
    /// # Errors
    /// The file cannot be read, or does not hold an item.
    pub(super) fn read(file: &str) -> Result<Self> {
        let mut text = String::new();
        let read = match file {
            "-" => std::io::stdin().read_to_string(&mut text).map(|_| ()),
            file => std::fs::read_to_string(file).map(|read| text = read),
        };
        read.map_err(|error| {
            Error::new(ErrorKind::Configuration, "the item cannot be read")
                .with("file", file)
                .hint("Name a file of JSON with --item, or - for standard input")
                .caused_by(error)
        })?;
        Self::parse(&text).ok_or_else(|| {
            Error::new(ErrorKind::Configuration, "the file does not hold an item").with("file", file).hint(
                "Write the item as one JSON object, plainly or as `aws dynamodb get-item` prints it: {\"PK\": {\"S\": \"…\"}, …}",
            )
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let members: Members = serde_json::from_str(text).ok()?;
        let inner = members.get("Item").and_then(|item| serde_json::from_str::<Members>(item.get()).ok());
        if let Some(item) = inner.filter(is_typed) {
            return Some(Self(item));
        }
        if is_typed(&members) {
            return Some(Self(members));
        }
        let typed = members.into_iter().map(|(name, value)| Some((name, typed(&value)?)));
        typed.collect::<Option<Members>>().filter(|members| !members.is_empty()).map(Self)
    }

    /// The record of the item in the stream of this table; `None` if the item lacks the table's key.
    pub(super) fn record(&self, table: &Table) -> Option<String> {
        let keys = table.key().map(|key| Some((&*key.name, self.0.get(&*key.name)?)));
        let keys: BTreeMap<_, _> = keys.collect::<Option<_>>()?;
        let stream = format!("table/{}/stream/2026-01-01T00:00:00.000", table.name);
        let record = json!({
            "eventID": "explained",
            "eventName": "INSERT",
            "eventSourceARN": format!("arn:aws:dynamodb:eu-west-1:000000000000:{stream}"),
            "dynamodb": {
                "Keys": keys,
                "NewImage": self.0,
                "SequenceNumber": "1",
                "StreamViewType": "NEW_AND_OLD_IMAGES",
            },
        });
        Some(record.to_string())
    }
}

/// Whether every attribute has a type, as in DynamoDB's JSON.
fn is_typed(members: &Members) -> bool {
    let is_value = |value: &RawValue| {
        let value: Option<Members> = serde_json::from_str(value.get()).ok();
        value.is_some_and(|value| value.len() == 1 && value.keys().all(|name| TYPES.contains(&name.as_str())))
    };
    !members.is_empty() && members.values().all(|value| is_value(value))
}

/// A plain value in DynamoDB's JSON.
fn typed(value: &RawValue) -> Option<Box<RawValue>> {
    let text = value.get();
    let typed = match text.as_bytes().first()? {
        b'"' => format!(r#"{{"S":{text}}}"#),
        b't' | b'f' => format!(r#"{{"BOOL":{text}}}"#),
        b'n' => r#"{"NULL":true}"#.to_owned(),
        b'{' => {
            let members: Members = serde_json::from_str(text).ok()?;
            let members = members.into_iter().map(|(name, value)| Some((name, typed(&value)?)));
            let members = serde_json::to_string(&members.collect::<Option<Members>>()?).ok()?;
            format!(r#"{{"M":{members}}}"#)
        }
        b'[' => {
            let elements: Vec<Box<RawValue>> = serde_json::from_str(text).ok()?;
            let elements = elements.iter().map(|element| typed(element)).collect::<Option<Vec<_>>>()?;
            format!(r#"{{"L":{}}}"#, serde_json::to_string(&elements).ok()?)
        }
        _ => format!(r#"{{"N":"{text}"}}"#),
    };
    RawValue::from_string(typed).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Option<String> {
        let item = ItemFile::parse(text)?;
        serde_json::to_string(&item.0).ok()
    }

    #[test]
    fn the_output_of_get_item_is_read() {
        let item = r#"{"PK":{"S":"a"},"n":{"N":"1.50"}}"#;
        assert_eq!(written(item).as_deref(), Some(item));
        let wrapped = format!(r#"{{"Item":{item},"ConsumedCapacity":{{"Units":1}}}}"#);
        assert_eq!(written(&wrapped).as_deref(), Some(item));
    }

    #[test]
    fn plain_json_gets_types_and_numbers_keep_their_digits() {
        let plain = r#"{"a":"x","b":12345678901234567890123456789012345678,"c":[true,null,1.50],"d":{"S":"x","e":2}}"#;
        let typed = r#"{"a":{"S":"x"},"b":{"N":"12345678901234567890123456789012345678"},"c":{"L":[{"BOOL":true},{"NULL":true},{"N":"1.50"}]},"d":{"M":{"S":{"S":"x"},"e":{"N":"2"}}}}"#;
        assert_eq!(written(plain).as_deref(), Some(typed));
    }

    #[test]
    fn only_an_object_with_attributes_is_an_item() {
        for text in ["", "[]", "1", "{", "{}"] {
            assert_eq!(written(text), None, "{text}");
        }
    }
}
