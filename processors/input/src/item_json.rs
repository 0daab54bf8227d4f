//! Items in JSON files, as `aws dynamodb get-item` prints them or as plain JSON.

use std::borrow::Cow;
use std::collections::BTreeMap;

use afterwrite_model::record::{Item, Timestamp, decode_value};
use afterwrite_model::table::Table;
use afterwrite_model::{Error, ErrorKind, Result};
use serde_json::json;
use serde_json::value::RawValue;

/// DynamoDB's type names.
const TYPES: [&str; 10] = ["S", "N", "B", "BOOL", "NULL", "M", "L", "SS", "NS", "BS"];

/// The most objects and lists within each other. DynamoDB's items have 32 levels, each of which is two objects in its JSON.
const MAX_NESTING: usize = 128;

type Members = BTreeMap<String, Box<RawValue>>;

/// An attribute whose value is invalid for its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidAttribute<'i> {
    /// Its name.
    pub name: &'i str,
    /// Why its value, or a value within it, is invalid. The reason does not contain the value.
    pub reason: &'static str,
}

/// An item: attributes in DynamoDB's JSON. Numbers keep their digits.
#[derive(Clone, Debug)]
pub struct ItemJson(Members);

impl ItemJson {
    /// Reads an item: an object in DynamoDB's JSON, the same within `Item`, or plain JSON; `None` for any other text, and for one that
    /// [is nested too deep](Self::is_too_deep).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if Self::is_too_deep(text) {
            return None;
        }
        let members: Members = serde_json::from_str(text).ok()?;
        let inner = members.get("Item").and_then(|item| serde_json::from_str::<Members>(item.get()).ok());
        // A key is never an object: an item of objects alone is in DynamoDB's JSON, although one of them may be invalid.
        for is_item in [is_typed, has_objects] {
            if let Some(item) = inner.as_ref().filter(|item| is_item(item)) {
                return Some(Self(item.clone()));
            }
            if is_item(&members) {
                return Some(Self(members));
            }
        }
        let typed = members.into_iter().map(|(name, value)| Some((name, typed(&value)?)));
        typed.collect::<Option<Members>>().filter(|members| !members.is_empty()).map(Self)
    }

    /// Reads an item, with its values.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if the text is not an item. The error has no values of the text.
    pub fn read(text: &str) -> Result<(Self, Item)> {
        let invalid = |message: &str| Error::new(ErrorKind::Configuration, message);
        if Self::is_too_deep(text) {
            return Err(invalid("an item is nested deeper than an item of DynamoDB can be")
                .hint("DynamoDB nests maps and lists up to 32 levels deep"));
        }
        let json = Self::parse(text).ok_or_else(|| {
            invalid("a JSON text is not an item").hint(
                "Write the item as one JSON object, plainly or as `aws dynamodb get-item` prints it: {\"PK\": {\"S\": \"…\"}, …}",
            )
        })?;
        let item = json.to_item().map_err(|InvalidAttribute { name, reason }| {
            invalid("an item has an invalid attribute").with("attribute", name).with("reason", reason)
        })?;
        Ok((json, item))
    }

    /// Whether a JSON text has more objects and lists within each other than an item can have.
    #[must_use]
    pub fn is_too_deep(json: &str) -> bool {
        let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
        for byte in json.bytes() {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = is_text,
                b'"' => is_text = !is_text,
                b'{' | b'[' if !is_text => depth += 1,
                b'}' | b']' if !is_text => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth > MAX_NESTING {
                return true;
            }
        }
        false
    }

    /// The attributes by name, in DynamoDB's JSON.
    #[must_use]
    pub fn attributes(&self) -> &BTreeMap<String, Box<RawValue>> {
        &self.0
    }

    /// The record of the item's creation in the stream of `table`, which is deployed as `deployed`; `None` if the item lacks the table's
    /// key. `number` is its sequence number.
    #[must_use]
    pub fn insert_record(
        &self,
        table: &Table,
        deployed: &str,
        number: u64,
        created: Option<Timestamp>,
    ) -> Option<String> {
        let keys = table.key().map(|key| Some((&*key.name, self.0.get(&*key.name)?)));
        let keys: BTreeMap<_, _> = keys.collect::<Option<_>>()?;
        let stream = format!("table/{deployed}/stream/2000-01-01T00:00:00.000");
        let record = json!({
            "eventID": format!("item-{number}"),
            "eventName": "INSERT",
            "eventSource": "aws:dynamodb",
            "eventSourceARN": format!("arn:aws:dynamodb::000000000000:{stream}"),
            "dynamodb": {
                "ApproximateCreationDateTime": created.map(Timestamp::epoch_seconds),
                "Keys": keys,
                "NewImage": self.0,
                "SequenceNumber": number.to_string(),
                "StreamViewType": "NEW_AND_OLD_IMAGES",
            },
        });
        Some(record.to_string())
    }

    /// The item.
    ///
    /// # Errors
    /// The first attribute whose value is invalid for its type.
    pub fn to_item(&self) -> std::result::Result<Item, InvalidAttribute<'_>> {
        let decoded = self.0.iter().map(|(name, value)| match decode_value(value.get()) {
            Ok(value) => Ok((Cow::Owned(name.clone()), value)),
            Err(reason) => Err(InvalidAttribute { name, reason }),
        });
        decoded.collect()
    }
}

/// Whether every attribute has a type, as in DynamoDB's JSON.
fn is_typed(members: &Members) -> bool {
    let is_value = |value: &RawValue| {
        let value: Option<Members> = serde_json::from_str(value.get()).ok();
        value.is_some_and(|value| value.len() == 1 && value.keys().all(|name| TYPES.contains(&name.as_str())))
    };
    !members.is_empty() && members.values().all(|value| is_value(value))
}

/// Whether every attribute is an object.
fn has_objects(members: &Members) -> bool {
    !members.is_empty() && members.values().all(|value| value.get().starts_with('{'))
}

/// A plain value in DynamoDB's JSON.
fn typed(value: &RawValue) -> Option<Box<RawValue>> {
    let text = value.get();
    let typed = match text.as_bytes().first()? {
        b'"' => format!(r#"{{"S":{text}}}"#),
        b't' | b'f' => format!(r#"{{"BOOL":{text}}}"#),
        b'n' => r#"{"NULL":true}"#.to_owned(),
        b'{' => {
            let members: Members = serde_json::from_str(text).ok()?;
            let members = members.into_iter().map(|(name, value)| Some((name, typed(&value)?)));
            let members = serde_json::to_string(&members.collect::<Option<Members>>()?).ok()?;
            format!(r#"{{"M":{members}}}"#)
        }
        b'[' => {
            let elements: Vec<Box<RawValue>> = serde_json::from_str(text).ok()?;
            let elements = elements.iter().map(|element| typed(element)).collect::<Option<Vec<_>>>()?;
            format!(r#"{{"L":{}}}"#, serde_json::to_string(&elements).ok()?)
        }
        _ => format!(r#"{{"N":"{text}"}}"#),
    };
    RawValue::from_string(typed).ok()
}

#[cfg(test)]
mod tests {
    use afterwrite_model::record::AttributeValue;

    use super::*;

    fn written(text: &str) -> Option<String> {
        let item = ItemJson::parse(text)?;
        serde_json::to_string(&item.0).ok()
    }

    #[test]
    fn the_output_of_get_item_is_read() {
        let item = r#"{"PK":{"S":"a"},"n":{"N":"1.50"}}"#;
        assert_eq!(written(item).as_deref(), Some(item));
        let wrapped = format!(r#"{{"Item":{item},"ConsumedCapacity":{{"Units":1}}}}"#);
        assert_eq!(written(&wrapped).as_deref(), Some(item));
    }

    #[test]
    fn plain_json_gets_types_and_numbers_keep_their_digits() {
        let plain = r#"{"a":"x","b":12345678901234567890123456789012345678,"c":[true,null,1.50],"d":{"S":"x","e":2}}"#;
        let typed = r#"{"a":{"S":"x"},"b":{"N":"12345678901234567890123456789012345678"},"c":{"L":[{"BOOL":true},{"NULL":true},{"N":"1.50"}]},"d":{"M":{"S":{"S":"x"},"e":{"N":"2"}}}}"#;
        assert_eq!(written(plain).as_deref(), Some(typed));
    }

    #[test]
    fn an_item_in_dynamodb_s_json_with_an_invalid_attribute_names_it() {
        for invalid in ["{}", r#"{"X":1}"#, r#"{"S":"a","N":"1"}"#, r#"{"N":5}"#] {
            let item = format!(r#"{{"PK":{{"S":"a"}},"amount":{invalid}}}"#);
            for text in [item.clone(), format!(r#"{{"Item":{item}}}"#)] {
                let error = ItemJson::read(&text).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Configuration);
                assert!(error.to_string().contains("attribute: amount"), "{text}: {error}");
            }
        }
        let error = ItemJson::read(r#"{"PK":"a","amount":1e999}"#).unwrap_err().to_string();
        assert!(error.contains("attribute: amount") && error.contains("38 digits"), "{error}");
        let error = ItemJson::read(&format!(r#"{{"PK":{}}}"#, "[".repeat(200))).unwrap_err();
        assert!(error.to_string().contains("nested deeper"), "{error}");
        assert!(ItemJson::read("[]").unwrap_err().to_string().contains("not an item"));
    }

    #[test]
    fn only_an_object_with_attributes_is_an_item() {
        for text in ["", "[]", "1", "{", "{}"] {
            assert_eq!(written(text), None, "{text}");
        }
    }

    #[test]
    fn an_item_is_nested_no_deeper_than_an_item_can_be() {
        let nested = |levels: usize| format!(r#"{{"PK":{}1{}}}"#, "[".repeat(levels), "]".repeat(levels));
        assert!(ItemJson::parse(&nested(32)).is_some());
        assert!(ItemJson::parse(&nested(50_000)).is_none());
        assert!(ItemJson::is_too_deep(&nested(128)) && !ItemJson::is_too_deep(&nested(127)));
        let text = format!(r#"{{"PK":"\"{}"}}"#, "[".repeat(50_000));
        assert!(!ItemJson::is_too_deep(&text), "a text is not nested");
    }

    #[test]
    fn an_item_has_values_of_every_type() {
        let typed = r#"{"s":{"S":"x"},"n":{"N":"1.50"},"b":{"B":"AP8="},"t":{"BOOL":true},"z":{"NULL":true},"m":{"M":{"l":{"L":[{"S":"y"}]}}},"ss":{"SS":["a"]},"ns":{"NS":["1"]},"bs":{"BS":["AA=="]}}"#;
        let item = ItemJson::parse(typed).unwrap().to_item().unwrap();
        assert_eq!(item["n"], AttributeValue::N("1.5".parse().unwrap()));
        assert_eq!(item["b"], AttributeValue::B(vec![0, 255].into()));
        assert_eq!(item["bs"], AttributeValue::Bs(vec![vec![0].into()]));
        assert_eq!((item.len(), item["z"].is_null()), (9, true));
    }

    #[test]
    fn an_invalid_attribute_has_a_reason_without_its_value() {
        let number = "N must be a decimal number of at most 38 digits";
        let other = "a value has a type that DynamoDB's JSON does not allow there";
        for (value, reason) in [
            (r#"{"N":"12x"}"#, number),
            (r#"{"N":"999999999999999999999999999999999999999"}"#, number),
            (r#"{"N":"1e126"}"#, number),
            (r#"{"B":"!!"}"#, "B must be base64"),
            (r#"{"S":5}"#, other),
            (r#"{"M":{"l":{"L":[{"S":"y"},{"NS":["z"]}]}}}"#, number),
            (r#"{"M":5}"#, other),
        ] {
            let wrong = ItemJson::parse(&format!(r#"{{"PK":{{"S":"a"}},"n":{value}}}"#)).unwrap();
            assert_eq!(wrong.to_item(), Err(InvalidAttribute { name: "n", reason }), "{value}");
        }
    }
}
