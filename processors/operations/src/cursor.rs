//! Cursors of scans: keys in DynamoDB's JSON.

use afterwrite_model::record::{Item, TypedItem, decode_item};
use afterwrite_model::{Error, ErrorKind, Result};
use serde_json::Value;

/// The key after which the next page begins.
pub(crate) fn encode_cursor(key: &Item) -> Value {
    // Cannot fail: every name is a text.
    serde_json::to_value(TypedItem(key)).unwrap_or_default()
}

/// The key in a cursor; `None` at the beginning.
///
/// # Errors
/// [`ErrorKind::State`] if it is not a key.
pub(crate) fn decode_cursor(cursor: Option<&Value>) -> Result<Option<Item>> {
    let item = |cursor: &Value| decode_item(&cursor.to_string()).map_err(|_| unreadable_cursor());
    cursor.map(item).transpose()
}

fn unreadable_cursor() -> Error {
    Error::new(ErrorKind::State, "the cursor of a job cannot be read").hint("Create the job again")
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use afterwrite_model::record::{AttributeValue, Decimal};
    use serde_json::json;

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
