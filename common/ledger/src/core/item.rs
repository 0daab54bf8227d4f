//! One item of a batch: each step takes it from one state to the next. See [`super::states`].

use afterwrite_model::projection::{RollupTargets, TargetId};
use afterwrite_model::record::{Item, RecordFailure, Timestamp};
use afterwrite_model::{Error, ErrorKind};

use super::counted::{CountedChanges, UncountedRecords};
use super::decide::{RecordDecision, SourceItem, decide};
use super::evaluate::{ImageEvaluation, WorkEvaluation};
use super::facts::{ItemFacts, KnownEntry};
use super::lookups::{KeyedImage, LookupResults};
use super::plan::ItemPlanner;
use super::states::{
    CountBasis, ExportedImage, ItemInput, ItemState, PlannedItem, Reconciliation, ReconciliationCause,
    TableReading,
};
use super::{PoisonPolicy, StepContext, TombstoneHistory};
use crate::policy::{PeerGroup, TransactionPeers, WriteTurn};
use crate::state::ReadKey;
use crate::state::marker::StoredMarker;
use crate::state::parked::ParkedPosition;

/// One item of a batch.
#[derive(Debug)]
pub(crate) struct LedgerItem<'r> {
    pub(crate) facts: ItemFacts<'r>,
    pub(crate) state: ItemState<'r>,
    /// The items that may share its transactions.
    pub(crate) peers: TransactionPeers,
    pub(crate) counted: CountedChanges,
}

impl<'r> LedgerItem<'r> {
    pub(crate) fn new(item: SourceItem<'r>) -> Self {
        Self::begun(item, "", Reconciliation::not_due())
    }

    /// An item to count from its table, whose stream has this label.
    pub(crate) fn reconciling(item: SourceItem<'r>, stream: &'r str) -> Self {
        Self::begun(item, stream, Reconciliation::Due(ReconciliationCause::Request))
    }

    /// As [`LedgerItem::reconciling`], but counted from an export if it has no entry.
    pub(crate) fn exported(item: SourceItem<'r>, stream: &'r str, exported: ExportedImage) -> Self {
        Self::begun(item, stream, Reconciliation::Exported(Box::new(exported)))
    }

    fn begun(item: SourceItem<'r>, stream: &'r str, reconciliation: Reconciliation) -> Self {
        Self {
            facts: ItemFacts::new(item, stream),
            state: ItemState::Unread(reconciliation),
            peers: TransactionPeers::default(),
            counted: CountedChanges::default(),
        }
    }

    /// Takes the item to its next state, by the input of a stage.
    pub(crate) fn step(
        &mut self,
        input: ItemInput<'r, '_>,
        context: StepContext<'_>,
        targets: &mut RollupTargets,
    ) {
        self.state = match (std::mem::take(&mut self.state), input) {
            (ItemState::Unread(reconciliation), ItemInput::EntryRead { key, entry, markers }) => {
                self.facts.entry_key = ReadKey::Made(key);
                self.facts.markers = markers;
                self.learn_entry(entry, reconciliation, context, targets)
            }
            (ItemState::NeedsItem(cause), ItemInput::ItemRead { image, at }) => {
                let image = image.map(KeyedImage::new);
                ItemState::AwaitingLookup(CountBasis::Table { cause, image, at })
            }
            (ItemState::AwaitingLookup(basis), ItemInput::LookupsResolved(lookups)) => {
                self.plan_basis(basis, lookups, context, targets)
            }
            (ItemState::Planned(planned), input) => self.after_write(*planned, input, context, targets),
            (_, ItemInput::GivenUp(error)) => ItemState::Failed(error),
            (_, _) => ItemState::Failed(unexpected_input()),
        };
    }

    /// The state after the result of a planned write.
    fn after_write(
        &mut self,
        planned: PlannedItem<'r>,
        input: ItemInput<'r, '_>,
        context: StepContext<'_>,
        targets: &mut RollupTargets,
    ) -> ItemState<'r> {
        match input {
            ItemInput::Written => self.apply(planned, context, targets),
            ItemInput::Refused { entry, markers } => {
                self.facts.learn_markers(markers);
                let reconciliation = planned.basis.reconciliation();
                match entry {
                    Some(entry) => self.learn_entry(entry, reconciliation, context, targets),
                    None => self.next_state(reconciliation, context),
                }
            }
            ItemInput::Rejected(error) => self.reject(&planned.plan.records, planned.basis, &error, context),
            ItemInput::ResponseLost => {
                self.counted.authors.note_others(true);
                // A later read shows whether it was written, and not what was dropped.
                context.tally.dropped_contributions.add(planned.plan.lost);
                ItemState::Unread(planned.basis.reconciliation())
            }
            ItemInput::GivenUp(_) if self.are_parked_again(&planned.plan.records) => {
                let message = "DynamoDB rejected the parked record again, with other parked records";
                let error = Error::new(ErrorKind::Rejected, message);
                self.reject(&planned.plan.records, planned.basis, &error, context)
            }
            ItemInput::GivenUp(error) => ItemState::Failed(error),
            ItemInput::EntryRead { .. } | ItemInput::ItemRead { .. } | ItemInput::LookupsResolved(_) => {
                ItemState::Failed(unexpected_input())
            }
        }
    }

    /// Decodes the stored entry, and decides by it.
    fn learn_entry(
        &mut self,
        stored: Option<Item>,
        reconciliation: Reconciliation,
        context: StepContext<'_>,
        targets: &mut RollupTargets,
    ) -> ItemState<'r> {
        self.facts.learn_entry(stored, targets);
        if let Some(entry) = self.facts.readable_entry() {
            let is_other = entry.generation == context.core.model.generation
                && !entry.fingerprint.is_empty()
                && entry.fingerprint != *context.core.model.fingerprint();
            context.tally.other_models.add(u64::from(is_other));
            // A reconciliation is repeated if its author stopped before it refreshed the mirrors.
            let may_be_reconciled =
                reconciliation.is_begun() || self.facts.may_be_counted_by_reconciliation(entry);
            self.counted.authors.note_others(may_be_reconciled);
        }
        let next = self.next_state(reconciliation, context);
        if self.facts.unreadable_entry().is_some() {
            return next;
        }
        let uncounted = if let ItemState::AwaitingLookup(CountBasis::Records { decision, .. }) = &next {
            decision.uncounted.len()
        } else {
            0
        };
        self.counted.authors.note_others(uncounted < self.facts.records.changes.len());
        next
    }

    /// The state after what is known now.
    fn next_state(&mut self, reconciliation: Reconciliation, context: StepContext<'_>) -> ItemState<'r> {
        self.facts.note_unreadable();
        if let Some(unreadable) = self.facts.unreadable_entry() {
            let error = unreadable.error.restated();
            return self.next_of_unreadable(&reconciliation, error, context);
        }
        let decision = self.decide_records(reconciliation.is_item_read(), context);
        self.counted.old_expiries = decision.too_old_expiries.len();
        // The last image of a removed item settles its expiry, and offers outputs to the lookups of other items.
        let is_looked_up = self.facts.is_looked_up();
        self.facts.records.decode_old_images(&context.core.model.attributes, |index| {
            is_looked_up || decision.expiries.contains(&index)
        });
        self.peers.turn = self.facts.write_turn(&decision);
        let needs_item = !decision.needing_item.is_empty() || self.facts.healed_record(&decision).is_some();
        match reconciliation {
            Reconciliation::Exported(exported) if self.facts.readable_entry().is_none() => {
                let ExportedImage { image, at } = *exported;
                let (cause, image) = (ReconciliationCause::Request, Some(KeyedImage::new(image)));
                ItemState::AwaitingLookup(CountBasis::Table { cause, image, at })
            }
            Reconciliation::Exported(_) => ItemState::NeedsItem(ReconciliationCause::Request),
            Reconciliation::Due(cause) => ItemState::NeedsItem(cause),
            Reconciliation::NotDue(TableReading::NotRead) if needs_item => {
                ItemState::NeedsItem(ReconciliationCause::Record)
            }
            Reconciliation::NotDue(reading)
                if decision.is_empty() && self.facts.records.uncountable().next().is_none() =>
            {
                ItemState::Committed(reading)
            }
            Reconciliation::NotDue(reading) => {
                ItemState::AwaitingLookup(CountBasis::Records { decision, reading })
            }
        }
    }

    /// Parks the records of an item whose entry cannot be read. Without records, or if records are not parked, the item
    /// fails.
    fn next_of_unreadable(
        &mut self,
        reconciliation: &Reconciliation,
        error: Error,
        context: StepContext<'_>,
    ) -> ItemState<'r> {
        self.peers.turn = WriteTurn::First;
        if reconciliation.is_requested() || context.core.poison == PoisonPolicy::Fail {
            return ItemState::Failed(error);
        }
        let is_looked_up = self.facts.is_looked_up();
        self.facts.records.decode_old_images(&context.core.model.attributes, |_| is_looked_up);
        ItemState::AwaitingLookup(CountBasis::Unreadable)
    }

    /// The decision by what is known now.
    fn decide_records(&self, is_item_read: bool, context: StepContext<'_>) -> RecordDecision {
        let facts = &self.facts;
        let settles = |index| facts.settles_record(index);
        // The time at which the age of records is judged. No record is older than 1970.
        let judged_at = match context.core.history {
            TombstoneHistory::Expiring => context.now,
            TombstoneHistory::Complete | TombstoneHistory::Imported => Timestamp::from_epoch_ms(0),
        };
        let (entry, records) = (facts.readable_entry(), &facts.records.changes);
        let mut decision = decide(entry, records, &facts.markers, settles, judged_at, is_item_read);
        decision.changes_lives =
            facts.changed_lives(&decision, &decision.expiries, &[], context.now).is_some();
        decision
    }

    /// Plans the next write.
    fn plan_basis(
        &mut self,
        basis: CountBasis,
        lookups: &LookupResults,
        context: StepContext<'_>,
        targets: &mut RollupTargets,
    ) -> ItemState<'r> {
        let images = ImageEvaluation { core: context.core, lookups, targets };
        let mut evaluation = WorkEvaluation { facts: &mut self.facts, images, now: context.now };
        let work = match &basis {
            CountBasis::Unreadable => evaluation.of_unreadable(),
            CountBasis::Records { decision, .. } => evaluation.of_records(decision),
            CountBasis::Table { image, at, .. } => {
                match evaluation.of_table(image.as_ref().map(KeyedImage::borrowed), *at) {
                    Ok(work) if work.is_empty() => {
                        return self.next_state(Reconciliation::NotDue(basis.reading()), context);
                    }
                    Ok(work) => work,
                    Err(error) => return self.reject(&[], basis, &error, context),
                }
            }
        };
        if work.is_empty() {
            return ItemState::Committed(basis.reading());
        }
        let records = work.records.clone();
        let StepContext { core, now, service_now, .. } = context;
        let (model, history, dropped) = (&*core.model, core.history, core.dropped);
        let planner = ItemPlanner { model, targets, now, service_now, history, dropped };
        match planner.plan(self.facts.readable_entry(), self.stale_departed(), work) {
            Ok(plan) => ItemState::Planned(Box::new(PlannedItem { plan, basis })),
            Err(error) => self.reject(&records, basis, &error, context),
        }
    }

    /// The rollups that the item left and whose mirrors may still be stale: no refresh since is known.
    ///
    /// A record is redelivered until the mirrors of the rollups that its plan left are refreshed. So if this delivery finds no record of the
    /// item counted already, these mirrors are fresh. Two exceptions leave them stale: the records were discarded, or a reconciliation left the
    /// rollups and was not repeated.
    fn stale_departed(&self) -> &[TargetId] {
        let may_be_stale = self.counted.authors.are_others() || !self.counted.changed_targets.is_empty();
        self.facts.readable_entry().filter(|_| may_be_stale).map_or(&[], |entry| &entry.departed)
    }

    /// Notes the committed plan, and decides about the records that are left.
    fn apply(
        &mut self,
        PlannedItem { plan, basis }: PlannedItem<'r>,
        context: StepContext<'_>,
        targets: &RollupTargets,
    ) -> ItemState<'r> {
        context.tally.ledger_writes.add(1);
        context.tally.folded.add_len(plan.records.len().saturating_sub(1));
        context.tally.skipped.add(plan.skipped);
        context.tally.dropped_contributions.add(plan.lost);
        let is_parked = plan.entry.behind.is_some() && plan.entry.behind.as_ref() != self.facts.behind();
        let parked_expiries = plan.markers.iter().filter(|marker| marker.parked.is_some()).count();
        context.tally.parked.add_len(usize::from(is_parked) + parked_expiries);
        self.counted.records += plan.records.len();
        self.counted.changed_targets.extend(plan.mirrored_targets(targets));
        self.counted
            .departed_targets
            .extend(self.facts.readable_entry().iter().flat_map(|entry| &entry.departed));
        let written =
            plan.markers.into_iter().map(|marker| StoredMarker::written(marker.position, marker.parked));
        self.facts.learn_markers(written.collect());
        match &mut self.facts.entry {
            KnownEntry::Unreadable(unreadable) => {
                unreadable.behind = plan.entry.behind.map(ParkedPosition::into_owned);
            }
            entry @ (KnownEntry::Unread | KnownEntry::Absent | KnownEntry::Readable(_)) => {
                *entry = KnownEntry::Readable(plan.entry)
            }
        }
        context.tally.reconciled.add(u64::from(basis.is_table()));
        self.next_state(Reconciliation::NotDue(basis.reading()), context)
    }

    /// Gives these records an error, because no plan of theirs is possible, and decides about the others.
    fn reject(
        &mut self,
        records: &[usize],
        basis: CountBasis,
        error: &Error,
        context: StepContext<'_>,
    ) -> ItemState<'r> {
        if let CountBasis::Table { cause, image, .. } = basis {
            return self.without_table((cause, image), error, context);
        }
        if records.is_empty() || !error.kind().is_poison() {
            return ItemState::Failed(error.restated());
        }
        self.peers.group = PeerGroup::All;
        self.facts.records.errors.extend(records.iter().map(|index| (*index, error.restated())));
        self.next_state(basis.reconciliation(), context)
    }

    /// Whether an earlier delivery has parked these records, and this one has rejected them again, in a transaction with
    /// others. There is no need to isolate them until the deadline: if they failed then, they would hold up their shard.
    /// An item that offers outputs to lookups must be delivered until they are remembered.
    fn are_parked_again(&self, records: &[usize]) -> bool {
        let TransactionPeers { group, turn, .. } = self.peers;
        let are_marked = records.iter().all(|index| self.facts.is_marked(*index));
        let is_alone_in_turn = turn == WriteTurn::ParkedAgain && group != PeerGroup::All;
        is_alone_in_turn && are_marked && !self.facts.is_looked_up()
    }

    /// Continues with the item's records, because the item cannot be counted as its table has it. The records that needed
    /// it have the error. An expiry that is too old to be settled has none: a marker for it would let it be settled later.
    fn without_table(
        &mut self,
        (cause, image): (ReconciliationCause, Option<KeyedImage<'static>>),
        error: &Error,
        context: StepContext<'_>,
    ) -> ItemState<'r> {
        if cause == ReconciliationCause::Request || !error.kind().is_poison() {
            return ItemState::Failed(error.restated());
        }
        let decision = self.decide_records(false, context);
        let mut needing_table = decision.needing_item.clone();
        needing_table.extend(self.facts.healed_record(&decision));
        needing_table.retain(|index| !decision.too_old_expiries.contains(index));
        for index in needing_table {
            self.facts.records.errors.entry(index).or_insert_with(|| error.restated());
        }
        self.peers.group = PeerGroup::All;
        self.next_state(Reconciliation::NotDue(TableReading::Read(image)), context)
    }

    /// Whether a write that this batch did not confirm may have left mirrors stale.
    pub(crate) fn is_counted_elsewhere(&self) -> bool {
        self.state.is_committed() && self.counted.authors.are_others()
    }

    /// Whether the item may have left a mirror stale, or shows one itself.
    pub(crate) fn concerns_mirrors(&self) -> bool {
        self.counted.concerns_mirrors() || self.facts.has_mirrors() || self.is_counted_elsewhere()
    }

    /// The records that could not be counted.
    pub(crate) fn finish(self, context: StepContext<'_>) -> UncountedRecords {
        let mut uncounted = UncountedRecords::default();
        let records = &self.facts.records;
        if self.state.is_committed() {
            let uncountable = records.errors.len().min(records.changes.len());
            let handled = self.counted.records + self.counted.old_expiries + uncountable;
            let counted_before = records.changes.len().saturating_sub(handled);
            context.tally.duplicates.add_len(counted_before + records.repeated);
            context.tally.expiries_too_old.add_len(self.counted.old_expiries);
        }
        for record in records.uncountable().filter(|record| !self.facts.is_counted(record)) {
            let failure = RecordFailure { index: record.batch_index, error: record.error.restated() };
            let list = if self.facts.is_parked(&record, context.core.poison) {
                &mut uncounted.parked
            } else {
                &mut uncounted.failures
            };
            list.push(failure);
        }
        let index = records.first_batch_index();
        let is_listed = uncounted.failures.iter().any(|failure| failure.index == index);
        if let ItemState::Failed(error) = self.state
            && !is_listed
        {
            uncounted.failures.push(RecordFailure { index, error });
        }
        uncounted
    }
}

fn unexpected_input() -> Error {
    let message =
        "the ledger gave an item something that it did not wait for; this is a defect of Afterwrite";
    Error::new(ErrorKind::State, message)
}
