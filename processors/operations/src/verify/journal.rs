//! The suspects of a verification so far, as its journal keeps them.

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite_model::entity::SourceKey;
use afterwrite_model::record::Timestamp;
use serde::{Deserialize, Serialize};

use super::datasets::RowCandidate;
use super::finding::{FindingPlace, RollupPlace};
use super::suspects::SuspectItem;

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
            awaits_records: true,
        }
    }
}

/// The suspects in a journal, without the candidates of datasets.
#[derive(Debug, Default)]
pub(super) struct RestoredSuspects {
    pub(super) items: Vec<SuspectItem>,
    pub(super) rollups: BTreeSet<RollupPlace>,
    /// Entities of which an item was found right.
    pub(super) decided_entities: BTreeSet<Arc<str>>,
}

/// The suspects in a journal that is read at this time.
pub(super) fn restored_suspects(entries: &[VerifyEntry], now: Timestamp) -> RestoredSuspects {
    let mut restored = RestoredSuspects::default();
    let mut known: BTreeSet<SourceKey<'static>> = BTreeSet::new();
    for entry in entries {
        match entry {
            VerifyEntry::Items(suspects) => {
                let suspects = suspects.iter().cloned().map(|suspect| suspect.restored(now));
                restored.items.extend(suspects.filter(|suspect| known.insert(suspect.source.clone())));
            }
            VerifyEntry::Decided(entities) => {
                restored.decided_entities.extend(entities.iter().map(|name| Arc::from(name.as_str())));
            }
            VerifyEntry::FirstRollups => restored.rollups.clear(),
            VerifyEntry::Rollups(places) => restored.rollups.extend(places.iter().cloned()),
            VerifyEntry::FirstRows | VerifyEntry::Rows(_) => {}
        }
    }
    restored
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
            awaits_records: true,
        };
        let entries = [VerifyEntry::Items(vec![StoredSuspect::from(&suspect)])];
        // The clocks of other machines are ahead, and behind.
        for now in
            [Timestamp::from_epoch_seconds(1_770_400_600), Timestamp::from_epoch_seconds(1_770_399_400)]
        {
            let restored = restored_suspects(&entries, now).items;
            assert_eq!(restored.len(), 1);
            assert_eq!((restored[0].seen_at, restored[0].rev.as_deref()), (now, Some("7")));
        }
    }
}
