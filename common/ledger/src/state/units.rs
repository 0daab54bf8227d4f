//! Some units of a job, and what their steps have counted, as JSON.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_model::Result;
use afterwrite_model::effect::ItemKey;
use afterwrite_model::record::{AttributeValue, Decimal, Item, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::job::{self, JOB_TYPE, TOTALS, json_value, parsed};
use super::{EXPIRES_AT, item_of_type};

/// How long the units and the journal of a job are kept after they were saved.
const LIFETIME: Duration = Duration::from_secs(90 * 24 * 60 * 60);
const UNITS: &str = "units";

/// The key of the part with this number of the units of a job.
#[must_use]
pub fn key(state_table: &Arc<str>, job: &str, number: usize) -> ItemKey {
    job::key(state_table, &numbered(job, number))
}

/// The item to store, without its key.
///
/// # Errors
/// [`ErrorKind::State`](afterwrite_model::ErrorKind::State) if a value cannot be encoded.
pub fn encode(units: &impl Serialize, totals: &impl Serialize, now: Timestamp) -> Result<Item> {
    let mut item = item_of_type(JOB_TYPE);
    item.insert(UNITS.into(), json_value(units)?);
    item.insert(TOTALS.into(), json_value(totals)?);
    item.insert(EXPIRES_AT.into(), expiry(now));
    Ok(item)
}

/// The units and the totals of an item of [`encode`].
///
/// # Errors
/// [`ErrorKind::State`](afterwrite_model::ErrorKind::State) if a value is missing or of another type.
pub fn decode<U: DeserializeOwned, T: DeserializeOwned>(item: &Item) -> Result<(U, T)> {
    let text = |name: &str| item.get(name).and_then(AttributeValue::as_text);
    Ok((parsed(UNITS, text(UNITS))?, parsed(TOTALS, text(TOTALS))?))
}

/// The id of a numbered item of a job.
pub(super) fn numbered(job: &str, number: impl Display) -> String {
    format!("{job}#{number:06}")
}

/// When an item that is saved now expires.
pub(super) fn expiry(now: Timestamp) -> AttributeValue<'static> {
    Decimal::from(now.plus(LIFETIME).epoch_seconds()).into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn decoding_encoded_units_returns_the_units(units: Vec<(String, u32)>, totals: Option<u64>) {
            let item = encode(&units, &totals, Timestamp::from_epoch_seconds(1)).unwrap();
            let decoded: (Vec<(String, u32)>, Option<u64>) = decode(&item).unwrap();
            prop_assert_eq!(decoded, (units, totals));
        }
    }
}
