//! The application: writes a script into tables in memory, one step of a random lane at a time.

use std::sync::Arc;

use afterwrite_demo::item::{SdkItem, TableItem};
use afterwrite_demo::recount::WorkloadOutcome;
use afterwrite_demo::script::{Script, ScriptLane, ScriptStep};
use afterwrite_demo::workload::Workload;
use afterwrite_local::dynamodb::TableDefinition as Definition;
use afterwrite_memory::{IndexDefinition, ItemChange, MemoryTables, TableDefinition};
use afterwrite_model::effect::{ItemKey, KeyAttribute};
use afterwrite_model::record::{Item, Timestamp};
use afterwrite_model::table::Model;
use afterwrite_tests::random::SeededRandom;
use afterwrite_tests::sdk_items::{item_of, sdk_item};
use afterwrite_tests::state_stream::is_of_source;

pub(super) const STATE: &str = "state";
/// The time of all writes, unless a test needs another one: Saturday, 7 February 2026, 12:34:56 UTC.
pub(super) const NOW: i64 = 1_770_467_696;

/// The source tables and the state table of a workload.
pub(super) fn tables(workload: &Workload, now: i64) -> MemoryTables {
    let tables = MemoryTables::new();
    tables.set_time(Timestamp::from_epoch_seconds(now));
    tables.create_table(TableDefinition::new(STATE, "PK").sort("SK").streamed());
    for Definition { name, key, indexes, .. } in workload.tables() {
        let mut definition = TableDefinition::new(name, key.partition.as_str()).streamed();
        if let Some(sort) = &key.sort {
            definition = definition.sort(sort.as_str());
        }
        for (name, key) in &indexes {
            let index = IndexDefinition::new(name, key.partition.as_str());
            let index = key.sort.iter().fold(index, |index, sort| index.sort(sort.as_str()));
            definition = definition.index(index);
        }
        tables.create_table(definition);
    }
    tables
}

/// An application that writes a script.
pub(super) struct ScriptedApplication {
    now: i64,
    definitions: Vec<Definition>,
    script: Script,
    round: usize,
    /// The number of steps done of each lane of the round.
    done: Vec<usize>,
    expired: Vec<TableItem>,
}

impl ScriptedApplication {
    pub(super) fn new(now: i64, workload: &Workload, seed: u64, size: u64) -> Self {
        let (definitions, script) = (workload.tables(), workload.script(seed, size, now));
        let done = script.rounds.first().map_or_else(Vec::new, |round| vec![0; round.len()]);
        Self { now, definitions, script, round: 0, done, expired: Vec::new() }
    }

    pub(super) fn is_done(&self) -> bool {
        self.round == self.script.rounds.len()
    }

    /// Does the next step of a random lane. After the last step of a round, time to live deletes expired items.
    pub(super) fn act(&mut self, tables: &MemoryTables, random: &mut SeededRandom) {
        let Some(round) = self.script.rounds.get(self.round) else { return };
        let open: Vec<usize> =
            (0..round.len()).filter(|lane| self.done[*lane] < round[*lane].steps.len()).collect();
        let Some(lane) = random.pick(&open).copied() else { return self.end_round(tables) };
        let ScriptLane { steps } = &round[lane];
        self.write(&steps[self.done[lane]], tables);
        self.done[lane] += 1;
    }

    fn end_round(&mut self, tables: &MemoryTables) {
        for table in &self.definitions {
            if let Some(attribute) = &table.ttl_attribute {
                tables.sweep(&table.name, attribute).expect("a table");
            }
        }
        self.round += 1;
        self.done = self.script.rounds.get(self.round).map_or_else(Vec::new, |round| vec![0; round.len()]);
    }

    fn write(&self, step: &ScriptStep, tables: &MemoryTables) {
        let put = |table: &str, item: Item| drop(tables.put(table, item).expect("an item"));
        match step {
            ScriptStep::Put { table, items } => items.iter().for_each(|item| put(table, item_of(item))),
            ScriptStep::Set { table, key, attributes } => {
                let mut item = tables.get(&self.key(table, key)).unwrap_or_else(|| item_of(key));
                item.extend(item_of(attributes));
                put(table, item);
            }
            ScriptStep::Delete { table, key } => drop(tables.delete(&self.key(table, key)).expect("a key")),
        }
    }

    fn key(&self, table: &str, key: &SdkItem) -> ItemKey {
        let definition = self.definitions.iter().find(|known| known.name == table).expect("a table");
        let attribute = |name: &String| KeyAttribute {
            name: Arc::from(name.as_str()),
            value: item_of(key).remove(name.as_str()).expect("a key attribute"),
        };
        let sort = definition.key.sort.as_ref().map(attribute);
        ItemKey { table: Arc::from(table), partition: attribute(&definition.key.partition), sort }
    }

    /// The changes of the source tables since the last call, table by table.
    pub(super) fn take_changes(&mut self, tables: &MemoryTables) -> Vec<ItemChange> {
        let changes: Vec<ItemChange> =
            self.definitions.iter().flat_map(|table| tables.take_changes(&table.name)).collect();
        for change in changes.iter().filter(|change| change.is_expiry) {
            let item = sdk_item(change.old.as_ref().expect("an expired item has an old image"));
            self.expired.push(TableItem { table: change.key.table.to_string(), item });
        }
        changes
    }

    /// The changes of rollups that are sources since the last call: a filter keeps the ledger's own writes out.
    pub(super) fn take_changes_of_rollups(model: &Model, tables: &MemoryTables) -> Vec<ItemChange> {
        let mut changes = tables.take_changes(STATE);
        changes.retain(|change| is_of_source(model, change));
        changes
    }

    /// The tables at the end.
    pub(super) fn outcome(&self, tables: &MemoryTables) -> WorkloadOutcome {
        let items = self.definitions.iter().flat_map(|table| {
            let placed = |item: Item| TableItem { table: table.name.clone(), item: sdk_item(&item) };
            tables.scan(&table.name).into_iter().map(placed)
        });
        WorkloadOutcome {
            now: self.now,
            items: items.collect(),
            expired: self.expired.clone(),
            images: self.script.images(&self.definitions, self.now),
        }
    }
}
