//! Items in JSON: table exports, outputs of scans, lists and lines.

use std::io::BufRead;

use afterwrite::record::Item;
use afterwrite::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::item_json::ItemJson;

/// The output of a scan.
#[derive(Deserialize)]
struct ScanOutput {
    #[serde(rename = "Items")]
    items: Vec<Box<RawValue>>,
}

/// Reads at most this many items of JSON values that follow one another.
pub(super) fn read_items(content: impl BufRead, most: usize) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    for value in serde_json::Deserializer::from_reader(content).into_iter::<Box<RawValue>>() {
        let value = value.map_err(|error| {
            Error::new(ErrorKind::Configuration, "the input is not JSON")
                .with("line", error.line().to_string())
                .hint(
                    "Name a table export, the output of `aws dynamodb scan`, or JSON lines with an item each",
                )
        })?;
        for json in items_of(&value) {
            if items.len() == most {
                return Ok(items);
            }
            let item = ItemJson::parse(json.get()).and_then(|item| item.to_item()).ok_or_else(|| {
                Error::new(ErrorKind::Configuration, "a JSON value of the input is not an item")
                    .with("value", (items.len() + 1).to_string())
            })?;
            items.push(item);
        }
    }
    Ok(items)
}

/// The items in a JSON value; the value itself if it has no list of items.
fn items_of(value: &RawValue) -> Vec<Box<RawValue>> {
    let list = serde_json::from_str::<Vec<Box<RawValue>>>(value.get());
    let list = list.or_else(|_| serde_json::from_str::<ScanOutput>(value.get()).map(|output| output.items));
    list.unwrap_or_else(|_| vec![value.to_owned()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        read_items(text.as_bytes(), 100).unwrap().len()
    }

    #[test]
    fn items_are_read_in_every_form() {
        let item = r#"{"PK":{"S":"a"},"n":{"N":"1"}}"#;
        assert_eq!(count(&format!("{{\"Item\":{item}}}\n{{\"Item\":{item}}}\n")), 2);
        assert_eq!(
            count(&format!("{{\n  \"Items\": [\n    {item},\n    {item}\n  ],\n  \"Count\": 2\n}}\n")),
            2
        );
        assert_eq!(count(&format!("{item}\n{item}\n{item}")), 3);
        assert_eq!(count(r#"[{"PK":"a","n":1},{"PK":"b","Items":"x"}]"#), 2);
        assert_eq!(count(""), 0);
        let items = read_items(item.as_bytes(), 0).unwrap();
        assert_eq!(items, []);
    }

    #[test]
    fn text_that_is_not_an_item_is_an_error_without_its_content() {
        for text in ["secret", "{\"a\":", "5", "{}"] {
            let error = read_items(text.as_bytes(), 10).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration);
            assert!(!error.report().contains("secret"), "{}", error.report());
        }
    }
}
