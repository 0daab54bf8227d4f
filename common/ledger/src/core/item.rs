//! One item of a batch, and the states it passes through.
//!
//! ```text
//!                    lost response
//!        ┌────────────────────────────────────────┐
//!        ▼          entry        lookups          │    written, and nothing is left to count
//!     Unread ──────────────▶ AwaitingLookup ─▶ Planned ───────────────────────────────────▶ Committed
//!                  │            ▲ ▲    │          │ │
//!     its table is │            │ │    │          │ └─ refused: the entry or a marker changed ─▶ AwaitingLookup
//!     to be read   ▼   item     │ │    │          └─── rejected: its records have errors ──────▶ AwaitingLookup
//!              NeedsItem ───────┘ │    │
//!                                 └────┴─ written, and records are left: the next plan         any ─▶ Failed
//! ```
//!
//! A record that cannot be counted does not stop its item: it has an error, the other records are counted, and the plan
//! marks the item as parked. So there is no state for it. The same holds for a record that needs the item's table, if
//! the item cannot be counted as its table has it.

use afterwrite_model::effect::ItemKey;
use afterwrite_model::entity::{ItemCandidates, SourceKey};
use afterwrite_model::projection::{ItemContributions, RollupTargets, ShardAssignment, TargetId};
use afterwrite_model::record::{Image, Item, Position, RecordFailure, Timestamp};
use afterwrite_model::{Error, ErrorKind};

use super::StepContext;
use super::decide::{RecordDecision, decide};
use super::lookups::LookupResults;
use super::plan::{ItemPlan, ItemPlanner};
use super::records::{DeliveredRecords, SourceItem};
use crate::policy::TransactionPeers;
use crate::state::entry::{LedgerEntry, ParkedPosition, UnreadableEntry};
use crate::state::marker::StoredMarker;

/// The step that an item of a batch waits for.
#[derive(Debug)]
pub(crate) enum ItemState<'r> {
    /// Its entry must be read: it never was, or a write with an unknown response may have changed it.
    Unread,
    /// The item itself must be read from its table. Its entry has been read before; reconciling depends on this order.
    NeedsItem,
    /// Its records are decided; it is planned as soon as its lookups are resolved.
    AwaitingLookup(CountBasis),
    /// The plan must be written.
    Planned(Box<ItemPlan<'r>>),
    /// All its records are counted, or have errors.
    Committed,
    /// It cannot be counted now.
    Failed(Error),
}

/// The basis that an item is counted from.
#[derive(Debug)]
pub(crate) enum CountBasis {
    /// Its records.
    Records(RecordDecision),
    /// Nothing: its entry cannot be read, so its records are parked.
    Unreadable,
    /// The item as its table has it, if it exists, and when it was read.
    Table { image: Option<Image<'static>>, at: Timestamp },
}

/// News for an item, from the driver.
#[derive(Debug)]
pub(crate) enum ItemInput<'r, 'l> {
    /// Its entry was read, and those markers of its expiries that exist.
    EntryRead { entry: Option<Item>, markers: Vec<StoredMarker<'r>> },
    /// The item was read from its table.
    ItemRead { image: Option<Image<'static>>, at: Timestamp },
    /// Every lookup that it needs has a result.
    LookupsResolved(&'l LookupResults),
    /// Its plan took effect.
    Committed,
    /// Its plan did not take effect, because the entry or markers differ from what was known.
    Refused { entry: Option<Option<Item>>, markers: Vec<StoredMarker<'r>> },
    /// Its plan did not take effect and never will.
    Rejected(Error),
    /// Whether its plan took effect is unknown.
    ResponseLost,
    /// There is no time left, or a request that it needs failed.
    GivenUp(Error),
}

/// An item as a table export has it.
#[derive(Clone, Debug)]
pub struct ExportedImage {
    /// The item.
    pub image: Image<'static>,
    /// The time of the export.
    pub at: Timestamp,
}

/// Whether the item must be counted from its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reconciliation {
    Unneeded,
    /// A record needs it.
    Needed,
    /// The caller requested it, regardless of records.
    Requested,
    Done,
    /// The item cannot be counted as its table has it.
    Impossible,
}

/// One item of a batch.
#[derive(Debug)]
pub(crate) struct LedgerItem<'r> {
    pub(crate) source: &'r SourceKey<'r>,
    pub(crate) candidates: &'r ItemCandidates<'r, 'r>,
    pub(crate) records: DeliveredRecords<'r>,
    pub(crate) state: ItemState<'r>,
    /// The entry as it is stored, as far as known.
    pub(crate) entry: Option<LedgerEntry<'r>>,
    /// The entry as it is stored, if it cannot be read.
    pub(crate) unreadable: Option<Box<UnreadableEntry>>,
    /// The entry's key; set from reading the entry until writing it.
    pub(crate) entry_key: Option<ItemKey>,
    /// The markers that are stored, as far as known.
    pub(super) markers: Vec<StoredMarker<'r>>,
    pub(super) reconciliation: Reconciliation,
    /// The item as its table had it when it was reconciled, if it was.
    pub(super) table_image: Option<Image<'static>>,
    /// The item as a table export has it, and the time of the export: counted in place of the item if it has no entry.
    exported: Option<ExportedImage>,
    /// The label of the table's stream, for an item without records.
    stream: &'r str,
    /// The items that may share its transactions.
    pub(crate) peers: TransactionPeers,
    /// Whether a write whose response this batch has not seen counted something of the item: a write of an earlier
    /// delivery, of another consumer, or of this batch with a lost response. Its author may not have refreshed any
    /// mirror.
    is_counted_elsewhere: bool,
    /// The rollups whose mirrors must be refreshed because of what was committed.
    pub(crate) changed_targets: Vec<TargetId>,
    /// The rollups that the item had left before. Their mirrors are stale only if the author crashed and its records were discarded.
    pub(crate) left_targets: Vec<TargetId>,
    /// The number of records that this batch counted or settled.
    counted_records: usize,
    /// The number of expiries that are too old to be settled.
    old_expiries: usize,
}

/// The records of an item that were not counted.
#[derive(Debug, Default)]
pub(crate) struct UncountedRecords {
    /// The records to deliver again.
    pub(crate) failures: Vec<RecordFailure>,
    /// The records whose item is marked as parked because of them.
    pub(crate) parked: Vec<RecordFailure>,
}

impl<'r> LedgerItem<'r> {
    pub(crate) fn new(item: SourceItem<'r>) -> Self {
        Self {
            source: item.source,
            candidates: item.candidates,
            records: DeliveredRecords::new(item.records, item.candidates),
            state: ItemState::Unread,
            entry: None,
            unreadable: None,
            entry_key: None,
            markers: Vec::new(),
            reconciliation: Reconciliation::Unneeded,
            table_image: None,
            exported: None,
            stream: "",
            peers: TransactionPeers::default(),
            is_counted_elsewhere: false,
            changed_targets: Vec::new(),
            left_targets: Vec::new(),
            counted_records: 0,
            old_expiries: 0,
        }
    }

    /// An item that is reconciled with its table, regardless of its records.
    pub(crate) fn reconciling(item: SourceItem<'r>, stream: &'r str) -> Self {
        Self { reconciliation: Reconciliation::Requested, stream, ..Self::new(item) }
    }

    /// The same item, counted from an export if it has no entry.
    pub(crate) fn with_export(self, exported: ExportedImage) -> Self {
        Self { exported: Some(exported), ..self }
    }

    /// The next state, by what the driver has learned.
    pub(crate) fn step(
        &mut self,
        input: ItemInput<'r, '_>,
        context: StepContext<'_>,
        targets: &mut RollupTargets,
    ) {
        let state = std::mem::replace(&mut self.state, ItemState::Unread);
        self.state = match (state, input) {
            (ItemState::Unread, ItemInput::EntryRead { entry, markers }) => {
                self.markers = markers;
                self.learn_entry(entry, context, targets)
            }
            (ItemState::NeedsItem, ItemInput::ItemRead { image, at }) => {
                ItemState::AwaitingLookup(CountBasis::Table { image, at })
            }
            (ItemState::AwaitingLookup(basis), ItemInput::LookupsResolved(lookups)) => {
                self.plan(basis, lookups, context, targets)
            }
            (ItemState::Planned(plan), ItemInput::Committed) => self.apply(*plan, context, targets),
            (ItemState::Planned(_), ItemInput::Refused { entry, markers }) => {
                self.markers.retain(|known| markers.iter().all(|new| new.position != known.position));
                self.markers.extend(markers);
                match entry {
                    Some(entry) => self.learn_entry(entry, context, targets),
                    None => self.decide(context),
                }
            }
            (ItemState::Planned(plan), ItemInput::Rejected(error)) => {
                self.reject(&plan.records, &error, context)
            }
            (ItemState::Planned(_), ItemInput::ResponseLost) => {
                self.is_counted_elsewhere = true;
                ItemState::Unread
            }
            (ItemState::Planned(plan), ItemInput::GivenUp(_)) if self.are_parked_again(&plan.records) => {
                let message = "DynamoDB rejected the parked record again, with other parked records";
                self.reject(&plan.records, &Error::new(ErrorKind::Rejected, message), context)
            }
            (_, ItemInput::GivenUp(error)) => ItemState::Failed(error),
            (_, _) => ItemState::Failed(Error::new(
                ErrorKind::State,
                "the ledger gave an item something that it did not wait for; this is a defect of Afterwrite",
            )),
        };
    }

    /// Decodes the stored entry, and decides by it.
    fn learn_entry(
        &mut self,
        stored: Option<Item>,
        context: StepContext<'_>,
        targets: &mut RollupTargets,
    ) -> ItemState<'r> {
        (self.entry, self.unreadable) = match stored.map(|item| (LedgerEntry::decode(&item, targets), item)) {
            None => (None, None),
            Some((Ok(entry), _)) => (Some(entry), None),
            Some((Err(error), item)) => (None, Some(Box::new(UnreadableEntry::new(item, error)))),
        };
        if let Some(entry) = &self.entry {
            let is_other = entry.generation == context.core.model.generation
                && !entry.fingerprint.is_empty()
                && entry.fingerprint != *context.core.model.fingerprint();
            context.tally.other_models.add(u64::from(is_other));
            // A reconciliation is repeated if its author stopped before it refreshed the mirrors.
            self.is_counted_elsewhere |= self.reconciliation != Reconciliation::Unneeded
                || self.may_be_counted_by_reconciliation(entry);
        }
        let next = self.decide(context);
        if self.unreadable.is_some() {
            return next;
        }
        let open = if let ItemState::AwaitingLookup(CountBasis::Records(decision)) = &next {
            decision.uncounted.len()
        } else {
            0
        };
        self.is_counted_elsewhere |= open < self.records.changes.len();
        next
    }

    /// Decides which records must be counted.
    pub(super) fn decide(&mut self, context: StepContext<'_>) -> ItemState<'r> {
        self.note_unreadable();
        if let Some(unreadable) = &self.unreadable {
            let error = unreadable.error.restated();
            return self.decide_unreadable(&error, context);
        }
        let decision = self.decision(context);
        self.old_expiries = decision.too_old_expiries.len();
        // The last image of a removed item settles its expiry, and offers outputs to the lookups of other items.
        let is_looked_up = self.is_looked_up();
        self.records.decode_old_images(&context.core.model.attributes, |index| {
            is_looked_up || decision.expiries.contains(&index)
        });
        self.peers.is_retry = self.retries_parked_record(&decision);
        let must_reconcile = !decision.needing_item.is_empty() || self.healed_record(&decision).is_some();
        if must_reconcile && self.reconciliation == Reconciliation::Unneeded {
            self.reconciliation = Reconciliation::Needed;
        }
        if self.must_reconcile() {
            match self.exported.take().filter(|_| self.entry.is_none()) {
                Some(ExportedImage { image, at }) => {
                    ItemState::AwaitingLookup(CountBasis::Table { image: Some(image), at })
                }
                None => ItemState::NeedsItem,
            }
        } else if decision.is_empty() && self.records.defective().next().is_none() {
            ItemState::Committed
        } else {
            ItemState::AwaitingLookup(CountBasis::Records(decision))
        }
    }

    /// The decision by what is known now.
    pub(super) fn decision(&self, context: StepContext<'_>) -> RecordDecision {
        let is_item_read = match self.reconciliation {
            Reconciliation::Done | Reconciliation::Impossible => true,
            Reconciliation::Unneeded | Reconciliation::Needed | Reconciliation::Requested => false,
        };
        let (entry, records) = (self.entry.as_ref(), &self.records.changes);
        let judged_at = context.core.judged_at(context.now);
        decide(entry, records, &self.markers, |index| self.settles_record(index), judged_at, is_item_read)
    }

    pub(super) fn must_reconcile(&self) -> bool {
        match self.reconciliation {
            Reconciliation::Needed | Reconciliation::Requested => true,
            Reconciliation::Unneeded | Reconciliation::Done | Reconciliation::Impossible => false,
        }
    }

    /// Plans the next write.
    fn plan(
        &mut self,
        basis: CountBasis,
        lookups: &LookupResults,
        context: StepContext<'_>,
        targets: &mut RollupTargets,
    ) -> ItemState<'r> {
        if let CountBasis::Table { image, .. } = &basis {
            self.table_image.clone_from(image);
        }
        let work = match &basis {
            CountBasis::Unreadable => self.work_of_unreadable(),
            CountBasis::Records(decision) => self.work_of_records(decision, lookups, context, targets),
            CountBasis::Table { image, at } => {
                match self.work_of_table(image.as_ref(), *at, lookups, context, targets) {
                    Ok(work) => work,
                    Err(error) => return self.without_table(&error, context),
                }
            }
        };
        if work.is_empty() {
            return match basis {
                CountBasis::Records(_) | CountBasis::Unreadable => ItemState::Committed,
                CountBasis::Table { .. } => {
                    self.reconciliation = Reconciliation::Done;
                    self.decide(context)
                }
            };
        }
        let records = work.records.clone();
        let StepContext { core, now, .. } = context;
        let planner = ItemPlanner { model: &core.model, targets, now, dropped: core.dropped };
        match planner.plan(self.entry.as_ref(), self.stale_left(), work) {
            Ok(plan) => ItemState::Planned(Box::new(plan)),
            Err(error) => self.reject(&records, &error, context),
        }
    }

    /// The rollups that the item left and whose mirrors may still be stale: nobody is known to have refreshed them since.
    ///
    /// The records whose plan left them are delivered until their mirrors are refreshed. So if no record of the item is counted
    /// already, they are; except if those records were discarded, or if a reconciliation left them and was not repeated.
    fn stale_left(&self) -> &[TargetId] {
        let may_be_stale = self.is_counted_elsewhere || !self.changed_targets.is_empty();
        self.entry.as_ref().filter(|_| may_be_stale).map_or(&[], |entry| &entry.left)
    }

    /// Notes the committed plan, and decides about the records that are left.
    fn apply(
        &mut self,
        plan: ItemPlan<'r>,
        context: StepContext<'_>,
        targets: &RollupTargets,
    ) -> ItemState<'r> {
        context.tally.ledger_writes.add(1);
        context.tally.folded.add_len(plan.records.len().saturating_sub(1));
        context.tally.skipped.add(plan.skipped);
        let is_parked = plan.entry.behind.is_some() && plan.entry.behind.as_ref() != self.behind();
        let parked_expiries = plan.markers.iter().filter(|marker| marker.parked.is_some()).count();
        context.tally.parked.add_len(usize::from(is_parked) + parked_expiries);
        self.counted_records += plan.records.len();
        self.changed_targets.extend(plan.mirrored_targets(targets));
        self.left_targets.extend(self.entry.iter().flat_map(|entry| &entry.left));
        for marker in plan.markers {
            self.markers.retain(|known| known.position != marker.position);
            self.markers.push(StoredMarker::written(marker.position, marker.parked));
        }
        self.note_life(&plan.entry, context);
        match &mut self.unreadable {
            Some(unreadable) => unreadable.behind = plan.entry.behind.map(ParkedPosition::into_owned),
            None => self.entry = Some(plan.entry),
        }
        if self.must_reconcile() {
            context.tally.reconciled.add(1);
            self.reconciliation = Reconciliation::Done;
        }
        self.decide(context)
    }

    /// Gives these records an error, because no plan of theirs is possible, and decides about the others.
    fn reject(&mut self, records: &[usize], error: &Error, context: StepContext<'_>) -> ItemState<'r> {
        if self.must_reconcile() {
            return self.without_table(error, context);
        }
        if records.is_empty() || !error.kind().is_poison() {
            return ItemState::Failed(error.restated());
        }
        self.peers.group = None;
        self.records.errors.extend(records.iter().map(|index| (*index, error.restated())));
        self.decide(context)
    }

    /// Whether the item can have outputs for lookups of other items.
    pub(crate) fn is_looked_up(&self) -> bool {
        self.candidates.any(|entity| !entity.offers.is_empty())
    }

    /// Whether the item can show mirrors.
    pub(crate) fn has_mirrors(&self) -> bool {
        self.candidates.any(|entity| !entity.mirrors.is_empty())
    }

    /// Whether the item waits for nothing any more.
    pub(crate) fn is_finished(&self) -> bool {
        match self.state {
            ItemState::Committed | ItemState::Failed(_) => true,
            ItemState::Unread
            | ItemState::NeedsItem
            | ItemState::AwaitingLookup(_)
            | ItemState::Planned(_) => false,
        }
    }

    /// Whether the item is counted, by this batch or before it.
    pub(crate) fn is_committed(&self) -> bool {
        matches!(self.state, ItemState::Committed)
    }

    /// Whether a write that this batch did not confirm may have left mirrors stale.
    pub(crate) fn is_counted_elsewhere(&self) -> bool {
        self.is_committed() && self.is_counted_elsewhere
    }

    /// The plan to write.
    pub(crate) fn planned(&self) -> Option<&ItemPlan<'r>> {
        match &self.state {
            ItemState::Planned(plan) => Some(plan),
            ItemState::Unread
            | ItemState::NeedsItem
            | ItemState::AwaitingLookup(_)
            | ItemState::Committed
            | ItemState::Failed(_) => None,
        }
    }

    /// The plan to write, to drop from it what would change nothing.
    pub(crate) fn planned_mut(&mut self) -> Option<&mut ItemPlan<'r>> {
        match &mut self.state {
            ItemState::Planned(plan) => Some(plan),
            ItemState::Unread
            | ItemState::NeedsItem
            | ItemState::AwaitingLookup(_)
            | ItemState::Committed
            | ItemState::Failed(_) => None,
        }
    }

    /// The contributions that are counted now, as far as known.
    pub(crate) fn current(&self) -> &ItemContributions {
        self.entry.as_ref().map_or(const { &ItemContributions::NOTHING }, |entry| &entry.current)
    }

    /// The assignment of the item to the shards of sharded rollups.
    pub(crate) fn sharding(&self) -> ShardAssignment<'_> {
        ShardAssignment { source: self.source, current: self.current() }
    }

    /// The positions of the expiries that have to be settled.
    pub(crate) fn expiry_positions(&self) -> impl Iterator<Item = Position<'r>> {
        let settles = self.may_settle();
        self.records.expiry_positions().filter(move |_| settles)
    }

    /// The label of the stream that the item's next records come from.
    pub(crate) fn stream_label(&self) -> &str {
        self.records.stream_label().unwrap_or(self.stream)
    }

    /// The records that could not be counted.
    pub(crate) fn finish(self, context: StepContext<'_>) -> UncountedRecords {
        let mut uncounted = UncountedRecords::default();
        if self.is_committed() {
            let defective = self.records.errors.len().min(self.records.changes.len());
            let open = self.counted_records + self.old_expiries + defective;
            let skipped = self.records.changes.len().saturating_sub(open);
            context.tally.duplicates.add_len(skipped + self.records.repeated);
            context.tally.expiries_too_old.add_len(self.old_expiries);
        }
        for record in self.records.defective().filter(|record| !self.is_counted(record)) {
            let failure = RecordFailure { index: record.batch_index, error: record.error.restated() };
            let list = if self.is_parked(&record, context.core.poison) {
                &mut uncounted.parked
            } else {
                &mut uncounted.failures
            };
            list.push(failure);
        }
        let index = self.records.first_batch_index();
        let is_listed = uncounted.failures.iter().any(|failure| failure.index == index);
        if let ItemState::Failed(error) = self.state
            && !is_listed
        {
            uncounted.failures.push(RecordFailure { index, error });
        }
        uncounted
    }
}
