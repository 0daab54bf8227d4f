//! The stream of a state table in memory, whose rollups are sources.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_model::entity::SourceKey;
use afterwrite_model::record::{Item, Timestamp, TypedItem};
use afterwrite_model::table::Model;
use serde_json::{Value, json};

use super::difference::ItemDifference;
use super::stored_key::StoredKey;

/// Makes the change records of rollups that are sources: of every other item of the state table, a mapping's filter keeps them out.
#[derive(Debug)]
pub struct StateStream {
    model: Arc<Model>,
    /// An index into [`Model::tables`].
    table: usize,
    deployed: Arc<str>,
    /// The items as the newest record of each has them.
    seen: BTreeMap<StoredKey, Item>,
    number: u64,
}

impl StateStream {
    /// The stream of the state table `deployed`; `None` if no rollup of the model is a source.
    #[must_use]
    pub fn new(model: &Arc<Model>, deployed: &Arc<str>) -> Option<Self> {
        let table = model.state_source()?;
        let (model, deployed) = (Arc::clone(model), Arc::clone(deployed));
        Some(Self { model, table, deployed, seen: BTreeMap::new(), number: 0 })
    }

    /// The records of what has changed since the last call. `differences` has all items that differ from the state before the first call.
    pub fn records(&mut self, differences: Vec<ItemDifference>, created: Timestamp) -> Vec<String> {
        let mut records = Vec::new();
        for ItemDifference { key, before, after } in differences {
            let Some(item) = after.as_ref().or(before.as_ref()).filter(|_| key.table == self.deployed) else {
                continue;
            };
            let source = SourceKey::of_item(&self.model, self.table, item);
            if source.is_none_or(|source| source.candidates(&self.model).is_empty()) {
                continue;
            }
            let place = StoredKey::of(&key);
            let old = self.seen.get(&place).or(before.as_ref());
            if old == after.as_ref() {
                continue;
            }
            self.number += 1;
            records.extend(self.record((old, after.as_ref()), created));
            match after {
                Some(after) => drop(self.seen.insert(place, after)),
                None => drop(self.seen.remove(&place)),
            }
        }
        records
    }

    fn record(&self, (old, new): (Option<&Item>, Option<&Item>), created: Timestamp) -> Option<String> {
        let keys: Vec<_> =
            self.model.tables.get(self.table)?.key().map(|key| Arc::clone(&key.name)).collect();
        let key = |image: &Item| {
            let known = image.iter().filter(|(name, _)| keys.iter().any(|key| **key == **name));
            typed(&known.map(|(name, value)| (name.clone(), value.clone())).collect())
        };
        let name = match (old, new) {
            (None, _) => "INSERT",
            (Some(_), Some(_)) => "MODIFY",
            (Some(_), None) => "REMOVE",
        };
        let stream = format!("table/{}/stream/2000-01-01T00:00:00.000", self.deployed);
        let mut change = json!({
            "ApproximateCreationDateTime": created.epoch_seconds(),
            "Keys": key(new.or(old)?),
            "SequenceNumber": self.number.to_string(),
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        });
        for (name, image) in [("OldImage", old), ("NewImage", new)] {
            if let (Some(image), Some(change)) = (image, change.as_object_mut()) {
                change.insert(name.to_owned(), typed(image));
            }
        }
        let record = json!({
            "eventID": format!("state-{}", self.number),
            "eventName": name,
            "eventSource": "aws:dynamodb",
            "eventSourceARN": format!("arn:aws:dynamodb::000000000000:{stream}"),
            "dynamodb": change,
        });
        Some(record.to_string())
    }
}

fn typed(item: &Item) -> Value {
    // An item has text keys only, so this cannot fail.
    serde_json::to_value(TypedItem(item)).unwrap_or_default()
}
