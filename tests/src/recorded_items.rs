//! Items of recordings, and rollups, as the AWS SDK has them.

#![expect(clippy::implicit_hasher, reason = "items of the SDK have the default hasher")]

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::types::AttributeValue;

/// The key of an item with the key attributes `PK` and `SK`.
///
/// # Panics
/// If it has no such key.
#[must_use]
pub fn key(item: &HashMap<String, AttributeValue>) -> (String, String) {
    let text = |name: &str| item[name].as_s().expect("a text").clone();
    (text("PK"), text("SK"))
}

/// The measures of a rollup that are not 0.
///
/// # Panics
/// If one is not a whole number.
#[must_use]
pub fn measures(item: &HashMap<String, AttributeValue>) -> BTreeMap<String, i64> {
    let is_measure = |name: &str| name != "rev" && name != "expires_at" && !name.starts_with("settled_");
    let numbers = item.iter().filter(|(name, _)| is_measure(name)).filter_map(|(name, value)| {
        let number = value.as_n().ok()?.parse::<i64>().expect("a whole number");
        (number != 0).then(|| (name.clone(), number))
    });
    numbers.collect()
}
