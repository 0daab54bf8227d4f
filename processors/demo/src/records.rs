//! The change records of a workload, made without a server: the stream that its application's writes would have.

use std::collections::BTreeMap;
use std::slice;

use afterwrite_local::dynamodb::TableDefinition;
use afterwrite_model::record::TypedItem;
use afterwrite_services::dynamodb::item_from_sdk;
use serde_json::{Value, json};

use crate::item::{SdkItem, TableItem};
use crate::script::{Script, ScriptLane, ScriptStep, has_expired};
use crate::workload::Workload;

/// A table's name, and an item's key as text.
type ItemPlace = (String, String);

/// The records of a workload in the order of its writes, as Lambda delivers them; the lanes of a round take turns. `now`, in epoch
/// seconds, is the time of every change. A write that changes nothing has no record.
#[must_use]
pub fn records(workload: &Workload, seed: u64, size: u64, now: i64) -> Vec<String> {
    let script = workload.script(seed, size, now);
    let tables = workload.tables();
    let mut writer = RecordWriter { tables: &tables, now, items: BTreeMap::new(), records: Vec::new() };
    writer.write_script(&script);
    writer.records
}

/// The items as the steps so far have left them, and the records so far.
struct RecordWriter<'t> {
    tables: &'t [TableDefinition],
    now: i64,
    items: BTreeMap<ItemPlace, SdkItem>,
    records: Vec<String>,
}

impl RecordWriter<'_> {
    fn write_script(&mut self, script: &Script) {
        for round in &script.rounds {
            let mut lanes: Vec<slice::Iter<'_, ScriptStep>> = round.iter().map(steps).collect();
            while !lanes.is_empty() {
                lanes.retain_mut(|lane| match lane.next() {
                    Some(step) => {
                        self.write(step);
                        true
                    }
                    None => false,
                });
            }
            self.expire();
        }
    }

    fn write(&mut self, step: &ScriptStep) {
        match step {
            ScriptStep::Put { table, items } => {
                items.iter().for_each(|item| self.change(table, item, Some(item.clone()), false));
            }
            ScriptStep::Set { table, key, attributes } => {
                let stored = self.place(table, key).and_then(|place| self.items.get(&place));
                let mut item = stored.unwrap_or(key).clone();
                item.extend(attributes.clone());
                self.change(table, key, Some(item), false);
            }
            ScriptStep::Delete { table, key } => self.change(table, key, None, false),
        }
    }

    fn expire(&mut self) {
        let due: Vec<TableItem> = self
            .items
            .iter()
            .map(|((table, _), item)| TableItem { table: table.clone(), item: item.clone() })
            .filter(|stored| has_expired(stored, self.tables, self.now))
            .collect();
        for TableItem { table, item } in due {
            self.change(&table, &item, None, true);
        }
    }

    /// Changes the item with the key of `keyed`, and appends the record.
    fn change(&mut self, table: &str, keyed: &SdkItem, new: Option<SdkItem>, is_expiry: bool) {
        let Some(place) = self.place(table, keyed) else { return };
        let Some(definition) = self.tables.iter().find(|known| known.name == table) else { return };
        let old = match &new {
            Some(new) => self.items.insert(place, new.clone()),
            None => self.items.remove(&place),
        };
        let operation = match (&old, &new) {
            (None, None) => return,
            (Some(old), Some(new)) if old == new => return,
            (None, Some(_)) => "INSERT",
            (Some(_), Some(_)) => "MODIFY",
            (Some(_), None) => "REMOVE",
        };
        let keys = definition.key.attributes();
        let keys: SdkItem =
            keys.filter_map(|name| Some((name.to_owned(), keyed.get(name)?.clone()))).collect();
        let number = self.records.len();
        let mut change = json!({
            "ApproximateCreationDateTime": self.now, "Keys": typed_json(&keys), "SizeBytes": 100,
            "SequenceNumber": format!("{:025}", number + 1), "StreamViewType": "NEW_AND_OLD_IMAGES",
        });
        for (name, image) in [("OldImage", &old), ("NewImage", &new)] {
            if let Some((image, change)) = image.as_ref().zip(change.as_object_mut()) {
                change.insert(name.to_owned(), typed_json(image));
            }
        }
        let mut record = json!({
            "eventID": format!("event-{number}"), "eventName": operation, "eventVersion": "1.1", "eventSource": "aws:dynamodb",
            "awsRegion": "us-east-1", "dynamodb": change,
            "eventSourceARN": format!("arn:aws:dynamodb:us-east-1:123456789012:table/{table}/stream/2026-02-01T00:00:00.000"),
        });
        if let Some(record) = record.as_object_mut().filter(|_| is_expiry) {
            let service = json!({ "type": "Service", "principalId": "dynamodb.amazonaws.com" });
            record.insert("userIdentity".to_owned(), service);
        }
        self.records.push(record.to_string());
    }

    fn place(&self, table: &str, item: &SdkItem) -> Option<ItemPlace> {
        let definition = self.tables.iter().find(|known| known.name == table)?;
        let key: Vec<_> = definition.key.attributes().map(|name| item.get(name)).collect();
        Some((table.to_owned(), format!("{key:?}")))
    }
}

fn steps(lane: &ScriptLane) -> slice::Iter<'_, ScriptStep> {
    lane.steps.iter()
}

/// An item in DynamoDB's JSON. Workloads write no value that cannot be converted.
fn typed_json(item: &SdkItem) -> Value {
    let item = item_from_sdk(item.clone()).unwrap_or_default();
    serde_json::to_value(TypedItem(&item)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::ALL;

    #[test]
    fn the_records_are_those_of_the_scripts_writes() {
        for workload in ALL {
            let script = workload.script(3, 40, 1_770_467_696);
            let records = records(workload, 3, 40, 1_770_467_696);
            assert!(records.len() > script.writes() / 2, "{}: {}", workload.model, records.len());
            for operation in ["INSERT", "MODIFY", "REMOVE", "principalId"] {
                assert!(records.iter().any(|record| record.contains(operation)), "{}", workload.model);
            }
        }
    }
}
