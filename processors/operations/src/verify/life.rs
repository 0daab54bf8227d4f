//! Findings about the life of an item: only the archive shows how it ended or began.

use afterwrite_ledger::StoredEntry;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::record::{Item, Timestamp};
use afterwrite_model::table::{Entity, Model};
use serde::{Deserialize, Serialize};

/// A difference about the life of an item whose entity keeps what expired. Only the archive shows whether the item expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingLife {
    /// The item does not exist, and is counted.
    Vanished,
    /// The item is a rollup that is a source. It has expired and does not exist, and it is counted, as no record shows that TTL deleted it.
    Expired,
    /// The item exists, and the ledger has its deletion.
    Revived,
}

impl FindingLife {
    /// Whether the item lives by its entry and does not by its table, or the other way round. Only an entity that keeps what expired has
    /// totals that depend on how the item ended.
    pub(crate) fn of(
        model: &Model,
        source: &SourceKey<'_>,
        (entry, item): (Option<&StoredEntry>, Option<&Item>),
        now: Timestamp,
    ) -> Option<Self> {
        let candidates = source.candidates(model);
        if !candidates.any(Entity::keeps_what_expired) {
            return None;
        }
        match (entry?.is_tombstone, item) {
            (false, None) if candidates.keep_expired(now) => Some(Self::Expired),
            (false, None) => Some(Self::Vanished),
            (true, Some(_)) => Some(Self::Revived),
            (true, None) | (false, Some(_)) => None,
        }
    }

    /// Why the item differs, and what to do before a repair.
    pub(crate) fn cause(self) -> &'static str {
        match self {
            Self::Vanished => {
                "the item does not exist: the record of its deletion was lost. If TTL deleted it, it must stay counted: replay the archive before \
                 `afterwrite repair`, which subtracts it"
            }
            Self::Expired => {
                "the rollup has expired, and no record shows that TTL deleted it. It stays counted in the level above, as its entry has it: if changes \
                 of it were lost as well, these are missing there, and only a new state table has them (\"Rebuilding a state table\" in docs/OPERATE.md)"
            }
            Self::Revived => {
                "the item exists, but the ledger has its deletion: a record was lost, or the table was restored. Then follow \"After a restore\" in \
                 docs/RUNBOOK.md before `afterwrite repair`, which counts the item again"
            }
        }
    }
}
