//! The origin of a state table that was built from table exports: one item.

use std::sync::Arc;

use afterwrite_model::effect::ItemKey;
use afterwrite_model::record::{AttributeValue, Decimal, Item};
use afterwrite_model::{Error, ErrorKind, Result};

use super::{item_of_type, unsorted_key};

const EARLIEST: &str = "earliest_ms";
const LATEST: &str = "latest_ms";

/// The times of the exports that a state table was built from, in epoch milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportTimes {
    /// Of the earliest export.
    pub earliest_ms: i64,
    /// Of the latest export.
    pub latest_ms: i64,
}

impl ImportTimes {
    /// The key of the item.
    #[must_use]
    pub fn key(state_table: &Arc<str>) -> ItemKey {
        unsorted_key(state_table, "AFTERWRITE#IMPORT#", "")
    }

    /// The item to store, without its key.
    #[must_use]
    pub fn encode(&self) -> Item {
        let mut item = item_of_type("IMPORT");
        item.insert(EARLIEST.into(), Decimal::from(self.earliest_ms).into());
        item.insert(LATEST.into(), Decimal::from(self.latest_ms).into());
        item
    }

    /// Reads the item that [`ImportTimes::encode`] made.
    ///
    /// # Errors
    /// [`ErrorKind::State`] if the item is not one of these.
    pub fn decode(item: &Item) -> Result<Self> {
        let time = |name: &'static str| {
            item.get(name).and_then(AttributeValue::as_number).and_then(Decimal::to_i64).ok_or_else(|| {
                Error::new(
                    ErrorKind::State,
                    "the item that describes the import of a state table cannot be read",
                )
                .with("attribute", name)
            })
        };
        Ok(Self { earliest_ms: time(EARLIEST)?, latest_ms: time(LATEST)? })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn decoding_encoded_times_returns_the_times(earliest_ms: i64, latest_ms: i64) {
            let times = ImportTimes { earliest_ms, latest_ms };
            prop_assert_eq!(ImportTimes::decode(&times.encode()).unwrap(), times);
        }
    }
}
