//! The lives that a backfill names. An entry names the lives that any process has found, also an earlier phase, or a process that was killed.
//!
//! A life that ends while the backfill runs is found before its record arrives. So the lives that this job has found are looked at again at
//! its end, after a short time.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use afterwrite_ledger::state::key_in;
use afterwrite_ledger::tables::{Tables, WriteError};
use afterwrite_ledger::{StateItems, StoredEntry};
use afterwrite_model::Result;
use afterwrite_model::clock::Clock;
use afterwrite_model::effect::ItemKey;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::projection::RollupTargets;
use afterwrite_model::record::{Item, Timestamp};

use super::{BackfillArguments, BackfillTotal};
use crate::DeploymentContext;
use crate::items::owned_key;
use crate::jobs::JobTotals;
use crate::lives::{LifeTotal, read_entries};

/// How long the records of lives that this job has found are waited for: longer than a stream lags while its consumer keeps up.
const RECORD_TIME: Duration = Duration::from_secs(10);
/// The pause between two readings.
const READ_PAUSE: Duration = Duration::from_secs(1);

/// The lives that a backfill names.
#[derive(Debug)]
pub(super) struct BackfillLives<T, C> {
    context: DeploymentContext<T, C>,
    state: StateItems,
    accepts: bool,
    /// DynamoDB's time when the job was planned.
    planned_at: Timestamp,
    /// The lives that this process has counted, and this job has found.
    found: Mutex<Vec<FoundLives>>,
}

/// The lives of one entry that this job has found.
#[derive(Clone, Debug)]
struct FoundLives {
    key: ItemKey,
    source: Option<SourceKey<'static>>,
    ends: JobTotals,
}

/// The lives whose end has no record yet.
const ENDS: [LifeTotal; 2] = [LifeTotal::Vanished, LifeTotal::ExpiredSources];

impl<T: Tables + Clone, C: Clock + Clone> BackfillLives<T, C> {
    pub(super) fn new(context: &DeploymentContext<T, C>, arguments: &BackfillArguments) -> Self {
        Self {
            context: context.clone(),
            state: context.state_items(),
            accepts: arguments.accept_lives,
            planned_at: Timestamp::from_epoch_seconds(arguments.planned_at),
            found: Mutex::default(),
        }
    }
}

impl<T: Tables, C: Clock> BackfillLives<T, C> {
    /// Counts the lives of items that a step has reconciled. Their entries name them also if the response to a write was lost.
    pub(super) async fn note_orphans(
        &self,
        orphaned: &BTreeSet<SourceKey<'static>>,
        targets: &mut RollupTargets,
        totals: &mut JobTotals,
    ) -> Result<()> {
        // The ledger has reported an entry that cannot be read.
        let entries = read_entries((&self.context.tables, &self.state), orphaned, targets).await?;
        for (source, entry) in orphaned.iter().zip(entries) {
            if let Some(entry) = entry {
                let key = self.state.entry_key(source)?;
                self.count_expired((source, key.clone()), &entry, totals);
                self.count((Some(source), key), &entry, totals);
            }
        }
        Ok(())
    }

    /// Counts the lives that the stored entry `item` names. With `--accept-lives`, the entry no longer names its lives, unless one of them was
    /// found after the job was planned: nobody has seen that life yet.
    pub(super) async fn note(
        &self,
        (source, item): (Option<&SourceKey<'_>>, &Item),
        entry: &StoredEntry,
        totals: &mut JobTotals,
    ) -> Result<()> {
        let Some(key) = key_in(&self.context.state_table, item) else { return Ok(()) };
        let are_seen = entry.unrecorded.iter().all(|life| life.is_found_before(self.planned_at));
        if !self.accepts || entry.unrecorded.is_empty() || !are_seen {
            self.count((source, key), entry, totals);
            return Ok(());
        }
        match self.context.tables.write(&self.state.accept_lives(key.clone(), entry)).await {
            Ok(_) => totals.add(BackfillTotal::AcceptedLives, 1),
            // The entry has changed meanwhile.
            Err(WriteError::Refused(_)) => self.count((source, key), entry, totals),
            Err(WriteError::Failed(error)) => return Err(error),
        }
        Ok(())
    }

    /// Counts the lives of an entry, and notes them if this job has found one of them.
    fn count(
        &self,
        (source, key): (Option<&SourceKey<'_>>, ItemKey),
        entry: &StoredEntry,
        totals: &mut JobTotals,
    ) {
        let mut named = JobTotals::new();
        LifeTotal::note(&mut named, (&self.context.model, source), Some(entry), self.context.clock.now());
        totals.add_all(&named);
        if entry.unrecorded.iter().any(|life| !life.is_found_before(self.planned_at)) {
            self.note_found((source, key), named);
        }
    }

    /// Counts the rollup of an entry, if it has expired without a record. A step finds it whenever it comes to the entry.
    fn count_expired(
        &self,
        (source, key): (&SourceKey<'_>, ItemKey),
        entry: &StoredEntry,
        totals: &mut JobTotals,
    ) {
        let mut named = JobTotals::new();
        LifeTotal::note_expired(&mut named, (&self.context.model, source), entry, self.context.clock.now());
        totals.add_all(&named);
        self.note_found((Some(source), key), named);
    }

    /// Notes the lives of an entry that ended, to look at them again.
    fn note_found(&self, (source, key): (Option<&SourceKey<'_>>, ItemKey), named: JobTotals) {
        if ENDS.iter().all(|total| named.number(*total) == 0) {
            return;
        }
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        // A step that failed is repeated.
        found.retain(|known| known.key != key);
        found.push(FoundLives { key, source: source.map(owned_key), ends: named });
    }

    /// The lives that this process has counted and that have ended by their records since. Waits a short time for these records.
    pub(super) async fn recorded(&self) -> Result<JobTotals> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let until = self.context.clock.now().plus(RECORD_TIME);
        loop {
            let open = self.open(&found).await?;
            let is_open = ENDS.iter().any(|total| open.number(*total) > 0);
            if !is_open || self.context.clock.now() >= until {
                let mut recorded = JobTotals::new();
                for total in ENDS {
                    let named: u64 = found.iter().map(|lives| lives.ends.number(total)).sum();
                    recorded.add(total, named.saturating_sub(open.number(total)));
                }
                return Ok(recorded);
            }
            self.context.clock.sleep(READ_PAUSE).await;
        }
    }

    /// The lives of these entries that are open.
    async fn open(&self, found: &[FoundLives]) -> Result<JobTotals> {
        let keys: Vec<ItemKey> = found.iter().map(|lives| lives.key.clone()).collect();
        let (mut totals, mut targets) = (JobTotals::new(), RollupTargets::of(&self.context.model));
        for (lives, stored) in found.iter().zip(self.context.tables.read(&keys).await?.items) {
            let Some(stored) = stored else { continue };
            let entry = self.state.decode_entry(&stored, &mut targets)?;
            let (model, source) = (&self.context.model, lives.source.as_ref());
            let now = self.context.clock.now();
            LifeTotal::note(&mut totals, (model, source), Some(&entry), now);
            if let Some(source) = source.filter(|_| lives.ends.number(LifeTotal::ExpiredSources) > 0) {
                LifeTotal::note_expired(&mut totals, (model, source), &entry, now);
            }
        }
        Ok(totals)
    }
}
