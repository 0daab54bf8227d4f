//! The findings of a verification so far, as its journal keeps them; and the units that a resumed job repeats.

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite_model::entity::SourceKey;
use afterwrite_model::record::Timestamp;
use serde::{Deserialize, Serialize};

use super::datasets::RowCandidate;
use super::finding::FindingPlace;
use super::place::RollupPlace;
use super::state::{SuspectItem, VerifyState};
use super::unjudged::FOREIGN_ENTRIES;
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
}

impl From<&SuspectItem> for StoredSuspect {
    fn from(suspect: &SuspectItem) -> Self {
        Self {
            table: suspect.source.table,
            partition: suspect.source.partition.to_string(),
            sort: suspect.source.sort.as_deref().map(str::to_owned),
            place: suspect.place,
            rev: suspect.rev.clone(),
        }
    }
}

impl StoredSuspect {
    /// The suspect in a process that has read the journal at this time. The tolerance begins again: the clock of the machine that has seen the
    /// suspect may differ from this one by minutes.
    fn restored(self, now: Timestamp) -> SuspectItem {
        SuspectItem {
            source: SourceKey {
                table: self.table,
                partition: self.partition.into(),
                sort: self.sort.map(Into::into),
            },
            place: self.place,
            rev: self.rev,
            seen_at: now,
            rounds: 0,
        }
    }
}

/// The state of a verification by its journal, without the candidates of datasets.
pub(super) fn restored_state(entries: &[VerifyEntry], now: Timestamp) -> VerifyState {
    let mut state = VerifyState::default();
    let mut known: BTreeSet<SourceKey<'static>> = BTreeSet::new();
    for entry in entries {
        match entry {
            VerifyEntry::Items(suspects) => {
                let suspects = suspects.iter().cloned().map(|suspect| suspect.restored(now));
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
const ITEM_TOTALS: [&str; 9] = [
    "items",
    "items_confirmed",
    "items_read",
    "hashed_entries",
    FOREIGN_ENTRIES,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a7_the_tolerance_of_a_restored_suspect_goes_by_the_clock_of_its_process() {
        let seen = Timestamp::from_epoch_seconds(1_770_400_000);
        let suspect = SuspectItem {
            source: SourceKey { table: 0, partition: "ORDER#1".into(), sort: None },
            place: FindingPlace::Ledger,
            rev: Some("7".to_owned()),
            seen_at: seen,
            rounds: 0,
        };
        let entries = [VerifyEntry::Items(vec![StoredSuspect::from(&suspect)])];
        // The clocks of other machines are ahead, and behind.
        for now in
            [Timestamp::from_epoch_seconds(1_770_400_600), Timestamp::from_epoch_seconds(1_770_399_400)]
        {
            let restored = restored_state(&entries, now).suspects;
            assert_eq!(restored.len(), 1);
            assert_eq!((restored[0].seen_at, restored[0].rev.as_deref()), (now, Some("7")));
        }
    }
}
