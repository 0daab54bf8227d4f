//! Items of the AWS SDK, of the product, and in DynamoDB's JSON. The product converts them; the conformance suite of the tables compares its
//! conversions with a server.

use std::collections::HashMap;

use afterwrite_model::record::{Item, TypedItem, decode_item};
use afterwrite_services::dynamodb::{item_from_sdk, item_to_sdk};
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::Value;

/// An item of the AWS SDK.
pub type SdkItem = HashMap<String, AttributeValue>;

/// An item of the AWS SDK as the product has it.
///
/// # Panics
/// If a number is invalid.
#[must_use]
pub fn item_of(item: &SdkItem) -> Item {
    item_from_sdk(item.clone()).expect("an item")
}

/// An item as the AWS SDK has it.
#[must_use]
pub fn sdk_item(item: &Item) -> SdkItem {
    item_to_sdk(item)
}

/// An item in DynamoDB's JSON as the AWS SDK has it.
///
/// # Panics
/// If it is not an item.
#[must_use]
pub fn sdk_item_of_json(item: &Value) -> SdkItem {
    item_to_sdk(&item_of_json(item))
}

/// An item in DynamoDB's JSON, alone or as the `Item` of an export's line.
///
/// # Panics
/// If it is not an item.
#[must_use]
pub fn item_of_json(item: &Value) -> Item {
    decode_item(&item.get("Item").unwrap_or(item).to_string()).expect("an item")
}

/// An item in DynamoDB's JSON.
///
/// # Panics
/// Never: every name is a text.
#[must_use]
pub fn image_json(item: &Item) -> Value {
    serde_json::to_value(TypedItem(item)).expect("an item")
}
