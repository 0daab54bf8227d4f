//! Σ ledger + settled = rollup.
//!
//! ```text
//! 1. revisions   the `rev` of each rollup
//! 2. ledger      every entry, strongly consistent: the sum of what is counted, by rollup
//! 3. rollups     read again; a rollup is judged only if its `rev` is that of step 1
//! ```
//!
//! A rollup's `rev` grows with every transaction that touches it, and each transaction writes the entry in the same step. So between
//! equal revisions neither the rollup nor any entry's contribution to it has changed, and the sum must be exact. Reads of several
//! items may see one part of a transaction a moment before the other: the steps are separated by a pause.
//!
//! Memory: one sum for each rollup that is judged, about 300 bytes. `--sample` and `--only` limit them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use afterwrite_ledger::state::{EXPIRES_AT, REV, SETTLED, settled_name};
use afterwrite_ledger::tables::{ScanRequest, TableScan, Tables};
use afterwrite_ledger::{StateItem, StateItems};
use afterwrite_model::clock::Clock;
use afterwrite_model::projection::RollupTargets;
use afterwrite_model::record::{AttributeValue, Decimal, Item, Timestamp};
use afterwrite_model::table::{
    Aggregate, ComputedMeasure, ComputedValue, Measure, Model, OnExpiry, RankGroup, RollupDestination,
};
use afterwrite_model::{ErrorKind, Result};

use super::finding::{
    ExpectedValue, FindingSubject, RollupPlace, UndecidedCause, UndecidedReason, VerifyFinding,
};
use crate::DeploymentContext;

/// The rollups that are read at once.
const READ_ROLLUPS: usize = 500;

/// The knowledge of one rollup.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RollupSum {
    /// Its revision before the ledger was read; `None` if it did not exist.
    pub(crate) rev: Option<Decimal>,
    /// The sums of the ledger. On the way to a sum of at most 38 digits, a part of it can have more.
    pub(crate) measures: BTreeMap<Arc<str>, Decimal>,
    /// When it expires, by the entries.
    pub(crate) expires_at: Option<Timestamp>,
}

/// The sums of a ledger.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LedgerSums {
    /// By rollup.
    pub(crate) rollups: BTreeMap<RollupPlace, RollupSum>,
    /// Entries that cannot be read. Nothing but the rollups has what they counted.
    pub(crate) unreadable_entries: u64,
}

/// The judgement of one rollup.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SumVerdict {
    /// It equals the sum.
    Confirmed,
    /// It differs, at an unchanged revision.
    Differs(VerifyFinding),
    /// It changed while the ledger was read, the ledger cannot be read completely, or nothing shows whether one of its values is right.
    Undecided(VerifyFinding),
    /// It has expired, so that additions to it are dropped.
    Expired,
}

/// Notes the revision of a rollup.
pub(crate) fn note_revision(sums: &mut LedgerSums, place: RollupPlace, item: &Item) {
    sums.rollups.entry(place).or_default().rev = item.get(REV).and_then(AttributeValue::as_number).cloned();
}

/// Adds an entry to the sums of the rollups that `is_wanted` selects.
pub(crate) fn add_entry(
    state: &StateItems,
    item: &Item,
    targets: &mut RollupTargets,
    sums: &mut LedgerSums,
    is_wanted: impl Fn(&RollupPlace) -> bool,
) -> Result<()> {
    let entry = match state.decode_entry(item, targets) {
        Ok(entry) => entry,
        Err(error) if error.kind() == ErrorKind::Unreadable => {
            sums.unreadable_entries += 1;
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    for contribution in &entry.contributions.by_aggregate {
        for id in &contribution.targets {
            let target = targets.get(*id);
            let place = (target.partition_key(), target.sort.to_string());
            if !is_wanted(&place) {
                continue;
            }
            let sum = sums.rollups.entry(place).or_default();
            sum.expires_at = sum.expires_at.max(target.expires_at);
            for (measure, number) in &contribution.measures {
                let known = sum.measures.entry(Arc::clone(measure)).or_insert(Decimal::ZERO);
                *known = known.plus_unlimited(number);
            }
        }
    }
    Ok(())
}

/// The item of the state table, if it is an entry.
pub(crate) fn entry_of<'i>(state: &StateItems, item: &'i Item) -> Option<&'i Item> {
    match state.classify(item) {
        StateItem::Entry(_, entry) => Some(entry),
        StateItem::Rollup(..) | StateItem::ParkedExpiry | StateItem::Other => None,
    }
}

/// The pause between reading rollups and reading the ledger: see the head of this file.
pub(crate) const READ_PAUSE: Duration = Duration::from_secs(2);

/// A pause before the first of several steps: all of them begin [`READ_PAUSE`] after it was reached first, or later.
#[derive(Debug, Default)]
pub(crate) struct FirstPause(Mutex<Option<Timestamp>>);

impl FirstPause {
    /// Waits until the pause is over.
    pub(crate) async fn wait(&self, clock: &impl Clock) {
        let now = clock.now();
        let ends_at =
            *self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(now.plus(READ_PAUSE));
        clock.sleep(ends_at.since(now)).await;
    }
}

/// A rollup that was read after the ledger.
#[derive(Clone, Debug)]
pub(crate) struct RollupReading {
    pub(crate) place: RollupPlace,
    pub(crate) sum: RollupSum,
    /// The entries of the ledger that could not be read.
    pub(crate) unreadable_entries: u64,
    pub(crate) item: Option<Item>,
}

/// Reads some rollups, the whole ledger, and the rollups again.
pub(crate) async fn read_sums<T: Tables + TableScan>(
    context: &DeploymentContext<T, impl Clock>,
    places: &BTreeSet<RollupPlace>,
) -> Result<Vec<RollupReading>> {
    let DeploymentContext { model, state_table, tables, clock, .. } = context;
    let state = &context.state_items();
    let keys: Vec<_> = places.iter().map(|(partition, sort)| state.key(partition, sort)).collect();
    let mut sums = LedgerSums::default();
    for (place, item) in places.iter().zip(tables.read(&keys).await?.items) {
        note_revision(&mut sums, place.clone(), &item.unwrap_or_default());
    }
    clock.sleep(READ_PAUSE).await;
    let mut request = ScanRequest { is_consistent: true, ..ScanRequest::whole(Arc::clone(state_table)) };
    loop {
        let page = tables.scan(&request).await?;
        let mut targets = RollupTargets::of(model);
        for item in page.items.iter().filter_map(|item| entry_of(state, item)) {
            add_entry(state, item, &mut targets, &mut sums, |place| places.contains(place))?;
        }
        match page.next {
            Some(next) => request.start_after = Some(next),
            None => break,
        }
    }
    clock.sleep(READ_PAUSE).await;
    let items = tables.read(&keys).await?.items;
    let readings = places.iter().zip(items).map(|(place, item)| {
        let sum = sums.rollups.get(place).cloned().unwrap_or_default();
        RollupReading { place: place.clone(), sum, unreadable_entries: sums.unreadable_entries, item }
    });
    Ok(readings.collect())
}

fn unreadable_ledger(unreadable_entries: u64) -> UndecidedCause {
    let cause = format!(
        "{unreadable_entries} ledger entries cannot be read, and it is unknown which rollups contain what they counted"
    );
    UndecidedCause::new(UndecidedReason::UnreadableLedger, cause)
}

/// Judges a rollup as it is after the ledger was read. Of the ledger, `unreadable_entries` could not be read.
pub(crate) fn judge(
    model: &Model,
    place: &RollupPlace,
    (sum, unreadable_entries): (&RollupSum, u64),
    rollup: Option<&Item>,
    now: Timestamp,
) -> SumVerdict {
    let number = |name: &str| rollup.and_then(|item| item.get(name)).and_then(AttributeValue::as_number);
    let stored_expiry = number(EXPIRES_AT).and_then(Decimal::to_i64).map(Timestamp::from_epoch_seconds);
    let stored_expiry = stored_expiry.filter(|_| !is_permanent(model, place, sum));
    if sum.expires_at.max(stored_expiry).is_some_and(|at| at <= now.plus(StateItems::CLOCK_TOLERANCE)) {
        return SumVerdict::Expired;
    }
    let mut finding = VerifyFinding::of(FindingSubject::Rollup(place.clone()));
    finding.rev = number(REV).map(ToString::to_string);
    if number(REV) != sum.rev.as_ref() {
        return SumVerdict::Undecided(
            finding.undecided(UndecidedCause::changed("the rollup changed while the ledger was read")),
        );
    }
    let expected = expected_values(model, place, sum, rollup);
    for (name, expected) in &expected {
        let (expected, found) = (expected.as_ref(), rollup.and_then(|item| item.get(name.as_str())));
        let is_zero = |value: Option<&AttributeValue<'_>>| {
            value.is_none_or(|value| value.as_number().is_some_and(Decimal::is_zero))
        };
        let is_equal =
            found == expected || (is_zero(found) && is_zero(expected) && !is_computed(model, place, name));
        if !is_equal {
            let value = ExpectedValue { expected: expected.map(text_of), found: found.map(text_of) };
            finding.values.insert(name.clone(), value);
        }
    }
    if finding.values.is_empty() {
        let unseen = unseen_value(model, place, rollup);
        return unseen.map_or(SumVerdict::Confirmed, |cause| SumVerdict::Undecided(finding.undecided(cause)));
    }
    if unreadable_entries > 0 {
        return SumVerdict::Undecided(finding.undecided(unreadable_ledger(unreadable_entries)));
    }
    finding.cause = settled_cause(model, place, rollup, finding.values.keys()).map(str::to_owned);
    SumVerdict::Differs(finding)
}

/// The cause of a `latest` that has a value, and nothing that was seen: no item may have it any more, and then nothing can show whether it is right.
fn unseen_value(model: &Model, place: &RollupPlace, rollup: Option<&Item>) -> Option<UndecidedCause> {
    let stored = |name: &Arc<str>| rollup?.get(name.as_ref());
    let unseen =
        computed_measures(model, place).find_map(|computed| match computed.value(|_| None, stored) {
            ComputedValue::Unseen(seen) if stored(&computed.name).is_some() => Some((&computed.name, seen)),
            ComputedValue::Unseen(_) | ComputedValue::Present(_) | ComputedValue::Absent => None,
        });
    let (name, seen) = unseen?;
    let text = format!(
        "`{name}` has a value, and `{seen}`, which shows of which item it is, does not exist: `afterwrite backfill --all` writes both again if an item has the value. If no item has it, remove `{name}` from the rollup, or wait for the next item with a value"
    );
    Some(UndecidedCause::new(UndecidedReason::UnseenValue, text))
}

/// The step before a repair of these measures, if TTL may have settled a part of them: no entry has that part.
fn settled_cause<'v>(
    model: &Model,
    place: &RollupPlace,
    rollup: Option<&Item>,
    mut measures: impl Iterator<Item = &'v String>,
) -> Option<&'static str> {
    let Some(rollup) = rollup else {
        return may_be_settled(model, place).then_some(
            "the rollup does not exist. What TTL settled on it is in no ledger entry: if items of it expired, follow \"expiries-too-old\" in docs/RUNBOOK.md in place of a repair",
        );
    };
    let settled = |name: &String| rollup.get(settled_name(name).as_str())?.as_number();
    let is_settled = |name: &String| settled(name).is_some_and(|part| *part != Decimal::ZERO);
    measures.any(is_settled).then_some(
        "the settled part cannot be recomputed and is taken as right: compare it with an older copy of the rollup before a repair",
    )
}

/// Whether a rollup never expires: neither by the model nor by its entries. An `expires_at` of it is of an earlier model, or of another
/// program, and DynamoDB would delete the rollup.
fn is_permanent(model: &Model, place: &RollupPlace, sum: &RollupSum) -> bool {
    let mut rollups = model.rollups.iter().filter(|rollup| rollup.has_stored_key(&place.0, &place.1));
    sum.expires_at.is_none() && rollups.all(|rollup| rollup.lifetime.is_none())
}

/// Whether items that are counted into a rollup stay counted when TTL deletes them.
pub(crate) fn may_be_settled(model: &Model, place: &RollupPlace) -> bool {
    let mut entities = aggregates_of(model, place).filter_map(|aggregate| model.entities.get(aggregate.of));
    entities.any(|entity| entity.on_expiry == OnExpiry::Keep && entity.ttl.is_some())
}

/// The values that a rollup must have, `None` for an attribute that must be absent.
pub(crate) fn expected_values(
    model: &Model,
    place: &RollupPlace,
    sum: &RollupSum,
    rollup: Option<&Item>,
) -> BTreeMap<String, Option<AttributeValue<'static>>> {
    let number = |name: &str| rollup.and_then(|item| item.get(name)).and_then(AttributeValue::as_number);
    let settled = rollup.into_iter().flatten().filter_map(|(name, _)| name.strip_prefix(SETTLED));
    let mut names: Vec<String> = sum.measures.keys().map(ToString::to_string).collect();
    names.extend(settled.map(str::to_owned));
    names.extend(summed_names(model, place).filter(|name| number(name).is_some()).map(ToString::to_string));
    let mut totals: BTreeMap<String, Decimal> = BTreeMap::new();
    for name in names {
        let counted = sum.measures.get(name.as_str()).unwrap_or(&Decimal::ZERO);
        let settled = number(&settled_name(&name)).cloned().unwrap_or(Decimal::ZERO);
        // A total that no rollup can have is not judged.
        let total = counted.plus_unlimited(&settled);
        if total.is_storable() {
            totals.insert(name, total);
        }
    }
    let mut expected: BTreeMap<String, Option<AttributeValue<'static>>> =
        totals.iter().map(|(name, total)| (name.clone(), Some(total.clone().into()))).collect();
    for computed in computed_measures(model, place) {
        let total = |name: &Arc<str>| Some(totals.get(&**name).cloned().unwrap_or(Decimal::ZERO));
        let seen = |name: &Arc<str>| rollup?.get(name.as_ref());
        match computed.value(total, seen) {
            ComputedValue::Present(value) => expected.insert(computed.name.to_string(), Some(value)),
            ComputedValue::Absent => expected.insert(computed.name.to_string(), None),
            // The measure is right if an item has it, which the judgement of the items shows.
            ComputedValue::Unseen(seen) => expected.insert(seen.to_string(), None),
        };
    }
    if is_permanent(model, place, sum) {
        expected.insert(EXPIRES_AT.to_owned(), None);
    }
    // A rollup that does not exist equals one whose measures are 0.
    if rollup.is_some() || totals.values().any(|total| !total.is_zero()) {
        let groups = model.rank_groups(&place.0, &place.1).into_iter().filter(RankGroup::is_valid);
        expected.extend(
            groups.map(|group| (group.attribute.to_string(), Some(AttributeValue::text(group.name)))),
        );
    }
    expected
}

/// A value as it is shown.
pub(crate) fn text_of(value: &AttributeValue<'_>) -> String {
    match (value.as_number(), value.as_text()) {
        (Some(number), _) => number.to_string(),
        (None, Some(text)) => text.to_owned(),
        (None, None) => value.type_name().to_owned(),
    }
}

/// The averages and percentiles of a rollup.
fn computed_measures<'m>(model: &'m Model, place: &RollupPlace) -> impl Iterator<Item = &'m ComputedMeasure> {
    let rollups = model.rollups.iter().filter(|rollup| rollup.has_key(&place.0, &place.1));
    rollups.flat_map(|rollup| &rollup.computed)
}

fn is_computed(model: &Model, place: &RollupPlace, name: &str) -> bool {
    computed_measures(model, place).any(|computed| *computed.name == *name)
}

/// The aggregates that count into a rollup.
fn aggregates_of<'m>(model: &'m Model, place: &RollupPlace) -> impl Iterator<Item = &'m Aggregate> {
    let has_key = |destination: &RollupDestination| {
        let rollup = model.rollups.get(destination.rollup);
        rollup.is_some_and(|rollup| rollup.has_stored_key(&place.0, &place.1))
    };
    model.aggregates.iter().filter(move |aggregate| aggregate.into.iter().any(has_key))
}

/// The attributes of a rollup that the model sums. An attribute that neither the model nor an entry names is of an earlier model: an
/// extreme or an average may have any value.
fn summed_names<'m>(model: &'m Model, place: &RollupPlace) -> impl Iterator<Item = &'m Arc<str>> {
    let measures = aggregates_of(model, place).flat_map(|aggregate| &aggregate.measures);
    measures.filter(|measure| measure.kind.function().is_additive()).flat_map(Measure::attributes)
}

/// A comparison of rollups with sums of the ledger.
#[derive(Debug, Default)]
pub(crate) struct JudgedRollups {
    pub(crate) confirmed: u64,
    pub(crate) expired: u64,
    /// Rollups that differ, or cannot be decided.
    pub(crate) differing: Vec<(RollupPlace, VerifyFinding)>,
}

/// Compares sums of the ledger with the rollups as they are now.
pub(crate) async fn judge_sums<T: Tables, C: Clock>(
    context: &DeploymentContext<T, C>,
    sums: &LedgerSums,
) -> Result<JudgedRollups> {
    let state = context.state_items();
    let mut judged = JudgedRollups::default();
    let places: Vec<_> = sums.rollups.iter().collect();
    for places in places.chunks(READ_ROLLUPS) {
        let keys: Vec<_> = places.iter().map(|((partition, sort), _)| state.key(partition, sort)).collect();
        let items = context.tables.read(&keys).await?.items;
        for ((place, sum), item) in places.iter().zip(items) {
            let sum = (*sum, sums.unreadable_entries);
            match judge(&context.model, place, sum, item.as_ref(), context.clock.now()) {
                SumVerdict::Confirmed => judged.confirmed += 1,
                SumVerdict::Expired => judged.expired += 1,
                SumVerdict::Differs(finding) | SumVerdict::Undecided(finding) => {
                    judged.differing.push(((*place).clone(), finding));
                }
            }
        }
    }
    Ok(judged)
}
