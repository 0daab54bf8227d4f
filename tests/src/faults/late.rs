//! Requests that the service still has when their author stops waiting for them, and earlier versions of indexed items.

use std::collections::{BTreeMap, VecDeque};

use afterwrite_ledger::tables::IndexQuery;
use afterwrite_model::effect::Write;
use afterwrite_model::record::{AttributeValue, Item};

/// The earlier versions that are kept of the items with one index key.
const KEPT_VERSIONS: usize = 8;

/// A request that has not taken effect yet.
pub(super) enum LateRequest {
    Write(Write),
    Transaction(Vec<Write>),
}

/// The requests that have not taken effect yet, each with its author, oldest first.
#[derive(Default)]
pub(super) struct LateRequests {
    pub(super) waiting: VecDeque<(u64, LateRequest)>,
    /// The author of the requests that are sent now.
    pub(super) author: u64,
}

impl LateRequests {
    pub(super) fn push(&mut self, request: LateRequest) {
        self.waiting.push_back((self.author, request));
    }
}

/// Earlier versions of items, by the text of an index's partition key.
#[derive(Default)]
pub(super) struct IndexVersions(BTreeMap<String, VecDeque<Item>>);

impl IndexVersions {
    pub(super) fn add(&mut self, partition: &str, item: Item) {
        let versions = self.0.entry(partition.to_owned()).or_default();
        versions.push_back(item);
        if versions.len() > KEPT_VERSIONS {
            versions.pop_front();
        }
    }

    /// The earlier versions that have the key values of a query.
    pub(super) fn matching(&self, query: &IndexQuery) -> Vec<&Item> {
        let partition = query.key.first().and_then(|key| key.value.as_text()).unwrap_or_default();
        let has_keys = |item: &&Item| query.key.iter().all(|key| has_value(item, &key.name, &key.value));
        self.0.get(partition).into_iter().flatten().filter(has_keys).collect()
    }
}

fn has_value(item: &Item, name: &str, value: &AttributeValue<'_>) -> bool {
    item.get(name).is_some_and(|found| found == value)
}
