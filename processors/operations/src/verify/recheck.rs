//! Findings judged again: differences that a person, or `repair`, wants to be sure of.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use afterwrite_ledger::tables::{ScanRequest, TableScan, Tables};
use afterwrite_model::Result;
use afterwrite_model::clock::Clock;
use afterwrite_model::projection::RollupTargets;
use afterwrite_model::record::{Item, Timestamp};
use afterwrite_model::table::Model;

use super::finding::{FindingPlace, VerifyFinding, check_generation};
use super::items::ItemJudge;
use super::place::RollupPlace;
use super::state::VerifyState;
use super::sums::{LedgerSums, RollupSum, SumVerdict, add_entry, entry_of, judge, note_revision};
use super::suspects::{Tolerance, judge_first, judge_suspects};
use super::undecided::{UndecidedCause, UndecidedReason};
use crate::DeploymentContext;
use crate::items::owned_key;

/// The pause between reading rollups and reading the ledger: see [`super::sums`].
pub(crate) const SETTLE: Duration = Duration::from_secs(2);

/// A pause before the first of several steps: all of them begin [`SETTLE`] after it was reached first, or later.
#[derive(Debug, Default)]
pub(crate) struct SettlePause(Mutex<Option<Timestamp>>);

impl SettlePause {
    /// Waits until the pause is over.
    pub(crate) async fn wait(&self, clock: &impl Clock) {
        let now = clock.now();
        let ends_at = *self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(now.plus(SETTLE));
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
pub async fn recheck_findings<T: Tables + TableScan + Clone, C: Clock + Clone>(
    context: &DeploymentContext<T, C>,
    tolerance: impl Into<Tolerance>,
    findings: &[VerifyFinding],
) -> Result<Vec<VerifyFinding>> {
    let DeploymentContext { model, clock, .. } = context;
    check_generation(model, findings)?;
    let places: BTreeSet<RollupPlace> = findings.iter().filter_map(|finding| finding.rollup(model)).collect();
    let mut results = VerifyState::default();
    if !places.is_empty() {
        for reading in read_sums(context, &places).await? {
            let sum = (&reading.sum, reading.unreadable_entries);
            match judge(model, &reading.place, sum, reading.item.as_ref(), clock.now()) {
                SumVerdict::Confirmed | SumVerdict::Expired => {}
                SumVerdict::Differs(finding) | SumVerdict::Changed(finding) => results.find(finding),
            }
        }
    }
    results.findings.extend(undecidable(model, findings));
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
    let judge = ItemJudge::new(context);
    let sources: Vec<_> = sources.into_iter().collect();
    let mut suspects = judge_first(&judge, &sources, clock.now()).await?.suspects;
    let tolerance = tolerance.into();
    while !suspects.is_empty() {
        (suspects, _) = judge_suspects(&judge, clock, suspects, &tolerance, &mut results).await?;
    }
    Ok(results.findings.into_iter().map(|finding| finding.of_model(model)).collect())
}

/// The findings that cannot be judged again by themselves.
fn undecidable<'f>(
    model: &'f Model,
    findings: &'f [VerifyFinding],
) -> impl Iterator<Item = VerifyFinding> + 'f {
    findings.iter().filter_map(move |finding| {
        let cause = match finding.place {
            FindingPlace::ThreeWay => UndecidedCause::new(
                UndecidedReason::NotComparable,
                "compare again with `afterwrite verify --three-way`",
            ),
            FindingPlace::Dataset => return None,
            FindingPlace::Ledger
            | FindingPlace::UnreadableEntry
            | FindingPlace::Rollup
            | FindingPlace::Extreme
            | FindingPlace::Mirror => {
                let is_known = finding.rollup(model).is_some() || finding.source(model).is_some();
                if is_known {
                    return None;
                }
                UndecidedCause::new(UndecidedReason::Foreign, "no entity or rollup of the model has this key")
            }
        };
        Some(finding.clone().undecided(cause))
    })
}
