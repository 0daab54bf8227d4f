//! Items in JSON: table exports, outputs of scans, lists and lines.

use std::io::BufRead;

use afterwrite::record::Item;
use afterwrite::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::item_json::ItemJson;

/// The output of a scan.
#[derive(Deserialize)]
struct ScanOutput {
    #[serde(rename = "Items")]
    items: Vec<Box<RawValue>>,
}

/// A record of an incremental export.
#[derive(Deserialize)]
struct IncrementalRecord {
    #[serde(rename = "Metadata")]
    _metadata: IncrementalMetadata,
    #[serde(rename = "Keys")]
    _keys: IgnoredAny,
}

#[derive(Deserialize)]
struct IncrementalMetadata {
    #[serde(rename = "WriteTimestampMicros")]
    _written: IgnoredAny,
}

/// Reads at most this many items of JSON values that follow one another.
pub(super) fn read_items(content: impl BufRead, most: usize) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    for value in serde_json::Deserializer::from_reader(content).into_iter::<Box<RawValue>>() {
        let value = value.map_err(|error| not_json(&error))?;
        if serde_json::from_str::<IncrementalRecord>(value.get()).is_ok() {
            return Err(Error::new(
                ErrorKind::Configuration,
                "the input is an incremental export: changes, not items",
            )
            .hint("Name a full export, the output of `aws dynamodb scan`, or JSON lines with an item each"));
        }
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

fn not_json(error: &serde_json::Error) -> Error {
    if error.io_error_kind() == Some(std::io::ErrorKind::UnexpectedEof) {
        return Error::new(
            ErrorKind::Configuration,
            "the compressed input ends too early: the file is truncated",
        )
        .hint("Copy or download the file again");
    }
    if error.is_io() {
        return Error::new(ErrorKind::Configuration, "the input cannot be read or unpacked")
            .with("cause", error.to_string());
    }
    // After the last line break, the reader is at the beginning of a line that does not exist.
    let line = if error.column() == 0 { error.line().saturating_sub(1).max(1) } else { error.line() };
    Error::new(ErrorKind::Configuration, "the input is not JSON")
        .with("line", line.to_string())
        .hint("Name a table export, the output of `aws dynamodb scan`, or JSON lines with an item each")
}

/// The items in a JSON value; the value itself if it has no list of items.
fn items_of(value: &RawValue) -> Vec<Box<RawValue>> {
    let list = serde_json::from_str::<Vec<Box<RawValue>>>(value.get());
    let list = list.or_else(|_| serde_json::from_str::<ScanOutput>(value.get()).map(|output| output.items));
    list.unwrap_or_else(|_| vec![value.to_owned()])
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Write as _};

    use flate2::Compression;
    use flate2::bufread::MultiGzDecoder;
    use flate2::write::GzEncoder;

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
    fn incremental_exports_and_truncated_files_are_refused_by_name() {
        let change = r#"{"Metadata":{"WriteTimestampMicros":{"N":"1"}},"Keys":{"PK":{"S":"a"}},"NewImage":{"PK":{"S":"a"}}}"#;
        let error = read_items(change.as_bytes(), 10).unwrap_err();
        assert!(error.report().contains("incremental export"), "{}", error.report());
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        let lines: String = (0..500).map(|index| format!("{{\"PK\":\"a{index}\"}}\n")).collect();
        packed.write_all(lines.as_bytes()).unwrap();
        let packed = packed.finish().unwrap();
        let half = packed.get(..packed.len() / 2).unwrap();
        let error = read_items(BufReader::new(MultiGzDecoder::new(half)), 1000).unwrap_err();
        assert!(error.report().contains("truncated"), "{}", error.report());
    }

    #[test]
    fn the_line_of_a_mistake_is_its_own() {
        for (text, line) in [("{\"a\":1}\n{\"b\":2\n", "2"), ("{\"a\":1}\n\nx\n", "3"), ("{\"a\":", "1")] {
            let error = read_items(text.as_bytes(), 10).unwrap_err();
            assert!(error.report().contains(line), "{text}: {}", error.report());
        }
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
