//! Attribute values as JSON text: plainly, for `json` columns, and as DynamoDB writes them, for what fits no column.

use afterwrite::record::AttributeValue;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};
use serde_json::value::RawValue;

/// A value as JSON has it: numbers keep their digits, bytes are base64, sets are lists.
#[must_use]
pub fn plain_json(value: &AttributeValue<'_>) -> String {
    text_of(&Plain(value))
}

/// A value as DynamoDB's JSON has it: `{"N":"5"}`.
pub(super) fn dynamodb_json(value: &AttributeValue<'_>) -> String {
    text_of(&Typed(value))
}

fn text_of(value: &impl Serialize) -> String {
    // Every key is text and nothing is a float: there is nothing that JSON cannot say.
    serde_json::to_string(value).unwrap_or_default()
}

struct Plain<'v>(&'v AttributeValue<'v>);

impl Serialize for Plain<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            AttributeValue::S(text) => serializer.serialize_str(text),
            AttributeValue::N(number) => {
                // Its own digits, which no float would keep.
                let digits = RawValue::from_string(number.to_string());
                digits.map_err(serde::ser::Error::custom)?.serialize(serializer)
            }
            AttributeValue::B(bytes) => serializer.serialize_str(&STANDARD.encode(bytes)),
            AttributeValue::Bool(value) => serializer.serialize_bool(*value),
            AttributeValue::Null => serializer.serialize_unit(),
            AttributeValue::M(members) => {
                serializer.collect_map(members.iter().map(|(name, value)| (name, Plain(value))))
            }
            AttributeValue::L(elements) => serializer.collect_seq(elements.iter().map(Plain)),
            AttributeValue::Ss(texts) => serializer.collect_seq(texts),
            AttributeValue::Ns(numbers) => {
                let mut list = serializer.serialize_seq(Some(numbers.len()))?;
                for number in numbers {
                    list.serialize_element(&Plain(&AttributeValue::N(number.clone())))?;
                }
                list.end()
            }
            AttributeValue::Bs(all) => serializer.collect_seq(all.iter().map(|bytes| STANDARD.encode(bytes))),
        }
    }
}

struct Typed<'v>(&'v AttributeValue<'v>);

impl Serialize for Typed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut typed = serializer.serialize_map(Some(1))?;
        let name = self.0.type_name();
        match self.0 {
            AttributeValue::S(text) => typed.serialize_entry(name, text)?,
            AttributeValue::N(number) => typed.serialize_entry(name, &number.to_string())?,
            AttributeValue::B(bytes) => typed.serialize_entry(name, &STANDARD.encode(bytes))?,
            AttributeValue::Bool(value) => typed.serialize_entry(name, value)?,
            AttributeValue::Null => typed.serialize_entry(name, &true)?,
            AttributeValue::M(members) => {
                let members: std::collections::BTreeMap<_, _> =
                    members.iter().map(|(name, value)| (name, Typed(value))).collect();
                typed.serialize_entry(name, &members)?;
            }
            AttributeValue::L(elements) => {
                typed.serialize_entry(name, &elements.iter().map(Typed).collect::<Vec<_>>())?;
            }
            AttributeValue::Ss(texts) => typed.serialize_entry(name, texts)?,
            AttributeValue::Ns(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
                typed.serialize_entry(name, &numbers)?;
            }
            AttributeValue::Bs(all) => {
                let all: Vec<String> = all.iter().map(|bytes| STANDARD.encode(bytes)).collect();
                typed.serialize_entry(name, &all)?;
            }
        }
        typed.end()
    }
}
