//! Cache keys and rows that must follow from each change of a generated workload, written by hand for each model.

mod algoitny;
mod ecommerce;
mod github;
mod glad;
mod leaderboard;
mod marketplace;
mod metering;
mod quiz;
mod row;
mod shop;
mod social;

use std::collections::BTreeSet;

use afterwrite_demo::item::SdkItem as Item;
use afterwrite_tests::datasets::TextRow;

use self::row::{ExpectedRow, timestamp_text};
use super::stream::StreamRecord;

/// The generation of all built-in models.
const GENERATION: &str = "1";

/// The expectations of one model. Both functions take a table and an item.
pub(super) struct ModelExpectations {
    /// The cache keys under which a copy of the item may be stored.
    cache_keys: fn(&str, &Item) -> Vec<String>,
    /// The item's row, without the columns that every dataset has.
    row: for<'i> fn(&str, &'i Item) -> Option<ExpectedRow<'i>>,
}

impl ModelExpectations {
    pub(super) fn of(model: &str) -> Self {
        match model {
            "algoitny" => Self { cache_keys: algoitny::cache_keys, row: algoitny::row },
            "ecommerce" => Self { cache_keys: ecommerce::cache_keys, row: ecommerce::row },
            "github" => Self { cache_keys: github::cache_keys, row: github::row },
            "glad" => Self { cache_keys: glad::cache_keys, row: glad::row },
            "leaderboard" => Self { cache_keys: leaderboard::cache_keys, row: leaderboard::row },
            "marketplace" => Self { cache_keys: marketplace::cache_keys, row: marketplace::row },
            "metering" => Self { cache_keys: metering::cache_keys, row: metering::row },
            "quiz" => Self { cache_keys: quiz::cache_keys, row: quiz::row },
            "shop" => Self { cache_keys: shop::cache_keys, row: shop::row },
            "social" => Self { cache_keys: social::cache_keys, row: social::row },
            other => panic!("no expectations of the model {other}"),
        }
    }

    /// The cache keys that these changes make stale.
    pub(super) fn stale_keys(&self, records: &[StreamRecord]) -> BTreeSet<String> {
        let images = records.iter().flat_map(|record| record.images().map(|image| (&record.table, image)));
        images.flat_map(|(table, image)| (self.cache_keys)(table, image)).collect()
    }

    /// The rows of a change, each with its dataset. A change that moves an item to another day has one in each partition.
    pub(super) fn rows(&self, record: &StreamRecord) -> Vec<(&'static str, TextRow)> {
        let row = |image: &Option<Item>, operation| self.row_of_image(record, image.as_ref()?, operation);
        match (&record.old, &record.new) {
            (None, new) => row(new, "INSERT").into_iter().collect(),
            (old, None) => {
                let operation = if record.is_expiry { "EXPIRE" } else { "REMOVE" };
                row(old, operation).into_iter().collect()
            }
            (old, new) => {
                let (left, stays) = (row(old, "REMOVE"), row(new, "MODIFY"));
                let has_moved =
                    |((_, left), (_, stays)): (&(_, TextRow), &(_, TextRow))| left["dt"] != stays["dt"];
                let has_moved = left.as_ref().zip(stays.as_ref()).is_some_and(has_moved);
                stays.into_iter().chain(left.filter(|_| has_moved)).collect()
            }
        }
    }

    fn row_of_image(
        &self,
        record: &StreamRecord,
        image: &Item,
        operation: &str,
    ) -> Option<(&'static str, TextRow)> {
        let ExpectedRow { dataset, mut columns, .. } = (self.row)(&record.table, image)?;
        columns.insert("_operation".to_owned(), operation.to_owned());
        columns.insert("_position".to_owned(), record.sequence_number.clone());
        columns.insert("_changed_at".to_owned(), timestamp_text(&record.changed_at.to_string()));
        columns.insert("_generation".to_owned(), GENERATION.to_owned());
        Some((dataset, columns))
    }
}

/// A cache key, if each of its parts has a value.
fn key<const N: usize>(parts: [&str; N]) -> Option<String> {
    parts.iter().all(|part| !part.is_empty()).then(|| parts.join(":"))
}

fn present<const N: usize>(keys: [Option<String>; N]) -> Vec<String> {
    keys.into_iter().flatten().collect()
}
