//! Checks of everything derived: against the oracle's recount, and for consistency.

mod extremes;
mod mirrors;
mod ranks;
mod sources;

use std::collections::{BTreeMap, BTreeSet};

use afterwrite_demo::exact::ExactNumber;
use afterwrite_model::record::Item;

use self::extremes::check_extremes;
use self::mirrors::{check_mirrors, check_own_writes};
use self::sources::{check_filter, is_counted_source, source_items};
use super::numbers::stored;
use super::oracle::{
    self, CountError, ItemKind, MeasureSums, RememberedOutputs, RollupKey, add_amount, item_kind,
};
use super::run::SimulationRun;
use super::score_bins::median;
use super::state::{StateTable, StoredContribution, StoredEntry};
use super::state_keys::{StateKey, entry_key, marker_key};
use super::store::{RANK, STATE, Store, key_texts, text};
use super::stream::{StreamRecord, TABLES};

/// A rollup is not checked within this time of its expiry; longer than the differences between the processes' clocks.
const UNCHECKED_SECONDS: i64 = 15 * 60;
/// From this age an expiry may be too old to be settled: 35 days minus the product's tolerance minus the clocks' skew.
const TOO_OLD_SECONDS: i64 = 35 * 86_400 - 20 * 60;
/// The computed measures.
const COMPUTED: [&str; 7] = ["score_average", "score_median", "best", "worst", "highest", "lowest", "peak"];
const OWN_ATTRIBUTES: [&str; 7] = ["PK", "SK", "EntityType", "rev", "updated_at", "expires_at", RANK];

/// Checks what holds at every moment: each rollup is the sum of the ledger's entries and the settled contributions.
pub(crate) fn check_sums<S: Store + 'static>(run: &mut SimulationRun<S>) {
    if run.overwritten.is_some() {
        // The text cannot be added up.
        return;
    }
    match StateTable::read(run.tables.inner().scan(STATE)) {
        Ok(state) => {
            let now = run.time.now().epoch_seconds();
            run.problems.extend(ledger_and_settled(&state, now));
        }
        Err(problem) => run.problems.push(problem),
    }
}

/// Checks what holds at the end.
pub(crate) fn check_all<S: Store + 'static>(run: &mut SimulationRun<S>) -> Vec<String> {
    let state = match StateTable::read(run.tables.inner().scan(STATE)) {
        Ok(state) => state,
        Err(problem) => return vec![problem],
    };
    let generation = if run.options.generations { 2 } else { 1 };
    let now = run.time.now().epoch_seconds();
    let items: Vec<(&str, Item)> = TABLES
        .iter()
        .flat_map(|table| run.tables.inner().scan(table).into_iter().map(move |item| (*table, item)))
        .chain(source_items(&state).map(|item| (STATE, item.clone())))
        .collect();
    let mut problems = ledger_and_settled(&state, now);
    let behind = state.entries.iter().filter(|(_, entry)| entry.is_behind).map(|(key, _)| key);
    let parked = behind.chain(&state.parked_expiries);
    problems.extend(parked.map(|(partition, sort)| format!("{partition} {sort} is still parked")));
    problems.extend(check_lookups(&state, &run.streams.records));
    problems.extend(check_entries(run, &state, &items, generation));
    let settled = settled_sums(run, &state.remembered, &mut problems);
    match recount(&state, &items, &settled, generation) {
        Ok(wanted) => {
            problems.extend(check_recount(&state, &wanted, &settled, generation, now));
            problems.extend(ranks::check_order(run, &wanted, now));
        }
        Err(problem) => problems.push(problem),
    }
    problems.extend(check_averages(&state));
    problems.extend(check_medians(&state));
    problems.extend(check_extremes(run, &state, &items));
    problems.extend(check_mirrors(&state, &items));
    problems.extend(check_own_writes(run));
    problems.extend(ranks::check_groups(&state));
    problems.extend(check_filter(run));
    problems
}

/// When the rollup expires, if it does.
fn expires_at(target: &RollupKey) -> Option<i64> {
    let of_user = target.1.strip_prefix("ROLLUP#DAY#").filter(|_| target.0.starts_with("USER#"));
    of_user.or_else(|| target.0.strip_prefix("DAY#")).map(oracle::rollup_expires_at)
}

fn is_checked(target: &RollupKey, now: i64) -> bool {
    expires_at(target).is_none_or(|at| at > now + UNCHECKED_SECONDS)
}

/// The additive measures of a rollup.
fn sums_of(item: &Item) -> impl Iterator<Item = &str> {
    item.keys().map(|name| &**name).filter(|name| {
        !OWN_ATTRIBUTES.contains(name) && !COMPUTED.contains(name) && !name.starts_with("settled_")
    })
}

fn ledger_and_settled(state: &StateTable, now: i64) -> Vec<String> {
    let mut wanted = MeasureSums::new();
    for (_, contribution) in state
        .entries
        .values()
        .flat_map(|entry| entry.contributions.iter().map(move |contribution| (entry, contribution)))
    {
        for (measure, amount) in &contribution.measures {
            add_amount(&mut wanted, (contribution.target.clone(), measure.clone()), amount);
        }
    }
    let mut found = MeasureSums::new();
    for (target, item) in &state.rollups {
        for measure in sums_of(item) {
            let settled = state.number(target, &format!("settled_{measure}"));
            found.insert((target.clone(), measure.to_owned()), state.number(target, measure).minus(&settled));
        }
    }
    differences("the ledger's entries", &wanted, "the rollup minus the settled part", &found, now)
}

fn differences(
    left_name: &str,
    left: &MeasureSums,
    right_name: &str,
    right: &MeasureSums,
    now: i64,
) -> Vec<String> {
    let keys: BTreeSet<_> = left.keys().chain(right.keys()).collect();
    let mut problems = Vec::new();
    for key in keys {
        let sum = |sums: &MeasureSums| sums.get(key).cloned().unwrap_or_default();
        let (target, measure) = key;
        if sum(left) != sum(right) && is_checked(target, now) {
            let (left, right) = (sum(left), sum(right));
            problems.push(format!(
                "{} {} {measure}: {left_name}: {left}, {right_name}: {right}",
                target.0, target.1
            ));
        }
    }
    problems
}

/// Remembered outputs are values that existed at some time.
fn check_lookups(state: &StateTable, records: &[StreamRecord]) -> Vec<String> {
    let mut existing = BTreeSet::new();
    for record in records {
        for image in [&record.new, &record.old].into_iter().flatten() {
            match item_kind(record.table, &record.partition, record.sort.as_deref()) {
                ItemKind::Project { owner, project } => {
                    existing.insert((project.to_owned(), owner.to_owned()))
                }
                ItemKind::Shop { shop } => existing.insert((shop.to_owned(), text(image, "city").to_owned())),
                _ => continue,
            };
        }
    }
    let RememberedOutputs { owners, cities } = &state.remembered;
    let remembered = owners.iter().chain(cities).map(|(key, output)| (key.clone(), output.clone()));
    remembered
        .filter(|pair| !existing.contains(pair))
        .map(|(key, output)| format!("the lookup of {key} remembers {output}, which never existed"))
        .collect()
}

/// Every entry has the contributions of its item, and none if the item is deleted.
fn check_entries<S: Store + 'static>(
    run: &SimulationRun<S>,
    state: &StateTable,
    items: &[(&str, Item)],
    generation: u64,
) -> Vec<String> {
    let by_key: BTreeMap<StateKey, (&str, &Item)> =
        items.iter().map(|(table, item)| (item_entry_key(table, item), (*table, item))).collect();
    let kind = |record: &StreamRecord| {
        let (partition, sort) = (&record.partition, record.sort.as_deref());
        let is_counted = item_kind(record.table, partition, sort) != ItemKind::Other;
        (entry_key(record.table, partition, sort), is_counted)
    };
    let counted: BTreeMap<StateKey, bool> = run.streams.records.iter().map(kind).collect();
    let mut problems = Vec::new();
    for (key, entry) in &state.entries {
        let mut wanted = MeasureSums::new();
        let item = by_key.get(key);
        if let Some((table, item)) = item
            && oracle::add(&mut wanted, table, item, generation, &state.remembered).is_err()
        {
            problems.push(format!("{} {} cannot be counted", key.0, key.1));
        }
        if counted.get(key) != Some(&true) && !is_counted_source(key, generation) {
            problems.push(format!("{} {} has an entry, but is not counted", key.0, key.1));
        }
        if entry.has_vanished && counts_each_record(run, key) {
            problems.push(format!("{} {} names a life whose records were all counted", key.0, key.1));
        }
        problems.extend(entry_problems(entry, &wanted, item.is_some(), generation).into_iter().map(
            |problem| {
                let (partition, sort) = key;
                format!("{partition} {sort}: {problem}")
            },
        ));
    }
    problems
}

/// Whether each record of an entry's item is counted. The record of a parked item may never be, and neither may a malformed record that the
/// entry has passed, or a record that became too old.
fn counts_each_record<S: Store + 'static>(run: &SimulationRun<S>, key: &StateKey) -> bool {
    let is_malformed = |record: &StreamRecord| {
        let (partition, sort) = (&record.partition, record.sort.as_deref());
        record.malformed.is_some() && entry_key(record.table, partition, sort) == *key
    };
    !run.coverage.has("record parked")
        && !run.options.time_flies
        && !run.streams.records.iter().any(is_malformed)
}

/// The key of the ledger entry of an item.
fn item_entry_key(table: &str, item: &Item) -> StateKey {
    let (partition, sort) = key_texts(table, item);
    entry_key(table, &partition, sort.as_deref())
}

/// The problems of an entry whose item contributes `wanted`.
fn entry_problems(entry: &StoredEntry, wanted: &MeasureSums, exists: bool, generation: u64) -> Vec<String> {
    let mut problems = Vec::new();
    let stored_sums = unsharded_sums(entry, generation);
    if *wanted != stored_sums {
        problems.push(format!("its item contributes {wanted:?}, its entry has {stored_sums:?}"));
    }
    if entry.is_tombstone && !entry.contributions.is_empty() {
        problems.push("it is a tombstone with contributions".to_owned());
    }
    if entry.is_tombstone == exists {
        problems.push("it is a tombstone of an existing item, or an entry of a deleted one".to_owned());
    }
    problems
}

/// The contributions of an entry by rollup, shards added up. Generation 2 of the model has no aggregate `task_days`.
fn unsharded_sums(entry: &StoredEntry, generation: u64) -> MeasureSums {
    let mut sums = MeasureSums::new();
    let is_known =
        |contribution: &&StoredContribution| generation == 1 || contribution.aggregate != "task_days";
    for contribution in entry.contributions.iter().filter(is_known) {
        let (partition, sort) = &contribution.target;
        let unsharded = partition.split("#SHARD#").next().unwrap_or_default().to_owned();
        for (measure, amount) in &contribution.measures {
            add_amount(&mut sums, ((unsharded.clone(), sort.clone()), measure.clone()), amount);
        }
    }
    sums
}

/// The sums that expiries must have settled, from the streams' records and the observed markers.
fn settled_sums<S: Store + 'static>(
    run: &SimulationRun<S>,
    remembered: &RememberedOutputs,
    problems: &mut Vec<String>,
) -> MeasureSums {
    let mut sums = MeasureSums::new();
    let mut markers = run.watcher.settled.clone();
    for record in run.streams.records.iter().filter(|record| record.is_expiry) {
        let Some(old) = &record.old else { continue };
        if !item_kind(record.table, &record.partition, record.sort.as_deref()).keeps(old) {
            // It has a marker only if it was parked before it could be read. That settles nothing.
            let position = record.position();
            markers.remove(&marker_key(record.table, &record.partition, record.sort.as_deref(), &position));
            continue;
        }
        let (partition, sort) = (&record.partition, record.sort.as_deref());
        let is_counted = |position: &str| {
            let (partition, sort) = entry_key(record.table, partition, sort);
            run.watcher.counted.contains(&(partition, sort, position.to_owned()))
        };
        let key = marker_key(record.table, partition, sort, &record.position());
        match markers.remove(&key) {
            Some(expiry) => {
                // An expiry that the entry had not passed is settled however late it arrives.
                let is_late = expiry.at.epoch_seconds() - record.created_at.epoch_seconds() > 35 * 86_400;
                if is_late && !expiry.was_open {
                    problems.push(format!("{} {} was settled although it was too old", key.0, key.1));
                }
                if oracle::add(&mut sums, record.table, old, expiry.generation, remembered).is_err() {
                    problems.push(format!("{} {} was settled, but cannot be counted", key.0, key.1));
                }
            }
            None => {
                if is_counted(&record.position()) {
                    problems.push(format!("{} {} was subtracted, but never settled", key.0, key.1));
                }
                let age =
                    record.first_counted_at.map(|at| at.epoch_seconds() - record.created_at.epoch_seconds());
                if age.is_none_or(|age| age < TOO_OLD_SECONDS) {
                    problems.push(format!("{} {} was never settled", key.0, key.1));
                }
            }
        }
    }
    problems.extend(markers.keys().map(|key| format!("{} {} is the marker of no expiry", key.0, key.1)));
    sums
}

/// The sums of all items, plus the settled contributions.
fn recount(
    state: &StateTable,
    items: &[(&str, Item)],
    settled: &MeasureSums,
    generation: u64,
) -> Result<MeasureSums, String> {
    let mut wanted = settled.clone();
    for (table, item) in items {
        if let Err(CountError::Poison | CountError::NoOutputs) =
            oracle::add(&mut wanted, table, item, generation, &state.remembered)
        {
            return Err(format!("an item of {table} cannot be counted"));
        }
    }
    Ok(wanted)
}

/// Every rollup is the recount.
fn check_recount(
    state: &StateTable,
    wanted: &MeasureSums,
    settled: &MeasureSums,
    generation: u64,
    now: i64,
) -> Vec<String> {
    let (mut found, mut found_settled) = (MeasureSums::new(), MeasureSums::new());
    for (target, item) in &state.rollups {
        let unsharded = target.0.split("#SHARD#").next().unwrap_or_default().to_owned();
        for measure in sums_of(item) {
            let key = ((unsharded.clone(), target.1.clone()), measure.to_owned());
            let settled = stored(item, &format!("settled_{measure}")).unwrap_or_default();
            add_amount(&mut found_settled, key.clone(), &settled);
            add_amount(&mut found, key, &stored(item, measure).unwrap_or_default());
        }
        if expires_at(target).is_some_and(|at| at < now - UNCHECKED_SECONDS) {
            return vec![format!("{} {} was written after its expiry", target.0, target.1)];
        }
    }
    // The contributions to the removed aggregate are kept until they are dropped; the check of the ledger covers them.
    let is_checked = |((_, measure), _): &(&(RollupKey, String), &ExactNumber)| {
        generation == 1 || measure != "tasks_of_day"
    };
    let checked = |sums: &MeasureSums| -> MeasureSums {
        sums.iter().filter(is_checked).map(|(key, amount)| (key.clone(), amount.clone())).collect()
    };
    let mut problems = differences("the recount", &checked(wanted), "the rollup", &checked(&found), now);
    problems.extend(differences("the expiries", settled, "the rollup's settled part", &found_settled, now));
    problems
}

/// The rollups of shops.
fn shops(state: &StateTable) -> impl Iterator<Item = (&RollupKey, &Item)> {
    state
        .rollups
        .iter()
        .filter(|((partition, sort), _)| partition.starts_with("SHOP#") && sort == "ROLLUP#VISITS")
}

fn check_averages(state: &StateTable) -> Vec<String> {
    shops(state)
        .filter_map(|(target, item)| {
            let of = |measure| state.number(target, measure);
            let (wanted, found) =
                (oracle::average(&of("score_sum"), &of("visits")), stored(item, "score_average"));
            (wanted != found).then(|| format!("{}: the average is {found:?}, not {wanted:?}", target.0))
        })
        .collect()
}

fn check_medians(state: &StateTable) -> Vec<String> {
    shops(state)
        .filter_map(|(target, item)| {
            let (wanted, found) = (median(|bin| state.number(target, bin)), stored(item, "score_median"));
            (wanted != found).then(|| format!("{}: the median is {found:?}, not {wanted:?}", target.0))
        })
        .collect()
}
