//! Whether an entry of the ledger counts something, so that its item must be judged by it.

use afterwrite_ledger::StoredEntry;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::table::{Entity, Model};
use afterwrite_model::{ErrorKind, Result};

use crate::projector::has_aggregate;

/// The aggregates that an entry contributes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryCount {
    /// None.
    Nothing,
    /// None, and the item exists by the entry. If it does not, a lost record may have been a change after which it counted.
    NothingYet,
    /// At least one aggregate of the model.
    ByModel,
    /// Only aggregates that the model does not have; or unknown, because the entry is unreadable. Judging its item reports that.
    Otherwise,
}

/// The aggregates that the decoded entry of an item contributes to.
///
/// # Errors
/// As the entry, unless it is unreadable.
pub(super) fn counted_by(
    model: &Model,
    source: &SourceKey<'_>,
    entry: Result<StoredEntry>,
) -> Result<EntryCount> {
    match entry {
        Ok(entry) => {
            let contributions = &entry.contributions.by_aggregate;
            if contributions.iter().any(|contribution| has_aggregate(model, contribution)) {
                return Ok(EntryCount::ByModel);
            }
            if !contributions.is_empty() {
                return Ok(EntryCount::Otherwise);
            }
            let keeps = || source.candidates(model).any(Entity::keeps_what_expired);
            Ok(if !entry.is_tombstone && keeps() { EntryCount::NothingYet } else { EntryCount::Nothing })
        }
        Err(error) if error.kind() == ErrorKind::Unreadable => Ok(EntryCount::Otherwise),
        Err(error) => Err(error),
    }
}
