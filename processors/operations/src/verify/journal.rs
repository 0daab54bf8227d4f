//! The findings of a verification so far, as its journal keeps them; and the units that a resumed job repeats.

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite::entity::SourceKey;
use afterwrite::record::Timestamp;
use serde::{Deserialize, Serialize};

use super::datasets::RowCandidate;
use super::finding::FindingPlace;
use super::place::RollupPlace;
use super::state::{SuspectItem, VerifyState};
use crate::jobs::AcquiredJob;

/// The suspects or candidates of one entry.
pub(crate) const ENTRY_ITEMS: usize = 500;

/// An entry of the journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum VerifyEntry {
    /// Items that are judged again.
    Items(Vec<StoredSuspect>),
    /// Entities of which an item was found right.
    Decided(Vec<String>),
    /// All rollups that are judged again begin here: earlier ones are void.
    FirstRollups,
    /// Rollups that are judged again.
    Rollups(Vec<RollupPlace>),
    /// All candidates of datasets begin here: earlier ones are void.
    FirstRows,
    /// Candidates of datasets.
    Rows(Vec<RowCandidate>),
}

/// A suspect as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredSuspect {
    table: usize,
    partition: String,
    sort: Option<String>,
    place: FindingPlace,
    rev: Option<String>,
    seen_at_ms: i64,
}

impl From<&SuspectItem> for StoredSuspect {
    fn from(suspect: &SuspectItem) -> Self {
        Self {
            table: suspect.source.table,
            partition: suspect.source.partition.to_string(),
            sort: suspect.source.sort.as_deref().map(str::to_owned),
            place: suspect.place,
            rev: suspect.rev.clone(),
            seen_at_ms: suspect.seen_at.epoch_ms(),
        }
    }
}

impl From<StoredSuspect> for SuspectItem {
    fn from(stored: StoredSuspect) -> Self {
        Self {
            source: SourceKey {
                table: stored.table,
                partition: stored.partition.into(),
                sort: stored.sort.map(Into::into),
            },
            place: stored.place,
            rev: stored.rev,
            seen_at: Timestamp::from_epoch_ms(stored.seen_at_ms),
            rounds: 0,
        }
    }
}

/// The state of a verification by its journal, without the candidates of datasets.
pub(super) fn restored_state(entries: &[VerifyEntry]) -> VerifyState {
    let mut state = VerifyState::default();
    let mut known: BTreeSet<SourceKey<'static>> = BTreeSet::new();
    for entry in entries {
        match entry {
            VerifyEntry::Items(suspects) => {
                let suspects = suspects.iter().cloned().map(SuspectItem::from);
                state.suspects.extend(suspects.filter(|suspect| known.insert(suspect.source.clone())));
            }
            VerifyEntry::Decided(entities) => {
                state.decided_entities.extend(entities.iter().map(|name| Arc::from(name.as_str())));
            }
            VerifyEntry::FirstRollups => state.suspect_rollups.clear(),
            VerifyEntry::Rollups(places) => state.suspect_rollups.extend(places.iter().cloned()),
            VerifyEntry::FirstRows | VerifyEntry::Rows(_) => {}
        }
    }
    state
}

/// The candidates of datasets by a journal.
pub(crate) fn restored_rows(entries: &[VerifyEntry]) -> Vec<RowCandidate> {
    let mut rows = Vec::new();
    for entry in entries {
        match entry {
            VerifyEntry::FirstRows => rows.clear(),
            VerifyEntry::Rows(candidates) => rows.extend(candidates.iter().cloned()),
            VerifyEntry::Items(_)
            | VerifyEntry::Decided(_)
            | VerifyEntry::FirstRollups
            | VerifyEntry::Rollups(_) => {}
        }
    }
    rows
}

/// Phases whose results are kept together: all of them are repeated unless the last one is done.
struct KeptPhases {
    phases: std::ops::RangeInclusive<u32>,
    /// The totals that these phases add.
    totals: &'static [&'static str],
    /// Whether nothing of them is kept, although they are done.
    is_volatile: bool,
}

const KEPT: [KeptPhases; 4] = [
    // Sums of the ledger are in memory.
    KeptPhases {
        phases: 0..=2,
        totals: &["rollups", "rollups_confirmed", "rollups_expired"],
        is_volatile: false,
    },
    // Findings are in memory; suspects are in the journal.
    KeptPhases {
        phases: 5..=7,
        totals: &[
            "items_rechecked",
            "mirrors_rechecked",
            "extremes_rechecked",
            "rollups_rechecked",
            "three_way",
            "three_way_decided",
        ],
        is_volatile: true,
    },
    // Digests are in temporary files.
    KeptPhases {
        phases: 8..=10,
        totals: &["dataset_rows", "dataset_keys", "dataset_keys_confirmed", "dataset_keys_unjudged"],
        is_volatile: false,
    },
    KeptPhases { phases: 11..=11, totals: &["dataset_keys_rechecked"], is_volatile: true },
];
/// The totals of phases 3 and 4, whose steps are kept one by one.
const ITEM_TOTALS: [&str; 8] = [
    "items",
    "items_confirmed",
    "items_read",
    "hashed_entries",
    "mirrors",
    "mirrors_judged",
    "extremes",
    "extremes_judged",
];

/// Sets back the units of a resumed job whose results were lost with its last process. A three-way comparison begins again: its counts
/// are in memory.
pub(super) fn set_back_units(job: &mut AcquiredJob, is_three_way: bool) {
    let AcquiredJob { state, units } = job;
    for KeptPhases { phases, totals, is_volatile } in KEPT {
        let is_done = units.iter().filter(|unit| unit.phase == *phases.end()).all(|unit| unit.is_done);
        if !is_done || is_volatile || (is_three_way && *phases.start() == 0) {
            units.set_back(&phases);
            units.forget_totals(totals);
        }
    }
    if is_three_way {
        units.set_back(&(3..=4));
        units.forget_totals(&ITEM_TOTALS);
    }
    (state.work, state.totals) = (units.summary(), units.totals());
}
