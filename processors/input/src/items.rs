//! Items in JSON: table exports, outputs of scans, lists and lines.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use afterwrite_model::record::Item;
use afterwrite_model::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::item_json::ItemJson;

/// The mark that some programs write at the beginning of a file in UTF-8.
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// The output of a scan.
#[derive(Deserialize)]
struct ScanOutput<'v> {
    #[serde(rename = "Items", borrow)]
    items: Vec<&'v RawValue>,
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
pub(super) fn read_items(mut content: impl BufRead, most: usize) -> Result<Vec<Item>> {
    let start = content.fill_buf().map_err(|error| unreadable(error.kind(), &error))?;
    if start.starts_with(&BYTE_ORDER_MARK) {
        content.consume(BYTE_ORDER_MARK.len());
    }
    let (mut items, line) = (Vec::new(), Rc::new(Cell::new(1)));
    let content = LineCounter { content, line: Rc::clone(&line), is_ended: false };
    for value in serde_json::Deserializer::from_reader(content).into_iter::<Box<RawValue>>() {
        let value = value.map_err(|error| not_json(&error))?;
        if serde_json::from_str::<IncrementalRecord>(value.get()).is_ok() {
            return Err(Error::new(
                ErrorKind::Configuration,
                "the input is an incremental export: changes, not items",
            )
            .hint("Name a full export, the output of `aws dynamodb scan`, or JSON lines with an item each"));
        }
        let mut rest = value.get();
        let mut item_line = line.get() - line_breaks(rest);
        for json in items_of(&value).into_iter().map(RawValue::get) {
            if items.len() == most {
                return Ok(items);
            }
            let (before, after) = rest.split_once(json).unwrap_or_default();
            item_line += line_breaks(before);
            items.push(item(json).map_err(|error| error.with("line", item_line.to_string()))?);
            item_line += line_breaks(json);
            rest = after;
        }
    }
    Ok(items)
}

fn line_breaks(text: &str) -> usize {
    text.matches('\n').count()
}

/// Counts the lines that are read, byte by byte as the deserializer reads them.
struct LineCounter<R> {
    content: R,
    /// The line of the last byte that was read, from 1.
    line: Rc<Cell<usize>>,
    /// Whether that byte ends its line.
    is_ended: bool,
}

impl<R: BufRead> Read for LineCounter<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.content.read(buffer)?;
        for byte in buffer.get(..length).unwrap_or_default() {
            self.line.set(self.line.get() + usize::from(self.is_ended));
            self.is_ended = *byte == b'\n';
        }
        Ok(length)
    }
}

/// The item in a JSON text.
///
/// # Errors
/// `Configuration` if the text is not an item. The error has no values of the text.
fn item(json: &str) -> Result<Item> {
    ItemJson::read(json).map(|(_, item)| item)
}

/// The error of an input that cannot be read to its end.
fn unreadable(kind: io::ErrorKind, cause: &impl ToString) -> Error {
    if kind == io::ErrorKind::UnexpectedEof {
        return Error::new(
            ErrorKind::Configuration,
            "the compressed input ends too early: the file is truncated",
        )
        .hint("Copy or download the file again");
    }
    Error::new(ErrorKind::Configuration, "the input cannot be read or unpacked")
        .with("cause", cause.to_string())
}

fn not_json(error: &serde_json::Error) -> Error {
    if let Some(kind) = error.io_error_kind() {
        return unreadable(kind, error);
    }
    // After the last line break, the reader is at the beginning of a line that does not exist.
    let line = if error.column() == 0 { error.line().saturating_sub(1).max(1) } else { error.line() };
    Error::new(ErrorKind::Configuration, "the input is not JSON")
        .with("line", line.to_string())
        .hint("Name a table export, the output of `aws dynamodb scan`, or JSON lines with an item each")
}

/// The items in a JSON value; the value itself if it has no list of items.
fn items_of(value: &RawValue) -> Vec<&RawValue> {
    let list = serde_json::from_str::<Vec<&RawValue>>(value.get());
    let list =
        list.or_else(|_| serde_json::from_str::<ScanOutput<'_>>(value.get()).map(|output| output.items));
    list.unwrap_or_else(|_| vec![value])
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
    fn an_invalid_item_is_named_by_its_line_and_attribute() {
        let good = r#"{"Item":{"PK":{"S":"a"},"n":{"N":"1"}}}"#;
        let bad = r#"{"Item":{"PK":{"S":"secret"},"n":{"N":"1,5"}}}"#;
        let pretty = "[\n  {\n    \"PK\": {\"S\": \"a\"}\n  },\n  {\"PK\": {\"S\": \"secret\"},\n   \"n\": {\"N\": \"1,5\"}}\n]\n";
        for (text, line) in [
            (format!("{good}\n\n{good}\n\n{bad}\n{good}\n"), "5"),
            (bad.to_owned(), "1"),
            (pretty.to_owned(), "5"),
        ] {
            let report = read_items(text.as_bytes(), 10).unwrap_err().report();
            for part in
                [format!("line: {line}"), "attribute: n".to_owned(), "N must be a decimal number".to_owned()]
            {
                assert!(report.contains(&part), "no {part} in {report}");
            }
            assert!(!report.contains("secret") && !report.contains("1,5"), "{report}");
        }
        let report = read_items("{\"a\":1}\n5\n".as_bytes(), 10).unwrap_err().report();
        assert!(report.contains("line: 2"), "{report}");
    }

    #[test]
    fn a_byte_order_mark_is_skipped() {
        assert_eq!(count("\u{feff}{\"PK\":\"a\"}\n{\"PK\":\"b\"}\n"), 2);
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
