//! The rounds of a batch: each brings every pending item as far as it gets, and learns from what was refused.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::stream::{StreamExt as _, iter};

use super::decide::{TOMBSTONE_LIFE, decide};
use super::lookup::{DelayedLookups, LookupKeyRef, LookupResults, PendingLookups};
use super::pack::{PackableItem, TransactionBatch, pack};
use super::plan::ItemPlan;
use super::requests::CONCURRENCY;
use super::tally::CommitTally;
use super::work::{CommitOutcome, ItemObservation, ItemProgress, LedgerItemState, SourceItem};
use super::{InvocationContext, Ledger, keys, rollup};
use crate::clock::Clock;
use crate::effect::{ItemKey, KeyAttribute, Path, Write, WriteAction, WriteCondition, WriteRefusal};
use crate::projection::{LookupKey, RollupTargets, TargetId, answers, questions};
use crate::record::{AttributeValue, Decimal, Image, Position, Timestamp};
use crate::sink::{Tables, TransactError, WriteError};
use crate::table::{KeySchema, OnExpiry, Rollup};
use crate::{Error, ErrorKind, Result};

/// A batch under way.
pub(super) struct LedgerBatch<'r> {
    pub(super) works: Vec<LedgerItemState<'r>>,
    pub(super) targets: RollupTargets,
    pub(super) answered: LookupResults,
}

/// How a round's writes went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RoundRefusals(bool);

/// What one write of a transaction is for: refusals align with writes.
#[derive(Clone, Debug)]
enum WritePurpose<'r> {
    Entry(usize),
    Marker(usize, Position<'r>),
    Rollup(TargetId),
}

impl<T: Tables, C: Clock> Ledger<T, C> {
    /// Counts what a batch says of these items. Every item that can be committed is, by `deadline`.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] alone: the state table is missing, has other keys or may not be used. What concerns single
    /// records is in the outcome.
    pub async fn commit(&self, items: Vec<SourceItem<'_>>, deadline: Timestamp) -> Result<CommitOutcome> {
        Box::pin(self.run(items.into_iter().map(LedgerItemState::new).collect(), deadline)).await
    }

    /// Counts these items as they stand in their tables now, whatever the ledger holds of them: the one way besides records to
    /// change the ledger. Their records, if any, are counted as well. An item without an entry gets one at the beginning of the
    /// stream with the label `stream`: that of the stream which the table has now.
    ///
    /// # Errors
    /// As [`Ledger::commit`].
    pub async fn reconcile<'r>(
        &self,
        items: Vec<SourceItem<'r>>,
        stream: &'r str,
        deadline: Timestamp,
    ) -> Result<CommitOutcome> {
        let works = items.into_iter().map(|item| LedgerItemState::reconciling(item, stream)).collect();
        Box::pin(self.run(works, deadline)).await
    }

    async fn run(&self, works: Vec<LedgerItemState<'_>>, deadline: Timestamp) -> Result<CommitOutcome> {
        let invocation = InvocationContext { deadline, tally: CommitTally::default() };
        let targets = RollupTargets::with_capacity(&self.model, works.len());
        let mut batch = LedgerBatch { works, targets, answered: LookupResults::default() };
        invocation.tally.duplicates.add_len(batch.works.iter().map(|work| work.repeated).sum());
        let mut attempt = 0;
        while batch.works.iter().any(LedgerItemState::is_pending) {
            match Box::pin(self.round(&mut batch, &invocation)).await {
                Ok(RoundRefusals(false)) => {}
                Ok(RoundRefusals(true)) => {
                    attempt += 1;
                    if !self.wait(attempt, &invocation).await {
                        batch.give_up();
                    }
                }
                Err(error) if error.kind() == ErrorKind::Configuration => return Err(error),
                Err(error) => batch.fail_pending(&error),
            }
        }
        Box::pin(self.refresh_mirrors(&mut batch, &invocation)).await?;
        let failures = batch.works.into_iter().flat_map(LedgerItemState::into_failures).collect();
        Ok(CommitOutcome { failures, totals: invocation.tally.totals() })
    }

    async fn round(
        &self,
        batch: &mut LedgerBatch<'_>,
        invocation: &InvocationContext,
    ) -> Result<RoundRefusals> {
        self.read_entries(batch, invocation).await?;
        self.read_items(batch, invocation).await?;
        for work in batch.works.iter_mut().filter(|work| work.is_pending()) {
            self.decide(work, &invocation.tally);
        }
        let delayed = self.ask_lookups(batch, invocation).await?;
        let LedgerBatch { works, targets, answered } = batch;
        for work in works {
            work.delay = self.delay(work, &delayed);
            let is_ready = work.is_pending() && work.delay.is_none();
            work.plan = is_ready.then(|| self.plan(work, targets, answered, invocation)).flatten();
        }
        let RoundRefusals(is_refused) = self.write(batch, invocation).await?;
        Ok(RoundRefusals(is_refused || batch.works.iter().any(|work| work.delay.is_some())))
    }

    /// Reads what is stored of every item whose entry is not known: its entry, and the markers of its expiries.
    async fn read_entries(&self, batch: &mut LedgerBatch<'_>, invocation: &InvocationContext) -> Result<()> {
        let most = batch.works.len();
        let (mut keys, mut owners) = (Vec::with_capacity(most), Vec::with_capacity(most));
        for (index, work) in
            batch.works.iter().enumerate().filter(|(_, work)| work.is_pending() && !work.is_known)
        {
            keys.push(self.keys.entry(&self.model, work.source));
            owners.push((index, None));
            if work.identity.entity.on_expiry == OnExpiry::Keep {
                for record in work.records.iter().filter(|record| record.expired) {
                    keys.push(self.keys.marker(&self.model, work.source, &record.position));
                    owners.push((index, Some(record.position.clone())));
                }
            }
        }
        let stored = self.read(&keys, invocation).await?.items;
        for (((index, marker), key), item) in owners.into_iter().zip(keys).zip(stored) {
            let Some(work) = batch.works.get_mut(index) else { continue };
            match (marker, item) {
                (None, item) => {
                    work.entry_key = Some(key);
                    work.learn(item.as_ref(), &mut batch.targets);
                }
                (Some(position), Some(_)) => work.claimed.push(position),
                (Some(_), None) => {}
            }
        }
        Ok(())
    }

    /// Reads the items that must be asked themselves. Their entries have been read before: that order is what makes it right.
    async fn read_items(&self, batch: &mut LedgerBatch<'_>, invocation: &InvocationContext) -> Result<()> {
        let (mut keys, mut owners) = (Vec::new(), Vec::new());
        for (index, work) in batch.works.iter_mut().enumerate() {
            if !work.is_pending() || !matches!(work.observation, ItemObservation::Wanted) {
                continue;
            }
            match self.item_key(work) {
                Some(key) => {
                    keys.push(key);
                    owners.push(index);
                }
                None => work.fail(Error::new(
                    ErrorKind::Record,
                    "the record's key lacks an attribute of its table's key",
                )),
            }
        }
        let snapshot = self.read(&keys, invocation).await?;
        for (index, item) in owners.into_iter().zip(snapshot.items) {
            let image = item.map(|item| Image::from_item(&item, &self.model.vocabulary));
            if let Some(work) = batch.works.get_mut(index) {
                work.observation = ItemObservation::Seen { image, at: snapshot.server_time };
            }
        }
        Ok(())
    }

    fn item_key(&self, work: &LedgerItemState<'_>) -> Option<ItemKey> {
        let table = self.model.tables.get(work.source.table)?;
        let attribute = |key: &KeySchema| {
            let value = work.keys.get(&key.name)?.clone().into_owned();
            Some(KeyAttribute { name: Arc::clone(&key.name), value })
        };
        let sort = match &table.sort_key {
            Some(key) => Some(attribute(key)?),
            None => None,
        };
        let table_name = Arc::clone(self.table_names.get(work.source.table)?);
        Some(ItemKey { table: table_name, partition: attribute(&table.partition_key)?, sort })
    }

    fn decide(&self, work: &mut LedgerItemState<'_>, tally: &CommitTally) {
        work.unfit.clear();
        let item_asked = matches!(work.observation, ItemObservation::Counted);
        let decision = decide(
            work.entry.as_ref(),
            &work.records,
            |position| work.claimed.iter().any(|claimed| claimed == position),
            work.identity.entity.on_expiry,
            self.clock.now(),
            item_asked,
        );
        work.decided(decision);
        if work.decision.needs_item && matches!(work.observation, ItemObservation::Unneeded) {
            work.observation = ItemObservation::Wanted;
        }
        // A removed item's last image settles what expired, and answers what others ask of it.
        let (is_asked, expiries) = (!work.identity.entity.answers.is_empty(), work.decision.expiries.clone());
        work.decode_old_images(&self.model.vocabulary, |index| is_asked || expiries.contains(&index));
        let is_asking = matches!(work.observation, ItemObservation::Wanted | ItemObservation::Seen { .. });
        if work.decision.is_empty() && !is_asking {
            tally.duplicates.add_len(work.records.len() - work.decision.too_old.len());
            tally.expiries_too_old.add_len(work.decision.too_old.len());
            work.progress = ItemProgress::Done;
        }
    }

    /// Asks everything that this round's images depend on, and remembers what their own records answer.
    async fn ask_lookups(
        &self,
        batch: &mut LedgerBatch<'_>,
        invocation: &InvocationContext,
    ) -> Result<DelayedLookups> {
        let mut asked = PendingLookups::new();
        let LedgerBatch { works, answered, .. } = batch;
        for (question, offer) in works.iter().flat_map(|work| self.questions_of(work)) {
            self.ask(question, offer, &mut asked, answered);
        }
        self.answer(asked, answered, invocation).await
    }

    /// What an item asks, and what it answers itself: then with the answer.
    fn questions_of<'w>(
        &'w self,
        work: &'w LedgerItemState<'_>,
    ) -> impl Iterator<Item = (LookupKey<'w>, Option<Vec<AttributeValue<'static>>>)> {
        let offered = work.answering_images().flat_map(|image| answers(&self.model, work.identity, image));
        // An image that cannot even ask cannot be counted either: planning says so of the record.
        let needed =
            work.images_to_count().filter_map(|image| questions(&self.model, work.identity, image).ok());
        let offered = offered.map(|(question, outputs)| (question, Some(outputs)));
        offered.chain(needed.flatten().map(|question| (question, None)))
    }

    /// Why an item must wait for another round, if something that it asks or answers was delayed.
    fn delay(&self, work: &LedgerItemState<'_>, delayed: &DelayedLookups) -> Option<Error> {
        if delayed.is_empty() || !work.is_pending() {
            return None;
        }
        let mut questions = self.questions_of(work);
        questions.find_map(|(question, _)| Some(delayed.get(&LookupKeyRef(&question))?.restated()))
    }

    async fn write(
        &self,
        batch: &mut LedgerBatch<'_>,
        invocation: &InvocationContext,
    ) -> Result<RoundRefusals> {
        let mut refused = self.write_entries(batch, invocation).await?;
        let packable = |(item, work): (usize, _)| {
            let LedgerItemState { plan, alone, .. }: &LedgerItemState<'_> = work;
            let plan = plan.as_ref().filter(|plan| !plan.is_entry_alone())?;
            Some(PackableItem { item, plan, alone: *alone })
        };
        for mut parcel in pack(batch.works.iter().enumerate().filter_map(packable), &batch.targets) {
            if self.clock.now() >= invocation.deadline {
                return Ok(RoundRefusals(true));
            }
            let Some(rendered) = self.render(batch, &mut parcel, invocation).await? else { continue };
            refused.0 |= self.send(batch, &parcel, rendered, invocation).await?.0;
        }
        Ok(refused)
    }

    /// Writes the entries with which no rollup changes: plain conditional writes, at half the price of a transaction's.
    async fn write_entries(
        &self,
        batch: &mut LedgerBatch<'_>,
        invocation: &InvocationContext,
    ) -> Result<RoundRefusals> {
        let LedgerBatch { works, targets, .. } = batch;
        let is_alone =
            |work: &&mut LedgerItemState<'_>| work.plan.as_ref().is_some_and(ItemPlan::is_entry_alone);
        let mut works: Vec<&mut LedgerItemState<'_>> = works.iter_mut().filter(is_alone).collect();
        let writes = works.iter_mut().filter_map(|work| self.entry_write(work, targets));
        let writes: Vec<Write> = writes.collect();
        let sent = writes.iter().map(|write| self.tables.write(write));
        let answers: Vec<_> = iter(sent).buffered(CONCURRENCY).collect().await;
        let mut refused = RoundRefusals(false);
        for (work, answer) in works.into_iter().zip(answers) {
            match answer {
                Ok(consumed) => {
                    invocation.tally.write_units.add(consumed.write_units);
                    work.committed(&invocation.tally);
                }
                Err(WriteError::Refused(refusal)) => {
                    refused.0 = true;
                    work.entry_refused(refusal, targets, &invocation.tally);
                }
                Err(WriteError::Failed(error)) if error.is_retryable() => {
                    refused.0 = true;
                    work.forget();
                }
                Err(WriteError::Failed(error)) if error.kind() == ErrorKind::Configuration => {
                    return Err(error);
                }
                Err(WriteError::Failed(error)) => work.fail(error),
            }
        }
        Ok(refused)
    }

    /// The write of an item's planned entry.
    fn entry_write(&self, work: &mut LedgerItemState<'_>, targets: &RollupTargets) -> Option<Write> {
        let item = work.plan.as_ref()?.entry.encode(targets);
        let condition = match &work.entry {
            None => WriteCondition::ItemAbsent,
            Some(entry) => WriteCondition::Equals(Path::from(&self.keys.names().rev), revision(entry.rev)),
        };
        let key = work.entry_key.take().unwrap_or_else(|| self.keys.entry(&self.model, work.source));
        Some(Write { key, condition, action: WriteAction::Put(item) })
    }

    /// The writes of a parcel; `None` if one of its rollups cannot be written at all, which fails the items that need it.
    async fn render<'r>(
        &self,
        batch: &mut LedgerBatch<'r>,
        parcel: &mut TransactionBatch,
        invocation: &InvocationContext,
    ) -> Result<Option<RenderedTransaction<'r>>> {
        let computed = self.read_computed(batch, parcel, invocation).await?;
        let mut rendered = RenderedTransaction::with_capacity(parcel.items.len() + parcel.rollups.len());
        for index in &parcel.items {
            let Some(work) = batch.works.get_mut(*index) else { continue };
            let Some(write) = self.entry_write(work, &batch.targets) else { continue };
            rendered.push(WritePurpose::Entry(*index), write);
            for position in work.plan.iter().flat_map(|plan| &plan.markers) {
                let write = self.marker_write(work, position);
                rendered.push(WritePurpose::Marker(*index, position.clone()), write);
            }
        }
        let updated_at = parcel.newest.map(|newest| newest.to_string());
        for (id, update) in std::mem::take(&mut parcel.rollups) {
            let target = batch.targets.get(id);
            let stored = computed.get(&id).map(|(rollup, item)| (*rollup, item.as_ref()));
            match rollup::write(&self.keys, target, update, updated_at.as_deref(), stored) {
                Ok(write) => rendered.push(WritePurpose::Rollup(id), write),
                Err(error) => {
                    batch.fail_users(id, parcel, &error);
                    return Ok(None);
                }
            }
        }
        Ok(Some(rendered))
    }

    fn marker_write(&self, work: &LedgerItemState<'_>, position: &Position<'_>) -> Write {
        let mut item = keys::typed("LEDGER");
        let expires_at = self.clock.now().plus(TOMBSTONE_LIFE).epoch_seconds();
        item.insert(Cow::Borrowed(keys::EXPIRES_AT), Decimal::from(expires_at).into());
        let key = self.keys.marker(&self.model, work.source, position);
        Write { key, condition: WriteCondition::ItemAbsent, action: WriteAction::Put(item) }
    }

    /// Reads the rollups of a parcel that are computed, not added to.
    async fn read_computed(
        &self,
        batch: &LedgerBatch<'_>,
        parcel: &TransactionBatch,
        invocation: &InvocationContext,
    ) -> Result<BTreeMap<TargetId, (&Rollup, Option<StoredItem>)>> {
        // Of rollups that overlap none is computed.
        let rollup_of = |id: &TargetId| {
            let mut rollups = batch.targets.get(*id).rollups.iter();
            rollups.find_map(|index| self.model.rollups.get(*index).filter(|rollup| rollup.is_computed()))
        };
        let computed: Vec<(TargetId, &Rollup, ItemKey)> = parcel
            .rollups
            .iter()
            .filter_map(|(id, _)| Some((*id, rollup_of(id)?, self.keys.rollup(batch.targets.get(*id))?)))
            .collect();
        let keys: Vec<ItemKey> = computed.iter().map(|(_, _, key)| key.clone()).collect();
        let stored = self.read(&keys, invocation).await?.items;
        Ok(computed.into_iter().zip(stored).map(|((id, rollup, _), item)| (id, (rollup, item))).collect())
    }

    async fn send<'r>(
        &self,
        batch: &mut LedgerBatch<'r>,
        parcel: &TransactionBatch,
        rendered: RenderedTransaction<'r>,
        invocation: &InvocationContext,
    ) -> Result<RoundRefusals> {
        let RenderedTransaction { purposes, writes } = rendered;
        match self.tables.transact(&writes).await {
            Ok(consumed) => {
                invocation.tally.transactions.add(1);
                invocation.tally.write_units.add(consumed.write_units);
                for index in &parcel.items {
                    if let Some(work) = batch.works.get_mut(*index) {
                        work.committed(&invocation.tally);
                    }
                }
                Ok(RoundRefusals(false))
            }
            Err(TransactError::Cancelled(reasons)) => {
                for (purpose, refusal) in purposes.into_iter().zip(reasons) {
                    if let Some(refusal) = refusal {
                        batch.learn(purpose, refusal, parcel, &invocation.tally);
                    }
                }
                Ok(RoundRefusals(true))
            }
            Err(TransactError::Failed(error)) if error.is_retryable() => {
                // It may have taken effect: the entries, read again, will tell.
                batch.forget(parcel);
                Ok(RoundRefusals(true))
            }
            Err(TransactError::Failed(error)) if error.kind() == ErrorKind::Configuration => Err(error),
            Err(TransactError::Failed(error)) => {
                batch.isolate(parcel.items.iter().copied(), &error);
                Ok(RoundRefusals(false))
            }
        }
    }
}

/// The writes of a transaction, and what each of them is for.
struct RenderedTransaction<'r> {
    purposes: Vec<WritePurpose<'r>>,
    writes: Vec<Write>,
}

impl<'r> RenderedTransaction<'r> {
    fn with_capacity(capacity: usize) -> Self {
        Self { purposes: Vec::with_capacity(capacity), writes: Vec::with_capacity(capacity) }
    }

    fn push(&mut self, purpose: WritePurpose<'r>, write: Write) {
        self.purposes.push(purpose);
        self.writes.push(write);
    }
}

type StoredItem = crate::record::Item;

fn revision(rev: u64) -> AttributeValue<'static> {
    Decimal::from(i64::try_from(rev).unwrap_or(i64::MAX)).into()
}

impl<'r> LedgerBatch<'r> {
    fn forget(&mut self, parcel: &TransactionBatch) {
        for index in &parcel.items {
            if let Some(work) = self.works.get_mut(*index) {
                work.forget();
            }
        }
    }

    /// Items that were counted, but whose mirrors could not be refreshed.
    pub(super) fn fail_done(&mut self, works: &BTreeSet<usize>, error: &Error) {
        for index in works {
            if let Some(work) = self.works.get_mut(*index) {
                work.fail(error.restated());
            }
        }
    }

    fn give_up(&mut self) {
        for work in self.works.iter_mut().filter(|work| work.is_pending()) {
            let time_is_up =
                || Error::new(ErrorKind::Conflict, "the time was up before the item could be committed");
            let error = work.delay.take().unwrap_or_else(time_is_up);
            work.fail(error);
        }
    }

    fn fail_pending(&mut self, error: &Error) {
        for work in self.works.iter_mut().filter(|work| work.is_pending()) {
            work.fail(error.restated());
        }
    }

    /// What a refusal of one write teaches of the items in the transaction.
    fn learn(
        &mut self,
        purpose: WritePurpose<'r>,
        refusal: WriteRefusal,
        parcel: &TransactionBatch,
        tally: &CommitTally,
    ) {
        match (purpose, refusal) {
            (WritePurpose::Entry(index), refusal) => {
                let Self { works, targets, .. } = self;
                if let Some(work) = works.get_mut(index) {
                    work.entry_refused(refusal, targets, tally);
                }
            }
            (WritePurpose::Marker(index, position), WriteRefusal::Condition(_)) => {
                tally.conflicts.add(1);
                if let Some(work) = self.works.get_mut(index) {
                    work.claimed.push(position);
                }
            }
            // A rollup's condition is on the `rev` that was read: it is read again in the next round.
            (_, WriteRefusal::Conflict | WriteRefusal::Condition(_)) => tally.conflicts.add(1),
            (_, WriteRefusal::Throttled) => {}
            (WritePurpose::Marker(index, _), WriteRefusal::Invalid(reason)) => {
                self.isolate([index].into_iter(), &rejected(&reason))
            }
            (WritePurpose::Rollup(target), WriteRefusal::Invalid(reason)) => {
                self.fail_users(target, parcel, &rejected(&reason));
            }
        }
    }

    /// A rollup cannot be written: who of its users is to blame shows when each goes alone.
    fn fail_users(&mut self, target: TargetId, parcel: &TransactionBatch, error: &Error) {
        let uses = |index: &usize| {
            let plan = self.works.get(*index).and_then(|work| work.plan.as_ref());
            plan.is_some_and(|plan| plan.touched().any(|touched| touched == target))
        };
        let users: Vec<usize> = parcel.items.iter().copied().filter(uses).collect();
        self.isolate(users.into_iter(), error);
    }

    /// Items of which one is poison get transactions of their own; an item that was alone already is it.
    fn isolate(&mut self, items: impl ExactSizeIterator<Item = usize>, error: &Error) {
        let is_lone = items.len() == 1;
        for index in items {
            let Some(work) = self.works.get_mut(index) else { continue };
            if is_lone || work.alone {
                work.fail(error.restated());
            } else {
                work.alone = true;
            }
        }
    }
}

fn rejected(reason: &str) -> Error {
    Error::new(ErrorKind::Rejected, format!("DynamoDB refuses to write what the item contributes: {reason}"))
}
