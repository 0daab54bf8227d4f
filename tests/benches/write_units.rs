//! Write units of a record: Afterwrite compared with one transaction for each record that claims its event id.
//!
//! `cargo bench -p afterwrite-tests --bench write_units` replays a recording in batches of 100 through both, on tables in memory
//! that charge by DynamoDB's rules: 1 unit for each started KB, 2 in a transaction, and again for each index that copies the item.

#![allow(clippy::indexing_slicing, reason = "a benchmark over its own fixture")]

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_memory::{MemoryTables, TableDefinition, item_key};
use afterwrite_model::effect::{AttributeChange, ItemKey, Write, WriteAction, WriteCondition};
use afterwrite_model::entity::SourceKey;
use afterwrite_model::projection::{
    ItemContributions, KnownLookups, LookupKey, LookupOutputs, RollupTargets, ShardAssignment, TargetId,
    contributions,
};
use afterwrite_model::record::{AttributePath, AttributeValue, ChangeRecord, Decimal, Item, decode};
use afterwrite_model::table::Model;
use afterwrite_tests::recording::event;
use afterwrite_tests::replay::{RecordingReplay, STATE};
use serde_json::value::RawValue;

const RECORDING: &str = "exam-42";
const BATCH: usize = 100;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let (records, rows) = runtime.block_on(afterwrite());
    let (claims, claim_writes) = claim_per_record();
    println!("{RECORDING}: {records} records in batches of {BATCH}\n");
    println!("{:<58} {:>8} {:>9}", "", "units", "a record");
    let row = |name: &str, units: u64| {
        let per_mille = units * 1000 / records;
        println!("{name:<58} {units:>8} {:>5}.{:03}", per_mille / 1000, per_mille % 1000);
    };
    for (name, units) in rows {
        row(&name, units);
    }
    row("baseline: one transaction a record, event id claimed", claims);
    println!("\nThe baseline wrote {claim_writes} items, refreshes no mirror and remembers no lookup.");
}

/// Afterwrite as deployed, on tables in memory. Returns the number of records, and the lines of the report.
async fn afterwrite() -> (u64, Vec<(String, u64)>) {
    let mut replay = RecordingReplay::new(RECORDING);
    let before = replay.tables().write_units();
    replay.deliver_all(BATCH).await;
    let total = replay.tables().write_units() - before;
    let totals = replay.totals();
    let mut rows: Vec<(String, u64)> = vec![("Afterwrite, everything counted".to_owned(), total)];
    for (name, number) in totals.named() {
        rows.push((format!("  of which counted by the function: {name}"), number));
    }
    let by_kind = items_by_kind(&replay.tables().scan(STATE));
    for (kind, items) in by_kind {
        rows.push((format!("  items stored: {kind}"), items));
    }
    replay.assert_golden("the measured run");
    (u64::try_from(replay.recording().order.len()).expect("a count"), rows)
}

fn items_by_kind(items: &[Item]) -> BTreeMap<String, u64> {
    let mut kinds = BTreeMap::new();
    for item in items {
        let kind = item.get("EntityType").and_then(AttributeValue::as_text).unwrap_or("?").to_owned();
        *kinds.entry(kind).or_default() += 1;
    }
    kinds
}

/// The outputs of lookups, by lookup and key, from the recording's images.
struct RecordedLookups(BTreeMap<(usize, String), Vec<AttributeValue<'static>>>);

impl KnownLookups for RecordedLookups {
    fn outputs(&self, lookup: &LookupKey<'_>) -> Option<&LookupOutputs> {
        self.0.get(&(lookup.lookup, lookup.key.to_string())).map(Vec::as_slice)
    }
}

/// The common handwritten solution, made correct: for each record one transaction with a claim on its event id and an `ADD` to
/// each rollup that it changes.
fn claim_per_record() -> (u64, u64) {
    let replay = RecordingReplay::new(RECORDING);
    let model = Arc::new(Model::load(Model::DEFAULT_NAME).expect("the default model"));
    let lookups = recorded_lookups(&model, &replay);
    let tables = MemoryTables::new();
    tables.create_table(TableDefinition::new(STATE, "PK").sort("SK"));
    let mut written = 0;
    for record in replay.recording().records() {
        let writes = record_writes(&model, record, &lookups);
        written += u64::try_from(writes.len()).expect("a count");
        tables.transact_now(&writes).expect("a transaction of the baseline");
    }
    (tables.write_units(), written)
}

fn recorded_lookups(model: &Model, replay: &RecordingReplay) -> RecordedLookups {
    let mut outputs_by_key = BTreeMap::new();
    for record in replay.recording().records() {
        let event = event([record]);
        let batch = decode(&event, &model.attributes).expect("an event");
        let record = batch.records[0].as_ref().expect("a record");
        let source = SourceKey::of_keys(model, 0, &record.keys).expect("a key");
        let Some(image) = &record.new else { continue };
        for (lookup, outputs) in
            afterwrite_model::projection::offered_outputs(model, &source.candidates(model), image)
        {
            outputs_by_key.entry((lookup.lookup, lookup.key.to_string())).or_insert(outputs);
        }
    }
    RecordedLookups(outputs_by_key)
}

fn record_writes(model: &Arc<Model>, record: &RawValue, lookups: &RecordedLookups) -> Vec<Write> {
    let event = event([record]);
    let batch = decode(&event, &model.attributes).expect("an event");
    let record = batch.records[0].as_ref().expect("a record");
    let mut targets = RollupTargets::of(model);
    // An expired item stays counted: only the id is claimed.
    let changes =
        if record.expired { BTreeMap::new() } else { measure_changes(model, record, lookups, &mut targets) };
    let mut updates: BTreeMap<TargetId, Vec<AttributeChange>> = BTreeMap::new();
    for ((target, measure), change) in changes.into_iter().filter(|(_, change)| !change.is_zero()) {
        updates.entry(target).or_default().push(AttributeChange::Add(AttributePath::from(&measure), change));
    }
    let claim = key(&format!("EVENT#{}", record.position), "-");
    let expires: Item = [("expires_at".into(), Decimal::from(1_800_000_000).into())].into_iter().collect();
    let mut writes =
        vec![Write { key: claim, condition: WriteCondition::ItemAbsent, action: WriteAction::Put(expires) }];
    writes.extend(updates.into_iter().map(|(target, changes)| {
        let target = targets.get(target);
        Write {
            key: key(&target.partition, &target.sort),
            condition: WriteCondition::Always,
            action: WriteAction::Update(changes),
        }
    }));
    writes
}

/// The change of each measure of each rollup: the contributions of the new image minus those of the old one.
fn measure_changes(
    model: &Model,
    record: &ChangeRecord<'_>,
    lookups: &RecordedLookups,
    targets: &mut RollupTargets,
) -> BTreeMap<(TargetId, Arc<str>), Decimal> {
    let source = SourceKey::of_keys(model, 0, &record.keys).expect("a key");
    let mut changes: BTreeMap<(TargetId, Arc<str>), Decimal> = BTreeMap::new();
    let candidates = source.candidates(model);
    let old = record.old.decode(&model.attributes).expect("an old image");
    let nothing = ItemContributions::default();
    for (image, is_new) in [(old.as_ref(), false), (record.new.as_ref(), true)] {
        let Some(image) = image else { continue };
        let sharding = ShardAssignment { source: &source, current: &nothing };
        let projected =
            contributions(model, &candidates, (image, &[]), lookups, sharding, targets).expect("an item");
        for share in &projected.contributions.by_aggregate {
            for (target, (measure, number)) in share
                .targets
                .iter()
                .flat_map(|target| share.measures.iter().map(move |measure| (target, measure)))
            {
                let change = changes.entry((*target, Arc::clone(measure))).or_insert(Decimal::ZERO);
                *change = if is_new { change.plus(number) } else { change.minus(number) }.expect("a number");
            }
        }
    }
    changes
}

fn key(partition: &str, sort: &str) -> ItemKey {
    item_key(STATE, partition, sort)
}
