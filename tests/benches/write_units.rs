//! Write units a record, everything counted: Afterwrite beside a transaction for each record that claims its event's id.
//!
//! `cargo bench -p afterwrite-tests --bench write_units` replays a recording in batches of 100 through both, on tables in memory
//! that charge by DynamoDB's rules: 1 unit a KB begun, 2 in a transaction, and each index that copies a changed item.

#![allow(clippy::indexing_slicing, reason = "a benchmark over its own fixture")]

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite::effect::{AttributeChange, ItemKey, KeyAttribute, Path, Write, WriteAction, WriteCondition};
use afterwrite::entity::SourceKey;
use afterwrite::projection::{
    ItemContributions, LookupAnswers, LookupKey, LookupOutputs, RollupTargets, ShardAssignment, TargetId,
    contributions,
};
use afterwrite::record::{AttributeValue, Decimal, Image, Item, decode};
use afterwrite::table::Model;
use afterwrite_memory::{MemoryTables, TableDefinition};
use afterwrite_tests::recording::event;
use afterwrite_tests::replay::{Replay, STATE};
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

/// Afterwrite as it is deployed, but on tables in memory.
async fn afterwrite() -> (u64, Vec<(String, u64)>) {
    let mut replay = Replay::new(RECORDING);
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

/// Gives every lookup the answer that the recording's last images give.
struct LastImages(BTreeMap<(usize, String), Vec<AttributeValue<'static>>>);

impl LookupAnswers for LastImages {
    fn outputs(&self, question: &LookupKey<'_>) -> Option<&LookupOutputs> {
        self.0.get(&(question.lookup, question.key.to_string())).map(Vec::as_slice)
    }
}

/// What is mostly written by hand today, made correct: for each record one transaction of a claim on its event's id and an
/// `ADD` of what it changes to each rollup.
fn claim_per_record() -> (u64, u64) {
    let replay = Replay::new(RECORDING);
    let model = Arc::new(Model::load(Model::DEFAULT_NAME).expect("the default model"));
    let answers = last_answers(&model, &replay);
    let tables = MemoryTables::new();
    tables.create_table(TableDefinition::new(STATE, "PK").sort("SK"));
    let mut written = 0;
    for record in replay.recording().records() {
        let writes = record_writes(&model, record, &answers);
        written += u64::try_from(writes.len()).expect("a count");
        tables.transact_now(&writes).expect("a transaction of the baseline");
    }
    (tables.write_units(), written)
}

fn last_answers(model: &Model, replay: &Replay) -> LastImages {
    let mut answers = BTreeMap::new();
    for record in replay.recording().records() {
        let event = event([record]);
        let batch = decode(&event, &model.vocabulary).expect("an event");
        let record = batch.records[0].as_ref().expect("a record");
        let source = SourceKey::of_keys(model, 0, &record.keys).expect("a key");
        let (Some(identity), Some(image)) = (source.identify(model), &record.new) else { continue };
        for (question, outputs) in afterwrite::projection::answers(model, &identity, image) {
            answers.entry((question.lookup, question.key.to_string())).or_insert(outputs);
        }
    }
    LastImages(answers)
}

fn record_writes(model: &Arc<Model>, record: &RawValue, answers: &LastImages) -> Vec<Write> {
    let event = event([record]);
    let batch = decode(&event, &model.vocabulary).expect("an event");
    let record = batch.records[0].as_ref().expect("a record");
    let source = SourceKey::of_keys(model, 0, &record.keys).expect("a key");
    let mut targets = RollupTargets::of(model);
    let mut sums: BTreeMap<(TargetId, Arc<str>), Decimal> = BTreeMap::new();
    if let Some(identity) = source.identify(model) {
        let old = record.old.decode(&model.vocabulary).expect("an old image").filter(|_| !record.expired);
        let nothing = ItemContributions::default();
        let mut count = |image: Option<&Image<'_>>, is_new: bool| {
            let Some(image) = image else { return };
            let sharding = ShardAssignment { source: &source, current: &nothing };
            let projected =
                contributions(model, &identity, image, answers, sharding, &mut targets).expect("an item");
            for share in projected.contributions.shares {
                for (target, (measure, number)) in share
                    .targets
                    .iter()
                    .flat_map(|target| share.measures.iter().map(move |measure| (target, measure)))
                {
                    let sum = sums.entry((*target, Arc::clone(measure))).or_insert(Decimal::ZERO);
                    *sum = if is_new { sum.plus(number) } else { sum.minus(number) }.expect("a sum");
                }
            }
        };
        // An expiry keeps what was counted: nothing is subtracted, the id alone is claimed.
        if !record.expired {
            count(old.as_ref(), false);
            count(record.new.as_ref(), true);
        }
    }
    let mut changes: BTreeMap<TargetId, Vec<AttributeChange>> = BTreeMap::new();
    for ((target, measure), sum) in sums.into_iter().filter(|(_, sum)| !sum.is_zero()) {
        changes.entry(target).or_default().push(AttributeChange::Add(Path::from(&measure), sum));
    }
    let claim = key(&format!("EVENT#{}", record.position), "-");
    let expires: Item = [("expires_at".into(), Decimal::from(1_800_000_000).into())].into_iter().collect();
    let mut writes =
        vec![Write { key: claim, condition: WriteCondition::ItemAbsent, action: WriteAction::Put(expires) }];
    writes.extend(changes.into_iter().map(|(target, changes)| {
        let target = targets.get(target);
        Write {
            key: key(&target.partition, &target.sort),
            condition: WriteCondition::Always,
            action: WriteAction::Update(changes),
        }
    }));
    writes
}

fn key(partition: &str, sort: &str) -> ItemKey {
    let attribute =
        |name: &str, value: &str| KeyAttribute { name: Arc::from(name), value: value.to_owned().into() };
    ItemKey {
        table: Arc::from(STATE),
        partition: attribute("PK", partition),
        sort: Some(attribute("SK", sort)),
    }
}
