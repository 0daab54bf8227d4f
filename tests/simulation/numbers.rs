//! Numbers of items, read without code of the product except the formatting of a decimal's digits.

use afterwrite_demo::exact::ExactNumber;
use afterwrite_model::record::{AttributeValue, Item};

/// Parses a number.
pub(crate) fn exact(text: &str) -> ExactNumber {
    ExactNumber::parse(text).unwrap_or_else(|| panic!("not a decimal number: {text}"))
}

/// A number of an item.
pub(crate) fn stored(item: &Item, name: &str) -> Option<ExactNumber> {
    item.get(name).and_then(AttributeValue::as_number).map(|number| exact(&number.to_string()))
}
