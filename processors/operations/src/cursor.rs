//! Items in DynamoDB's JSON: cursors of scans, and lines of exports.

use std::borrow::Cow;
use std::collections::BTreeMap;

use afterwrite::record::{AttributeValue, Decimal, Item};
use afterwrite::{Error, ErrorKind, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// The key after which the next page begins.
pub(crate) fn encode_cursor(key: &Item) -> Value {
    let members = key.iter().map(|(name, value)| (name.to_string(), typed_json(value)));
    Value::Object(members.collect::<Map<_, _>>())
}

/// The key in a cursor; `None` at the beginning.
///
/// # Errors
/// [`ErrorKind::State`] if it is not a key.
pub(crate) fn decode_cursor(cursor: Option<&Value>) -> Result<Option<Item>> {
    cursor.map(|cursor| item_of_json(cursor).ok_or_else(unreadable_cursor)).transpose()
}

fn unreadable_cursor() -> Error {
    Error::new(ErrorKind::State, "the cursor of a job cannot be read").hint("Create the job again")
}

/// The values that keys can have; others never occur in a cursor.
fn typed_json(value: &AttributeValue<'_>) -> Value {
    if let Some(text) = value.as_text() {
        return json!({ "S": text });
    }
    if let Some(number) = value.as_number() {
        return json!({ "N": number.to_string() });
    }
    if let AttributeValue::B(bytes) = value { json!({ "B": STANDARD.encode(bytes) }) } else { Value::Null }
}

/// An item in DynamoDB's JSON; `None` if it is not one.
pub(crate) fn item_of_json(json: &Value) -> Option<Item> {
    let members = json.as_object()?.iter();
    members.map(|(name, value)| Some((Cow::Owned(name.clone()), value_of_json(value)?))).collect()
}

fn value_of_json(json: &Value) -> Option<AttributeValue<'static>> {
    let mut members = json.as_object()?.iter();
    let (kind, value) = members.next().filter(|_| members.len() == 0)?;
    let text = |value: &Value| value.as_str().map(|text| Cow::Owned(text.to_owned()));
    let number = |value: &Value| value.as_str()?.parse::<Decimal>().ok();
    let bytes = |value: &Value| STANDARD.decode(value.as_str()?).ok().map(Cow::Owned);
    let list = |value: &Value| value.as_array().cloned();
    Some(match kind.as_str() {
        "S" => AttributeValue::S(text(value)?),
        "N" => AttributeValue::N(number(value)?),
        "B" => AttributeValue::B(bytes(value)?),
        "BOOL" => AttributeValue::Bool(value.as_bool()?),
        "NULL" => AttributeValue::Null,
        "M" => AttributeValue::M(item_of_json(value)?.into_iter().collect::<BTreeMap<_, _>>()),
        "L" => AttributeValue::L(list(value)?.iter().map(value_of_json).collect::<Option<_>>()?),
        "SS" => AttributeValue::Ss(list(value)?.iter().map(text).collect::<Option<_>>()?),
        "NS" => AttributeValue::Ns(list(value)?.iter().map(number).collect::<Option<_>>()?),
        "BS" => AttributeValue::Bs(list(value)?.iter().map(bytes).collect::<Option<_>>()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_of_every_key_type_is_read_back() {
        let key: Item = [
            ("PK".into(), AttributeValue::text("a")),
            ("n".into(), AttributeValue::N(Decimal::from(5))),
            ("b".into(), AttributeValue::B(Cow::Owned(vec![0, 255]))),
        ]
        .into();
        assert_eq!(decode_cursor(Some(&encode_cursor(&key))).unwrap(), Some(key));
        assert_eq!(decode_cursor(None).unwrap(), None);
        assert_eq!(decode_cursor(Some(&json!("x"))).unwrap_err().kind(), ErrorKind::State);
    }

    #[test]
    fn an_exported_item_of_every_type_is_read() {
        let json = json!({
            "s": { "S": "x" }, "n": { "N": "1.50" }, "b": { "B": "AP8=" }, "t": { "BOOL": true }, "z": { "NULL": true },
            "m": { "M": { "a": { "N": "1" } } }, "l": { "L": [{ "S": "y" }] },
            "ss": { "SS": ["a"] }, "ns": { "NS": ["2"] }, "bs": { "BS": ["AA=="] },
        });
        let item = item_of_json(&json).unwrap();
        assert_eq!(item.len(), 10);
        assert_eq!(item["l"], AttributeValue::L(vec![AttributeValue::text("y")]));
        for wrong in [json!({ "x": 1 }), json!({ "x": { "Q": "" } }), json!({ "x": { "N": "y" } }), json!([])]
        {
            assert_eq!(item_of_json(&wrong), None, "{wrong}");
        }
    }
}
