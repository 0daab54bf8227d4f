//! Values and items as JSON: DynamoDB's JSON, such as `{"N":"5"}`, and plain JSON, such as `5`.
//!
//! This file has the only encoder. The only decoder is the decoder of stream records (`image_json`): it is the fastest, and it checks every value.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::image_json::DecodeContext;
use super::json_reader::{JsonReader, JsonResult};
use super::{AttributeInterner, AttributeValue, Decimal, Item};

/// A value in plain JSON: numbers keep their digits, bytes are base64, sets are lists.
#[must_use]
pub fn plain_json(value: &AttributeValue<'_>) -> String {
    json_text(&JsonValue(value, JsonForm::Plain))
}

/// A value in DynamoDB's JSON, such as `{"N":"5"}`.
#[must_use]
pub fn dynamodb_json(value: &AttributeValue<'_>) -> String {
    json_text(&JsonValue(value, JsonForm::Typed))
}

/// Serializes an item in DynamoDB's JSON: `{"PK":{"S":"a"},"n":{"N":"1"}}`.
#[derive(Clone, Copy, Debug)]
pub struct TypedItem<'i>(pub &'i Item);

impl Serialize for TypedItem<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let members = self.0.iter().map(|(name, value)| (name, JsonValue(value, JsonForm::Typed)));
        serializer.collect_map(members)
    }
}

/// Decodes a value in DynamoDB's JSON.
///
/// # Errors
/// Why the value, or a value within it, is invalid. The reason does not contain the value.
pub fn decode_value(json: &str) -> Result<AttributeValue<'static>, &'static str> {
    decode(json, |context, reader| context.value(reader).map(AttributeValue::into_owned))
}

/// Decodes an item in DynamoDB's JSON.
///
/// # Errors
/// As [`decode_value`].
pub fn decode_item(json: &str) -> Result<Item, &'static str> {
    decode(json, |context, reader| context.item(reader, &|_: &str| true))
}

/// Reads a line of a table export, `{"Item":{"PK":{"S":"a"}}}`, with the attributes that `is_read` accepts. `None` if the line is not an item.
pub fn read_item_line(line: &[u8], is_read: impl Fn(&str) -> bool) -> Option<Item> {
    let line = std::str::from_utf8(line).ok()?;
    let mut item = None;
    let read = decode(line, |context, reader| {
        reader.object(|reader, name| {
            match &*name {
                "Item" => item = Some(context.item(reader, &is_read)?),
                _ => drop(reader.skip()?),
            }
            Ok(())
        })
    });
    read.ok().and(item)
}

/// Appends the line of an item, as a table export has it.
pub fn write_item_line(line: &mut Vec<u8>, item: &Item) {
    line.extend_from_slice(b"{\"Item\":");
    // Writing to memory cannot fail, and an item has text keys only.
    let _ = serde_json::to_writer(&mut *line, &TypedItem(item));
    line.extend_from_slice(b"}\n");
}

fn decode<T>(
    json: &str,
    read: impl FnOnce(&DecodeContext<'_>, &mut JsonReader<'_>) -> JsonResult<T>,
) -> Result<T, &'static str> {
    let attributes = AttributeInterner::default();
    let context = DecodeContext::new(&attributes);
    JsonReader::read_all(json, |reader| read(&context, reader)).map_err(|_| context.into_reason())
}

fn json_text(value: &JsonValue<'_>) -> String {
    // Cannot fail: every key is a text, and nothing is a float.
    serde_json::to_string(value).unwrap_or_default()
}

#[derive(Clone, Copy)]
enum JsonForm {
    Plain,
    /// Within an object that names the type.
    Typed,
    /// Within that object.
    TypedContent,
}

struct JsonValue<'v>(&'v AttributeValue<'v>, JsonForm);

impl Serialize for JsonValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(value, form) = *self;
        let (nested, null) = match form {
            JsonForm::Plain => (JsonForm::Plain, None),
            JsonForm::Typed => {
                let content = JsonValue(value, JsonForm::TypedContent);
                return serializer.collect_map([(value.type_name(), content)]);
            }
            JsonForm::TypedContent => (JsonForm::Typed, Some(true)),
        };
        match value {
            AttributeValue::S(text) => serializer.serialize_str(text),
            AttributeValue::N(number) => json_number(number, form).serialize(serializer),
            AttributeValue::B(bytes) => serializer.serialize_str(&STANDARD.encode(bytes)),
            AttributeValue::Bool(value) => serializer.serialize_bool(*value),
            AttributeValue::Null => null.serialize(serializer),
            AttributeValue::M(members) => {
                serializer.collect_map(members.iter().map(|(name, value)| (name, JsonValue(value, nested))))
            }
            AttributeValue::L(values) => {
                serializer.collect_seq(values.iter().map(|value| JsonValue(value, nested)))
            }
            AttributeValue::Ss(texts) => serializer.collect_seq(texts),
            AttributeValue::Ns(all) => serializer.collect_seq(all.iter().map(|one| json_number(one, form))),
            AttributeValue::Bs(all) => serializer.collect_seq(all.iter().map(|bytes| STANDARD.encode(bytes))),
        }
    }
}

/// A number with all its digits, which a float would not keep.
fn json_number(number: &Decimal, form: JsonForm) -> Box<RawValue> {
    let json = match form {
        JsonForm::Plain => number.to_string(),
        JsonForm::Typed | JsonForm::TypedContent => format!("\"{number}\""),
    };
    RawValue::from_string(json).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"Item":{"b":{"B":"AP8="},"bs":{"BS":["AA=="]},"l":{"L":[{"S":"y"},{"NULL":true}]},"m":{"M":{"a":{"N":"1"}}},"n":{"N":"1.5"},"ns":{"NS":["2","3"]},"s":{"S":"\"x\" 試"},"ss":{"SS":["a"]},"t":{"BOOL":true}}}"#;

    #[test]
    fn a_line_with_every_type_is_read_and_written_unchanged() {
        let item = read_item_line(LINE.as_bytes(), |_| true).unwrap();
        let mut line = Vec::new();
        write_item_line(&mut line, &item);
        assert_eq!(String::from_utf8(line).unwrap(), format!("{LINE}\n"));
        assert_eq!(decode_item(&serde_json::to_string(&TypedItem(&item)).unwrap()), Ok(item.clone()));
        for value in item.values() {
            assert_eq!(decode_value(&dynamodb_json(value)).as_ref(), Ok(value));
        }
    }

    #[test]
    fn a_value_in_plain_json_keeps_its_digits() {
        let value = r#"{"M":{"a":{"N":"12345678901234567890123456789012345678"},"b":{"L":[{"NULL":true},{"BOOL":true},{"B":"AP8="},{"NS":["1.5"]}]}}}"#;
        let plain = r#"{"a":12345678901234567890123456789012345678,"b":[null,true,"AP8=",[1.5]]}"#;
        assert_eq!(plain_json(&decode_value(value).unwrap()), plain);
    }

    #[test]
    fn attributes_that_are_not_read_are_skipped_even_if_their_values_are_unknown() {
        let line = br#"{"Item":{"a":{"S":"x"},"b":{"NEW":[{}]}},"more":1}"#;
        let item = read_item_line(line, |name| name == "a").unwrap();
        assert_eq!(item, Item::from([("a".into(), AttributeValue::text("x"))]));
        assert_eq!(read_item_line(line, |_| true), None);
    }

    #[test]
    fn other_text_is_not_an_item() {
        for line in [
            "",
            "{}",
            "[]",
            r#"{"Item":{"a":1}}"#,
            r#"{"Item":{"a":{"N":"x"}}}"#,
            r#"{"Item":{"a":{"S":"x","N":"1"}}}"#,
            r#"{"Item":{"a":{"S":"x"}}"#,
        ] {
            assert_eq!(read_item_line(line.as_bytes(), |_| true), None, "{line}");
        }
    }

    #[test]
    fn an_invalid_value_has_a_reason_without_its_content() {
        for (value, reason) in [
            (r#"{"N":"12x"}"#, "N must be a decimal number of at most 38 digits"),
            (r#"{"B":"!!"}"#, "B must be base64"),
            (r#"{"S":5}"#, "a value has a type that DynamoDB's JSON does not allow there"),
            (r#"{"X":5}"#, "an attribute value has an unknown type"),
        ] {
            assert_eq!(decode_value(value), Err(reason), "{value}");
        }
    }
}
