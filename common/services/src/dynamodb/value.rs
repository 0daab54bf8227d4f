//! Attribute values ⇄ the SDK's attribute values.

use std::borrow::Cow;
use std::collections::HashMap;

use afterwrite_model::effect::ItemKey;
use afterwrite_model::record::{AttributeValue, Decimal, Item};
use afterwrite_model::{Error, ErrorKind};
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue as Sdk;

/// A value in the SDK's form.
pub(super) fn to_sdk(value: &AttributeValue<'_>) -> Sdk {
    match value {
        AttributeValue::S(text) => Sdk::S(text.clone().into_owned()),
        AttributeValue::N(number) => Sdk::N(number.to_string()),
        AttributeValue::B(bytes) => Sdk::B(Blob::new(&**bytes)),
        AttributeValue::Bool(value) => Sdk::Bool(*value),
        AttributeValue::Null => Sdk::Null(true),
        AttributeValue::M(map) => {
            Sdk::M(map.iter().map(|(name, value)| (name.clone().into_owned(), to_sdk(value))).collect())
        }
        AttributeValue::L(list) => Sdk::L(list.iter().map(to_sdk).collect()),
        AttributeValue::Ss(set) => Sdk::Ss(set.iter().map(|text| text.clone().into_owned()).collect()),
        AttributeValue::Ns(set) => Sdk::Ns(set.iter().map(Decimal::to_string).collect()),
        AttributeValue::Bs(set) => Sdk::Bs(set.iter().map(|bytes| Blob::new(&**bytes)).collect()),
    }
}

/// A whole item in the SDK's form.
#[must_use]
pub fn item_to_sdk(item: &Item) -> HashMap<String, Sdk> {
    item.iter().map(|(name, value)| (name.clone().into_owned(), to_sdk(value))).collect()
}

/// A key in the SDK's form.
#[must_use]
pub fn key_to_sdk(key: &ItemKey) -> HashMap<String, Sdk> {
    key.attributes().map(|attribute| (attribute.name.to_string(), to_sdk(&attribute.value))).collect()
}

/// An item that the service returned. Sets are sorted: they have no order.
///
/// # Errors
/// [`ErrorKind::State`] if a number is invalid, or the type of a value is unknown.
pub fn item_from_sdk(item: HashMap<String, Sdk>) -> Result<Item, Error> {
    item.into_iter().map(|(name, value)| Ok((Cow::Owned(name), from_sdk(value)?))).collect()
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the SDK keeps the variant for unknown types private")]
fn from_sdk(value: Sdk) -> Result<AttributeValue<'static>, Error> {
    Ok(match value {
        Sdk::S(text) => AttributeValue::S(Cow::Owned(text)),
        Sdk::N(number) => AttributeValue::N(decimal(&number)?),
        Sdk::B(bytes) => AttributeValue::B(Cow::Owned(bytes.into_inner())),
        Sdk::Bool(value) => AttributeValue::Bool(value),
        Sdk::Null(_) => AttributeValue::Null,
        Sdk::M(map) => AttributeValue::M(item_from_sdk(map)?),
        Sdk::L(list) => AttributeValue::L(list.into_iter().map(from_sdk).collect::<Result<_, _>>()?),
        Sdk::Ss(set) => AttributeValue::Ss(sorted(set.into_iter().map(Cow::Owned).collect())),
        Sdk::Ns(set) => {
            AttributeValue::Ns(sorted(set.iter().map(|number| decimal(number)).collect::<Result<_, _>>()?))
        }
        Sdk::Bs(set) => {
            AttributeValue::Bs(sorted(set.into_iter().map(|bytes| Cow::Owned(bytes.into_inner())).collect()))
        }
        _ => {
            return Err(Error::new(
                ErrorKind::State,
                "DynamoDB returned a value of a type unknown to this version",
            ));
        }
    })
}

/// Sets have no order; sorting makes equal sets compare equal.
fn sorted<T: Ord>(mut set: Vec<T>) -> Vec<T> {
    set.sort_unstable();
    set
}

fn decimal(number: &str) -> Result<Decimal, Error> {
    number.parse().map_err(|reason| {
        Error::new(ErrorKind::State, "DynamoDB returned an invalid number").caused_by(reason)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_survives_the_round_trip() {
        let number: Decimal = "-12345678901234567890123456789012345.678".parse().unwrap();
        let inner = [
            ("text".into(), AttributeValue::text("")),
            ("number".into(), AttributeValue::N(number.clone())),
            ("bytes".into(), AttributeValue::B(Cow::Owned(vec![0, 255]))),
            ("bool".into(), AttributeValue::Bool(true)),
            ("null".into(), AttributeValue::Null),
            ("texts".into(), AttributeValue::Ss(vec!["a".into(), "b".into()])),
            ("numbers".into(), AttributeValue::Ns(vec![number, Decimal::ONE])),
            ("byte strings".into(), AttributeValue::Bs(vec![Cow::Owned(vec![1]), Cow::Owned(vec![2])])),
            ("list".into(), AttributeValue::L(vec![AttributeValue::Null, AttributeValue::text("x")])),
        ];
        let mut item: Item = inner.into();
        item.insert("map".into(), AttributeValue::M(item.clone()));
        assert_eq!(item_from_sdk(item_to_sdk(&item)).unwrap(), item);
    }

    #[test]
    fn a_returned_set_is_sorted() {
        let set = Sdk::Ns(vec!["10".to_owned(), "9".to_owned()]);
        let item = item_from_sdk([("set".to_owned(), set)].into()).unwrap();
        assert_eq!(item["set"], AttributeValue::Ns(vec![9.into(), 10.into()]));
    }
}
