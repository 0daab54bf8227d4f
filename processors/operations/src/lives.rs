//! The lives of items that only the archive can confirm, by the items' ledger entries: whichever process has found a life, each later job
//! that reads the entry counts it.

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite_ledger::tables::Tables;
use afterwrite_ledger::{LifeChange, StateItem, StateItems, StoredEntry};
use afterwrite_model::Result;
use afterwrite_model::clock::Clock;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::projection::RollupTargets;
use afterwrite_model::record::{Item, Timestamp};
use afterwrite_model::table::{Entity, Model};

use crate::DeploymentContext;
use crate::jobs::{JobTotals, count, job_totals};
use crate::projector::has_aggregate;
use crate::verify::VerifyFinding;

job_totals! {
    /// The counters of lives that only the archive can confirm, of every job that reads entries.
    pub enum LifeTotal {
        /// Lives that ended without a record, and were subtracted.
        Vanished = "vanished",
        /// Rollups that are sources and expired without a record. They stay counted as their entries have them.
        ExpiredSources = "expired_sources",
        /// Items that exist, although a record of an earlier stream of the table deleted them.
        Revived = "revived",
        /// Items whose entry has a position of a later stream than their table has: the table was exchanged for an earlier table, and the next
        /// records of these items are taken for duplicates.
        OfLaterStream = "of_later_stream",
        /// Entries of items of a table that the model does not have, which count into an aggregate of the model: the table has another name now.
        OfUnknownTable = "of_unknown_table",
        /// Expiries that are parked: they are not settled.
        ParkedExpiries = "parked_expiries",
    }
}

impl LifeTotal {
    /// Adds the unrecorded changes of an item's life, if the model keeps what expired of such an item. The item of a hashed key is unknown, so
    /// any entity may be its own.
    pub(crate) fn note(
        totals: &mut JobTotals,
        (model, source): (&Arc<Model>, Option<&SourceKey<'_>>),
        entry: Option<&StoredEntry>,
        now: Timestamp,
    ) {
        if entry.is_some_and(|entry| counts_for_unknown_table(model, entry)) {
            totals.add(Self::OfUnknownTable, 1);
        }
        let keeps = match source {
            Some(source) => source.candidates(model).any(Entity::keeps_what_expired),
            None => model.entities.iter().any(Entity::keeps_what_expired),
        };
        let Some(entry) = entry.filter(|_| keeps) else { return };
        for (total, change) in [(Self::Vanished, LifeChange::Vanished), (Self::Revived, LifeChange::Revived)]
        {
            let open = entry.unrecorded.iter().filter(|life| life.change == change && life.is_open(now));
            totals.add(total, count(open.count()));
        }
    }

    /// Adds a rollup that does not exist, if its entry still counts it although it has expired.
    pub(crate) fn note_expired(
        totals: &mut JobTotals,
        (model, source): (&Model, &SourceKey<'_>),
        entry: &StoredEntry,
        now: Timestamp,
    ) {
        if !entry.is_tombstone && source.candidates(model).keep_expired(now) {
            totals.add(Self::ExpiredSources, 1);
        }
    }

    /// The entry that an item of the state table is, with its item's key if that is known. Adds a parked expiry.
    pub(crate) fn entry_of<'i>(
        totals: &mut JobTotals,
        item: StateItem<'i>,
    ) -> Option<(Option<SourceKey<'static>>, &'i Item)> {
        match item {
            StateItem::Entry(source, entry) => Some((source, entry)),
            StateItem::ParkedExpiry => {
                totals.add(Self::ParkedExpiries, 1);
                None
            }
            StateItem::Rollup(..) | StateItem::Other => None,
        }
    }

    /// Adds an entry of a later stream than the stream of its table, which has this label; empty if the table has none.
    pub(crate) fn note_stream(totals: &mut JobTotals, entry: &StoredEntry, label: &str) {
        let is_later = !label.is_empty() && entry.position.label() > label;
        totals.add(Self::OfLaterStream, u64::from(is_later));
    }
}

fn counts_for_unknown_table(model: &Model, entry: &StoredEntry) -> bool {
    let mut contributions = entry.contributions.by_aggregate.iter();
    entry.is_of_unknown_table && contributions.any(|contribution| has_aggregate(model, contribution))
}

/// The entries of items, aligned with the items; `None` if an entry does not exist, or cannot be read.
///
/// # Errors
/// As [`Tables::read`].
pub(crate) async fn read_entries(
    (tables, state): (&impl Tables, &StateItems),
    sources: &BTreeSet<SourceKey<'static>>,
    targets: &mut RollupTargets,
) -> Result<Vec<Option<StoredEntry>>> {
    let keys = sources.iter().map(|source| state.entry_key(source)).collect::<Result<Vec<_>>>()?;
    let stored = tables.read(&keys).await?.items;
    Ok(stored.into_iter().map(|stored| state.decode_entry(&stored?, targets).ok()).collect())
}

/// The lives that the entries of findings name.
///
/// # Errors
/// As [`Tables::read`].
pub async fn lives_of_findings<T: Tables + Clone, C: Clock + Clone>(
    context: &DeploymentContext<T, C>,
    findings: &[VerifyFinding],
) -> Result<JobTotals> {
    let state = context.state_items();
    let items = findings.iter().filter_map(|finding| finding.subject.item()?.source(&context.model));
    let sources: BTreeSet<_> = items.collect();
    let (mut totals, mut targets) = (JobTotals::new(), RollupTargets::of(&context.model));
    // An entry that cannot be read is a finding.
    let entries = read_entries((&context.tables, &state), &sources, &mut targets).await?;
    for (source, entry) in sources.iter().zip(entries) {
        LifeTotal::note(&mut totals, (&context.model, Some(source)), entry.as_ref(), context.clock.now());
    }
    Ok(totals)
}
