//! The sample of a table that a model is inferred from.

use std::sync::Arc;

use afterwrite_ledger::tables::{ScanRequest, TableScan};
use afterwrite_model::Result;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::record::Item;
use afterwrite_model::table::KeyType;

use super::texts::text_of;

/// Segments that the items of a table are taken from: a scan from its beginning may see a few partitions only. With many segments, the sample
/// has the first items of many partitions, and so rare kinds of items.
const MOST_SEGMENTS: u32 = 256;

/// A key attribute of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyAttribute {
    /// Its name.
    pub name: String,
    /// Its type.
    pub key_type: KeyType,
}

/// A global secondary index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledIndex {
    /// Its name.
    pub name: String,
    /// The names of its key attributes.
    pub keys: Vec<String>,
}

/// Facts about a table that need not be inferred.
#[derive(Clone, Debug, Default)]
pub struct InferenceHints {
    /// The character that separates the parts of keys.
    pub separator: Option<char>,
    /// The attribute that names the type of an item.
    pub type_attribute: Option<String>,
}

/// A table, and some of its items.
#[derive(Clone, Debug)]
pub struct TableSample {
    /// The table's name.
    pub table: String,
    /// The partition key and, if the table has one, the sort key.
    pub key: Vec<KeyAttribute>,
    /// Whether the key is a guess from the items.
    pub has_guessed_key: bool,
    /// The global secondary indexes, as far as they are known.
    pub indexes: Vec<SampledIndex>,
    /// The items.
    pub items: Vec<Item>,
}

impl TableSample {
    /// The sample without Afterwrite's heartbeat, which is not an item of the application.
    #[must_use]
    pub fn without_heartbeat(mut self) -> Self {
        let names: Vec<String> = self.key_names().map(str::to_owned).collect();
        self.items.retain(|item| {
            let mut texts = names.iter().map(|name| item.get(name.as_str()).and_then(text_of));
            let partition = texts.next().flatten().unwrap_or_default();
            !SourceKey { table: 0, partition, sort: texts.next().flatten() }.is_heartbeat()
        });
        self
    }

    /// A sentence about a key that is a guess.
    #[must_use]
    pub fn key_guess(&self) -> String {
        let names: Vec<&str> = self.key_names().collect();
        format!("guessed: the key attributes are {}; --key NAME[,NAME] states them", names.join(", "))
    }

    /// The names of the key attributes.
    pub(super) fn key_names(&self) -> impl Iterator<Item = &str> {
        self.key.iter().map(|key| key.name.as_str())
    }

    /// Whether an attribute is part of the key.
    pub(super) fn is_key(&self, name: &str) -> bool {
        self.key_names().any(|key| key == name)
    }

    /// The items with these indexes.
    pub(super) fn items_at(&self, members: &[usize]) -> impl Iterator<Item = &Item> {
        members.iter().filter_map(|index| self.items.get(*index))
    }

    /// The texts of a key attribute of these items.
    pub(super) fn key_texts(&self, name: &str, members: &[usize]) -> Vec<String> {
        let text = |item: &Item| item.get(name).and_then(text_of).unwrap_or_default().into_owned();
        self.items_at(members).map(text).collect()
    }
}

/// Reads about `most` items of a table, never more.
///
/// # Errors
/// As [`TableScan::scan`].
pub async fn sample_items(tables: &impl TableScan, table: &Arc<str>, most: u32) -> Result<Vec<Item>> {
    let segments = most.clamp(1, MOST_SEGMENTS);
    let whole = || ScanRequest::whole(Arc::clone(table));
    let mut open: Vec<ScanRequest> =
        (0..segments).map(|segment| ScanRequest { segment, segments, ..whole() }).collect();
    let (most, mut items) = (usize::try_from(most).unwrap_or(usize::MAX), Vec::new());
    while items.len() < most && !open.is_empty() {
        let missing = most - items.len();
        let share = u32::try_from(missing.div_ceil(open.len())).unwrap_or(u32::MAX);
        let mut unfinished = Vec::new();
        for request in open {
            let page = tables.scan(&ScanRequest { page_items: Some(share), ..request.clone() }).await?;
            items.extend(page.items);
            unfinished.extend(page.next.map(|next| ScanRequest { start_after: Some(next), ..request }));
        }
        open = unfinished;
    }
    items.truncate(most);
    Ok(items)
}
