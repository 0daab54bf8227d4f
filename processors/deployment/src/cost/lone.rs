//! The write units of an item's creation that is alone in its batch, for each entity: the units of a model without a sample. Batches
//! fold, so that the changes of an application need fewer.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_input::item_json::ItemJson;
use afterwrite_ledger::tables::{IndexProjection, TableIndex};
use afterwrite_model::Result;
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::{Entity, Lookup, Model};
use afterwrite_preview::sample::{SampleItem, counted_item};
use serde_json::Value;

use super::batches::DeliverySettings;
use super::paced::EntityRate;
use super::trial::CostTrial;

/// Each record is delivered alone, at once.
const ALONE: DeliverySettings = DeliverySettings { batch_size: 1, window_seconds: 0.0, shards: 1 };

/// The creation of an item that is alone in its batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoneChange {
    /// The entity.
    pub entity: Arc<str>,
    /// The write units of everything that is counted of it.
    pub write_units: u64,
}

/// The creations of an item of each entity that is counted, by items that are made up from the model; an entity of which no such item can be
/// made is left out. The functions' own code counts them on tables in memory.
///
/// # Errors
/// As [`CostTrial::run`].
pub async fn lone_changes(model: &Arc<Model>, now: Timestamp) -> Result<Vec<LoneChange>> {
    let counted = |entity: &&Entity| entity.rollup.is_none() && !entity.aggregates.is_empty();
    let mut changes = Vec::new();
    for entity in model.entities.iter().filter(counted) {
        let Some(sample) = counted_item(model, entity, now) else { continue };
        let items = sample.in_order().zip(1_u64..);
        let records: Vec<String> =
            items.filter_map(|(item, number)| record(model, item, number, now)).collect();
        let trial = CostTrial {
            model: Arc::clone(model),
            records: &records,
            rates: &[EntityRate { entity: entity.name.to_string(), per_second: 1.0 }],
            delivery: ALONE,
            indexes: lookup_indexes(model),
            events: BTreeMap::new(),
        };
        let totals = Box::pin(trial.run()).await?;
        // An item that looks up another one of its entity is created beside it.
        let write_units = totals.write_units.div_ceil(totals.records.max(1));
        changes.push(LoneChange { entity: Arc::clone(&entity.name), write_units });
    }
    Ok(changes)
}

/// The record of an item's creation.
fn record(model: &Model, item: &SampleItem, number: u64, now: Timestamp) -> Option<String> {
    let table = model.tables.get(item.table)?;
    let json = ItemJson::parse(&Value::Object(item.attributes.clone()).to_string())?;
    json.insert_record(table, &table.name, number, Some(now))
}

/// The indexes that lookups query, by the name of their table in the model.
#[must_use]
pub fn lookup_indexes(model: &Model) -> BTreeMap<String, Vec<TableIndex>> {
    let mut indexes: BTreeMap<String, Vec<TableIndex>> = BTreeMap::new();
    for (table, index) in model.lookups.iter().filter_map(|lookup| lookup_index(model, lookup)) {
        let known = indexes.entry(table).or_default();
        if !known.contains(&index) {
            known.push(index);
        }
    }
    indexes
}

/// The index that a lookup queries, and its table; `None` if items are read by their primary keys.
fn lookup_index(model: &Model, lookup: &Lookup) -> Option<(String, TableIndex)> {
    lookup.index()?;
    let table = model.tables.get(model.entities.get(lookup.of)?.table)?;
    let keys = lookup.key.iter().map(|(name, _)| Arc::clone(name)).collect();
    Some((table.name.to_string(), TableIndex { keys, projection: IndexProjection::All }))
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// The result of a future that never waits: a trial's tables are in memory.
    fn ready<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result,
            Poll::Pending => panic!("the trial waits"),
        }
    }

    #[test]
    fn a_new_item_costs_its_entry_its_rollups_its_lookup_and_the_copies_that_it_shows() {
        let model = Arc::new(Model::load("exambuddy").unwrap());
        let now = Timestamp::from_epoch_seconds(1_770_400_000);
        let changes = ready(lone_changes(&model, now)).unwrap();
        let units =
            |entity: &str| changes.iter().find(|change| *change.entity == *entity).unwrap().write_units;
        // In a transaction, an item of up to 1 KB takes two units: the entry and four rollups. Its lookup is remembered for one.
        assert_eq!(units("attempt"), 2 + 4 * 2 + 1);
        // The entry and one rollup, and the first lookup of the question's project.
        assert_eq!(units("answer"), 2 + 2 + 1);
        assert_eq!(changes.len(), 4, "users are not counted: {changes:?}");
    }
}
