//! The driver of a batch: made for one call of the ledger, it visits the stages until its items wait for nothing. Mirrors follow, and the
//! outputs of lookups that could not be remembered with the items.
//!
//! It makes no decision about an item: a stage gives the item what was read or refused, and the item's next state names what
//! it needs.

use std::sync::Arc;

use afterwrite_model::projection::{KnownLookups as _, LookupKey, LookupOutputs, RollupTargets};
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use futures::future::LocalBoxFuture;

use super::CommitOutcome;
use super::batch::{BatchContext, LedgerBatch};
use super::core::lookups::{LookupChoice, LookupResults};
use super::core::{LedgerCore, LedgerItem};
use super::dyn_tables::{DynClock, DynTables};
use super::lookup::{LookupCache, LookupStage};
use super::mirror::MirrorRefresher;
use super::policy::RefreshSchedule;
use super::read::ReadStage;
use super::requests::Requests;
use super::tally::CommitTally;
use super::write::WriteStage;

/// The tables and the clock of a ledger: the code below is compiled here, once for all.
pub(crate) type LedgerSurroundings<'l> = (&'l dyn DynTables, &'l dyn DynClock);

/// Counts items, with records or to be reconciled: see [`Ledger::commit`](super::Ledger::commit).
pub(crate) fn run<'l, 'r: 'l>(
    core: &'l LedgerCore,
    cache: &'l LookupCache,
    (tables, clock): LedgerSurroundings<'l>,
    items: Vec<LedgerItem<'r>>,
    deadline: Timestamp,
) -> LocalBoxFuture<'l, Result<CommitOutcome>> {
    Box::pin(async move {
        let tally = CommitTally::default();
        let requests = Requests::new(tables, clock, deadline, &tally);
        let lookups = LookupStage { core, cache, requests: &requests };
        let context = BatchContext { core, requests: &requests, lookups: &lookups };
        let targets = RollupTargets::with_capacity(&core.model, items.len());
        let mut batch = LedgerBatch::new(items, targets);
        Box::pin(LedgerDriver::new(context).run(&mut batch)).await?;
        let mut outcome =
            CommitOutcome { unwritable_mirrors: batch.unwritable_mirrors, ..CommitOutcome::default() };
        for item in batch.items {
            let uncounted = item.finish(context.step_context());
            outcome.failures.extend(uncounted.failures);
            outcome.parked.extend(uncounted.parked);
        }
        outcome.totals = tally.totals();
        Ok(outcome)
    })
}

/// See [`Ledger::look_up`](super::Ledger::look_up).
pub(crate) fn look_up<'l>(
    core: &'l LedgerCore,
    cache: &'l LookupCache,
    (tables, clock): LedgerSurroundings<'l>,
    keys: &'l [LookupKey<'static>],
    deadline: Timestamp,
) -> LocalBoxFuture<'l, Result<Vec<Option<Arc<LookupOutputs>>>>> {
    Box::pin(async move {
        let tally = CommitTally::default();
        let requests = Requests::new(tables, clock, deadline, &tally);
        let lookups = LookupStage { core, cache, requests: &requests };
        let mut results = LookupResults::default();
        for key in keys {
            lookups.require(key.clone(), None, &mut results);
        }
        let mut attempt = 0;
        while results.has_open() {
            lookups.resolve(LookupChoice::All, &mut results).await?;
            attempt += 1;
            if results.has_open() && !lookups.wait(&results, attempt).await {
                results.close();
            }
        }
        let found = keys.iter().map(|key| match results.failure(key) {
            Some(error) => Err(error),
            None => Ok(results.outputs(key).map(Arc::from)),
        });
        found.collect()
    })
}

/// Drives the items of one invocation.
struct LedgerDriver<'l> {
    context: BatchContext<'l>,
    reads: ReadStage<'l>,
    writes: WriteStage<'l>,
    mirrors: MirrorRefresher<'l>,
}

impl<'l> LedgerDriver<'l> {
    fn new(context: BatchContext<'l>) -> Self {
        Self {
            context,
            reads: ReadStage { context },
            writes: WriteStage { context },
            mirrors: MirrorRefresher { context },
        }
    }

    /// Drives every item to its end, then refreshes mirrors and remembers offered outputs, all before the deadline.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] only. Other errors end the items that they concern.
    async fn run(&self, batch: &mut LedgerBatch<'_>) -> Result<()> {
        self.count(batch).await?;
        batch.lookups.drop_needed();
        self.follow_up(batch).await
    }

    /// Drives every item to its end.
    async fn count(&self, batch: &mut LedgerBatch<'_>) -> Result<()> {
        let mut schedule = RefreshSchedule::new(self.context.requests.time_left());
        while !batch.is_finished() {
            let reason = match Box::pin(self.round(batch)).await {
                Ok(reason) => reason,
                Err(error) if error.kind() == ErrorKind::Configuration => return Err(error),
                Err(error) => {
                    self.give_up(batch, &error);
                    continue;
                }
            };
            if schedule.is_due(reason.is_some(), self.context.requests.time_left()) {
                Box::pin(self.mirrors.refresh(batch)).await?;
                schedule.note_refresh(self.context.requests.time_left());
            }
            if let Some(reason) = reason
                && !self.context.lookups.wait(&batch.lookups, schedule.waits()).await
            {
                self.give_up(batch, &reason);
            }
        }
        Ok(())
    }

    /// Refreshes mirrors, and remembers the offered outputs that are not remembered yet. No item waits for another one's.
    async fn follow_up(&self, batch: &mut LedgerBatch<'_>) -> Result<()> {
        let mut attempt = 0;
        loop {
            let delayed = Box::pin(self.mirrors.refresh(batch)).await?;
            let is_done = delayed.is_none() && !batch.lookups.has_open();
            attempt += 1;
            if is_done || !self.context.lookups.wait(&batch.lookups, attempt).await {
                let message = "the deadline passed before the lookups of the item were resolved";
                let error = delayed.unwrap_or_else(|| Error::new(ErrorKind::Conflict, message));
                batch.give_up_offers(&error, self.context.step_context());
                self.mirrors.give_up(batch, &error);
                return Ok(());
            }
            self.context.lookups.resolve(LookupChoice::All, &mut batch.lookups).await?;
        }
    }

    /// Visits each stage once. Returns why the next round must wait, if it must: a read or write was refused, or a lookup found
    /// nothing.
    ///
    /// # Errors
    /// No other round can succeed.
    async fn round(&self, batch: &mut LedgerBatch<'_>) -> Result<Option<Error>> {
        let unread = self.reads.read_entries(batch).await?;
        let unread = unread.or(self.reads.read_items(batch).await?);
        self.reads.resolve_lookups(batch).await?;
        let is_open = batch.plan_ready_items(self.context.step_context());
        let unread = unread.or(self.reads.read_rollups(batch).await?);
        let is_refused = self.writes.write(batch).await?;
        let message = "the deadline passed before the item could be committed";
        let refused = (is_open || is_refused).then(|| Error::new(ErrorKind::Conflict, message));
        Ok(unread.map(Error::from).or(refused))
    }

    /// Ends every item in progress, and every item whose offered outputs are not remembered yet.
    fn give_up(&self, batch: &mut LedgerBatch<'_>, error: &Error) {
        batch.give_up_offers(error, self.context.step_context());
        batch.lookups.close();
        batch.plan_ready_items(self.context.step_context());
        batch.give_up(error, self.context.step_context());
    }
}
