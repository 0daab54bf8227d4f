//! Attribute values as JSON text: plain for `json` columns, typed as in DynamoDB's JSON for `_rescued`.

use afterwrite::record::{AttributeValue, Decimal};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::value::RawValue;

/// A value in plain JSON: numbers keep their digits, bytes are base64, sets are lists.
#[must_use]
pub fn plain_json(value: &AttributeValue<'_>) -> String {
    json_text(value, JsonForm::Plain)
}

/// A value in DynamoDB's JSON, such as `{"N":"5"}`.
pub(super) fn dynamodb_json(value: &AttributeValue<'_>) -> String {
    json_text(value, JsonForm::Typed)
}

fn json_text(value: &AttributeValue<'_>, form: JsonForm) -> String {
    // Cannot fail: every key is a text, and nothing is a float.
    serde_json::to_string(&JsonValue(value, form)).unwrap_or_default()
}

#[derive(Clone, Copy)]
enum JsonForm {
    Plain,
    /// Every value is within an object that names its type.
    Typed,
}

struct JsonValue<'v>(&'v AttributeValue<'v>, JsonForm);

impl Serialize for JsonValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let content = JsonContent(self.0, self.1);
        match self.1 {
            JsonForm::Plain => content.serialize(serializer),
            JsonForm::Typed => serializer.collect_map([(self.0.type_name(), content)]),
        }
    }
}

/// A value without its type.
struct JsonContent<'v>(&'v AttributeValue<'v>, JsonForm);

impl Serialize for JsonContent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let form = self.1;
        match self.0 {
            AttributeValue::S(text) => serializer.serialize_str(text),
            AttributeValue::N(number) => JsonNumber(number, form).serialize(serializer),
            AttributeValue::B(bytes) => serializer.serialize_str(&STANDARD.encode(bytes)),
            AttributeValue::Bool(value) => serializer.serialize_bool(*value),
            AttributeValue::Null => match form {
                JsonForm::Plain => serializer.serialize_unit(),
                JsonForm::Typed => serializer.serialize_bool(true),
            },
            AttributeValue::M(members) => {
                serializer.collect_map(members.iter().map(|(name, value)| (name, JsonValue(value, form))))
            }
            AttributeValue::L(values) => {
                serializer.collect_seq(values.iter().map(|value| JsonValue(value, form)))
            }
            AttributeValue::Ss(texts) => serializer.collect_seq(texts),
            AttributeValue::Ns(all) => serializer.collect_seq(all.iter().map(|one| JsonNumber(one, form))),
            AttributeValue::Bs(all) => serializer.collect_seq(all.iter().map(|bytes| STANDARD.encode(bytes))),
        }
    }
}

/// A number with all its digits, which a float would not keep.
struct JsonNumber<'v>(&'v Decimal, JsonForm);

impl Serialize for JsonNumber<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.1 {
            JsonForm::Plain => {
                RawValue::from_string(self.0.to_string()).map_err(S::Error::custom)?.serialize(serializer)
            }
            JsonForm::Typed => serializer.collect_str(self.0),
        }
    }
}
