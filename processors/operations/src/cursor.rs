//! Cursors of scans: keys in DynamoDB's JSON.

use afterwrite_bulk::item_json::TypedItem;
use afterwrite_model::record::{AttributeValue, Item};
use afterwrite_model::{Error, ErrorKind, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize as _;
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
    let item = |cursor| TypedItem::deserialize(cursor).map_err(|_| unreadable_cursor());
    cursor.map(|cursor| item(cursor).map(|key| key.0)).transpose()
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

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use afterwrite_model::record::Decimal;

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
}
