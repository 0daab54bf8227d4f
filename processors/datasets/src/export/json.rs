//! Attribute values as JSON text: plain for `json` columns, typed as in DynamoDB's JSON for `_rescued`.

use afterwrite_model::record::{AttributeValue, Decimal};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

/// A value in plain JSON: numbers keep their digits, bytes are base64, sets are lists.
#[must_use]
pub fn plain_json(value: &AttributeValue<'_>) -> String {
    json_text(&JsonValue(value, JsonForm::Plain))
}

/// A value in DynamoDB's JSON, such as `{"N":"5"}`.
pub(super) fn dynamodb_json(value: &AttributeValue<'_>) -> String {
    json_text(&JsonValue(value, JsonForm::Typed))
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
