//! A value of the journal of a job, as JSON.

use std::sync::Arc;

use afterwrite_model::effect::{ItemKey, Write, WriteAction, WriteCondition};
use afterwrite_model::record::{AttributeValue, Item, Timestamp};
use afterwrite_model::{Error, ErrorKind, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::units::{expiry, numbered};
use super::{EXPIRES_AT, item_of_type, unsorted_key};

const VALUE: &str = "value";

/// The key of the value with this number in the journal of a job.
#[must_use]
pub fn key(state_table: &Arc<str>, job: &str, number: u64) -> ItemKey {
    unsorted_key(state_table, "AFTERWRITE#JOURNAL#", &numbered(job, number))
}

/// The write that stores a value for 90 days.
///
/// # Errors
/// [`ErrorKind::State`] if the value cannot be encoded.
pub fn write(key: ItemKey, value: &impl Serialize, now: Timestamp) -> Result<Write> {
    let text = serde_json::to_string(value).map_err(|error| {
        Error::new(ErrorKind::State, "a value of a job cannot be stored").caused_by(error)
    })?;
    let mut item = item_of_type("JOURNAL");
    item.insert(VALUE.into(), AttributeValue::text(text));
    item.insert(EXPIRES_AT.into(), expiry(now));
    Ok(Write { key, condition: WriteCondition::Always, action: WriteAction::Put(item) })
}

/// Reads the value of an item of [`write()`].
///
/// # Errors
/// [`ErrorKind::State`] for a value of another type.
pub fn decode<V: DeserializeOwned>(item: &Item) -> Result<V> {
    let text = item.get(VALUE).and_then(AttributeValue::as_text).unwrap_or_default();
    serde_json::from_str(text).map_err(|error| {
        Error::new(ErrorKind::State, "a value of a job cannot be read")
            .hint("Start a new job with the same arguments")
            .caused_by(error)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_written_value_reads_as_what_was_written(text: String, number: u64) {
            let key = key(&Arc::from("state"), "a", number);
            let write = write(key, &(&text, number), Timestamp::from_epoch_seconds(5)).unwrap();
            let stored = write.applied(None).unwrap().unwrap();
            prop_assert_eq!(decode::<(String, u64)>(&stored).unwrap(), (text, number));
            prop_assert_eq!(&stored[EXPIRES_AT], &AttributeValue::N((90 * 24 * 60 * 60 + 5).into()));
        }
    }
}
