//! Findings judged again: differences that a person, or `repair`, wants to be sure of.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use afterwrite::Result;
use afterwrite::clock::Clock;
use afterwrite::commit::StateItems;
use afterwrite::projection::RollupTargets;
use afterwrite::record::Item;
use afterwrite::sink::{ScanRequest, TableScan, Tables};
use afterwrite::table::Model;

use super::finding::{FindingPlace, VerifyFinding};
use super::items::ItemJudge;
use super::place::RollupPlace;
use super::state::{SuspectItem, VerifyState};
use super::sums::{LedgerSums, RollupSum, SumVerdict, add_entry, entry_of, judge, note_revision};
use super::suspects::{judge_first, judge_suspects};
use crate::items::owned_key;
use crate::projector::ItemProjector;

/// The pause between reading rollups and reading the ledger: see [`super::sums`].
pub(crate) const SETTLE: Duration = Duration::from_secs(2);

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
    tables: &T,
    state: &StateItems,
    (model, state_table): (&Arc<Model>, &Arc<str>),
    clock: &impl Clock,
    places: &BTreeSet<RollupPlace>,
) -> Result<Vec<RollupReading>> {
    let keys: Vec<_> = places.iter().map(|(partition, sort)| state.key(partition, sort)).collect();
    let mut sums = LedgerSums::default();
    for (place, item) in places.iter().zip(tables.read(&keys).await?.items) {
        note_revision(&mut sums, place.clone(), &item.unwrap_or_default());
    }
    clock.sleep(SETTLE).await;
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
    clock.sleep(SETTLE).await;
    let items = tables.read(&keys).await?.items;
    let readings = places.iter().zip(items).map(|(place, item)| {
        let sum = sums.rollups.get(place).cloned().unwrap_or_default();
        RollupReading { place: place.clone(), sum, unreadable_entries: sums.unreadable_entries, item }
    });
    Ok(readings.collect())
}

/// Judges findings again: returns those that are still drift or cannot be decided, as they are now. Findings about datasets are
/// ignored; see [`super::recheck_rows`].
///
/// # Errors
/// As [`Tables::read`].
pub async fn recheck_findings<T: Tables + TableScan + Clone>(
    model: &Arc<Model>,
    table_names: &[Arc<str>],
    state_table: &Arc<str>,
    tables: T,
    clock: &impl Clock,
    tolerance: Duration,
    findings: &[VerifyFinding],
) -> Result<Vec<VerifyFinding>> {
    let state = StateItems::new(Arc::clone(model), table_names.to_vec(), Arc::clone(state_table));
    let places: BTreeSet<RollupPlace> = findings.iter().filter_map(|finding| finding.rollup(model)).collect();
    let mut results = VerifyState::default();
    if !places.is_empty() {
        for reading in read_sums(&tables, &state, (model, state_table), clock, &places).await? {
            let sum = (&reading.sum, reading.unreadable_entries);
            match judge(model, &reading.place, sum, reading.item.as_ref(), clock.now()) {
                SumVerdict::Confirmed | SumVerdict::Expired => {}
                SumVerdict::Differs(finding) | SumVerdict::Changed(finding) => results.find(finding),
            }
        }
    }
    let of_application = findings.iter().filter(|finding| finding.place == FindingPlace::ThreeWay);
    results.findings.extend(
        of_application
            .map(|finding| finding.clone().undecided("compare again with `afterwrite verify --three-way`")),
    );
    let is_foreign = |finding: &&VerifyFinding| {
        let has_place = finding.rollup(model).is_some() || finding.source(model).is_some();
        !has_place && finding.place != FindingPlace::Dataset && finding.place != FindingPlace::ThreeWay
    };
    let of_others = findings.iter().filter(is_foreign);
    results.findings.extend(
        of_others.map(|finding| finding.clone().undecided("no entity or rollup of the model has this key")),
    );
    let is_judged = |finding: &&VerifyFinding| match finding.place {
        FindingPlace::Ledger
        | FindingPlace::UnreadableEntry
        | FindingPlace::Rollup
        | FindingPlace::Extreme
        | FindingPlace::Mirror => true,
        FindingPlace::ThreeWay | FindingPlace::Dataset => false,
    };
    let findings: Vec<_> = findings.iter().filter(is_judged).collect();
    let sources: BTreeSet<_> = findings
        .iter()
        .filter_map(|finding| finding.source(model))
        .map(|source| owned_key(&source))
        .collect();
    let projector = ItemProjector::new(Arc::clone(model), Arc::clone(state_table), tables.clone());
    let judge = ItemJudge { model: Arc::clone(model), tables, state, projector };
    let sources: Vec<_> = sources.into_iter().collect();
    let (_, mut suspects): (u64, Vec<SuspectItem>) = judge_first(&judge, &sources, clock.now()).await?;
    while !suspects.is_empty() {
        (suspects, _) = judge_suspects(&judge, clock, suspects, tolerance, &mut results).await?;
    }
    Ok(results.findings)
}
