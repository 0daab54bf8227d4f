//! Items of the AWS SDK and of the product.

use std::borrow::Cow;

use afterwrite_demo::item::SdkItem;
use afterwrite_model::record::{AttributeValue, Item};
use aws_sdk_dynamodb::types::AttributeValue as Sdk;

/// An item of the AWS SDK as the product has it.
pub(crate) fn item_of(item: &SdkItem) -> Item {
    item.iter().map(|(name, value)| (Cow::Owned(name.clone()), value_of(value))).collect()
}

fn value_of(value: &Sdk) -> AttributeValue<'static> {
    if let Ok(text) = value.as_s() {
        AttributeValue::text(text.as_str())
    } else if let Ok(number) = value.as_n() {
        AttributeValue::N(number.parse().unwrap())
    } else if let Ok(value) = value.as_bool() {
        AttributeValue::Bool(*value)
    } else if let Ok(members) = value.as_m() {
        AttributeValue::M(
            members.iter().map(|(name, value)| (Cow::Owned(name.clone()), value_of(value))).collect(),
        )
    } else if let Ok(elements) = value.as_l() {
        AttributeValue::L(elements.iter().map(value_of).collect())
    } else if let Ok(texts) = value.as_ss() {
        AttributeValue::Ss(texts.iter().cloned().map(Cow::Owned).collect())
    } else {
        assert!(value.is_null(), "no workload has such a value: {value:?}");
        AttributeValue::Null
    }
}

/// An item as the AWS SDK has it.
pub(crate) fn sdk_item(item: &Item) -> SdkItem {
    item.iter().map(|(name, value)| (name.to_string(), sdk_value(value))).collect()
}

fn sdk_value(value: &AttributeValue<'_>) -> Sdk {
    match value {
        AttributeValue::S(text) => Sdk::S(text.to_string()),
        AttributeValue::N(number) => Sdk::N(number.to_string()),
        AttributeValue::Bool(value) => Sdk::Bool(*value),
        AttributeValue::Null => Sdk::Null(true),
        AttributeValue::M(members) => {
            Sdk::M(members.iter().map(|(name, value)| (name.to_string(), sdk_value(value))).collect())
        }
        AttributeValue::L(elements) => Sdk::L(elements.iter().map(sdk_value).collect()),
        AttributeValue::Ss(texts) => Sdk::Ss(texts.iter().map(ToString::to_string).collect()),
        AttributeValue::Ns(numbers) => Sdk::Ns(numbers.iter().map(ToString::to_string).collect()),
        AttributeValue::B(_) | AttributeValue::Bs(_) => panic!("no workload has binary values"),
    }
}
