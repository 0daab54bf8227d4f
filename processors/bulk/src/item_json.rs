//! Items ⇄ DynamoDB's JSON, as exports and imports have it: `{"Item":{"PK":{"S":"a"},"n":{"N":"1"}}}`, one item a line.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use afterwrite_model::record::{AttributeValue, Decimal, Item};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::{SerializeMap as _, Serializer};
use serde::{Deserialize, Deserializer, Serialize};

/// An item in DynamoDB's JSON, without the enclosing `Item`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TypedItem(pub Item);

/// Reads the item of a line; attributes that `is_read` rejects are skipped. `None` if the line is not an item.
pub fn read_line(line: &[u8], is_read: impl Fn(&str) -> bool) -> Option<Item> {
    let mut json = serde_json::Deserializer::from_slice(line);
    let item = LineSeed(&is_read).deserialize(&mut json).ok()?;
    json.end().ok()?;
    item
}

/// Appends the line of an item.
pub fn write_line(line: &mut Vec<u8>, item: &Item) {
    line.extend_from_slice(b"{\"Item\":");
    // Writing to memory cannot fail, and an item has text keys only.
    let _ = serde_json::to_writer(&mut *line, &TypedMembers(item));
    line.extend_from_slice(b"}\n");
}

struct LineSeed<'f, F>(&'f F);

impl<'de, F: Fn(&str) -> bool> DeserializeSeed<'de> for LineSeed<'_, F> {
    type Value = Option<Item>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F: Fn(&str) -> bool> Visitor<'de> for LineSeed<'_, F> {
    type Value = Option<Item>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object with `Item`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut item = None;
        while let Some(name) = members.next_key::<Cow<'de, str>>()? {
            if name == "Item" {
                item = Some(members.next_value_seed(ItemSeed(self.0))?);
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(item)
    }
}

struct ItemSeed<'f, F>(&'f F);

impl<'de, F: Fn(&str) -> bool> DeserializeSeed<'de> for ItemSeed<'_, F> {
    type Value = Item;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Item, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F: Fn(&str) -> bool> Visitor<'de> for ItemSeed<'_, F> {
    type Value = Item;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the attributes of an item")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Item, A::Error> {
        let mut item = Item::new();
        while let Some(name) = members.next_key::<Cow<'de, str>>()? {
            if (self.0)(&name) {
                item.insert(Cow::Owned(name.into_owned()), members.next_value::<TypedValue>()?.0);
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(item)
    }
}

impl<'de> Deserialize<'de> for TypedItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ItemSeed(&|_: &str| true).deserialize(deserializer).map(Self)
    }
}

/// A value in DynamoDB's JSON: an object with its type as the only member.
struct TypedValue(AttributeValue<'static>);

impl<'de> Deserialize<'de> for TypedValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = TypedValue;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a typed value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<TypedValue, A::Error> {
        let kind = members.next_key::<Cow<'de, str>>()?.ok_or_else(|| A::Error::custom("no type"))?;
        let value = match kind.as_ref() {
            "S" => AttributeValue::S(Cow::Owned(members.next_value()?)),
            "N" => AttributeValue::N(number(&members.next_value::<Cow<'de, str>>()?)?),
            "B" => AttributeValue::B(bytes(&members.next_value::<Cow<'de, str>>()?)?),
            "BOOL" => AttributeValue::Bool(members.next_value()?),
            "NULL" => {
                members.next_value::<bool>()?;
                AttributeValue::Null
            }
            "M" => {
                let values: BTreeMap<String, TypedValue> = members.next_value()?;
                AttributeValue::M(
                    values.into_iter().map(|(name, value)| (Cow::Owned(name), value.0)).collect(),
                )
            }
            "L" => {
                let values: Vec<TypedValue> = members.next_value()?;
                AttributeValue::L(values.into_iter().map(|value| value.0).collect())
            }
            "SS" => {
                let texts: Vec<String> = members.next_value()?;
                AttributeValue::Ss(texts.into_iter().map(Cow::Owned).collect())
            }
            "NS" => {
                let numbers: Vec<Cow<'de, str>> = members.next_value()?;
                AttributeValue::Ns(numbers.iter().map(|text| number(text)).collect::<Result<_, _>>()?)
            }
            "BS" => {
                let texts: Vec<Cow<'de, str>> = members.next_value()?;
                AttributeValue::Bs(texts.iter().map(|text| bytes(text)).collect::<Result<_, _>>()?)
            }
            _ => return Err(A::Error::custom("not a type of DynamoDB")),
        };
        match members.next_key::<IgnoredAny>()? {
            None => Ok(TypedValue(value)),
            Some(_) => Err(A::Error::custom("a value of two types")),
        }
    }
}

fn number<E: serde::de::Error>(text: &str) -> Result<Decimal, E> {
    text.parse().map_err(|_| E::custom("not a number of DynamoDB"))
}

fn bytes<E: serde::de::Error>(text: &str) -> Result<Cow<'static, [u8]>, E> {
    STANDARD.decode(text).map(Cow::Owned).map_err(|_| E::custom("not base64"))
}

struct TypedMembers<'i>(&'i Item);

impl Serialize for TypedMembers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, BorrowedValue(value))))
    }
}

struct BorrowedValue<'i>(&'i AttributeValue<'static>);

impl Serialize for BorrowedValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        match self.0 {
            AttributeValue::S(text) => map.serialize_entry("S", text)?,
            AttributeValue::N(number) => map.serialize_entry("N", &number.to_string())?,
            AttributeValue::B(bytes) => map.serialize_entry("B", &STANDARD.encode(bytes))?,
            AttributeValue::Bool(value) => map.serialize_entry("BOOL", value)?,
            AttributeValue::Null => map.serialize_entry("NULL", &true)?,
            AttributeValue::M(members) => map.serialize_entry("M", &TypedMembers(members))?,
            AttributeValue::L(values) => {
                map.serialize_entry("L", &values.iter().map(BorrowedValue).collect::<Vec<_>>())?;
            }
            AttributeValue::Ss(texts) => map.serialize_entry("SS", texts)?,
            AttributeValue::Ns(numbers) => {
                map.serialize_entry("NS", &numbers.iter().map(ToString::to_string).collect::<Vec<_>>())?;
            }
            AttributeValue::Bs(values) => {
                let encoded: Vec<String> = values.iter().map(|bytes| STANDARD.encode(bytes)).collect();
                map.serialize_entry("BS", &encoded)?;
            }
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"Item":{"b":{"B":"AP8="},"bs":{"BS":["AA=="]},"l":{"L":[{"S":"y"},{"NULL":true}]},"m":{"M":{"a":{"N":"1"}}},"n":{"N":"1.5"},"ns":{"NS":["2","3"]},"s":{"S":"\"x\" 試"},"ss":{"SS":["a"]},"t":{"BOOL":true}}}"#;

    #[test]
    fn a_line_with_every_type_is_read_and_written_unchanged() {
        let item = read_line(LINE.as_bytes(), |_| true).unwrap();
        let mut line = Vec::new();
        write_line(&mut line, &item);
        assert_eq!(String::from_utf8(line).unwrap(), format!("{LINE}\n"));
    }

    #[test]
    fn attributes_that_are_not_read_are_skipped_even_if_their_values_are_unknown() {
        let line = br#"{"Item":{"a":{"S":"x"},"b":{"NEW":[{}]}},"more":1}"#;
        let item = read_line(line, |name| name == "a").unwrap();
        assert_eq!(item, Item::from([("a".into(), AttributeValue::text("x"))]));
        assert_eq!(read_line(line, |_| true), None);
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
            assert_eq!(read_line(line.as_bytes(), |_| true), None, "{line}");
        }
    }
}
