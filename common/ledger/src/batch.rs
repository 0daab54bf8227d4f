//! A batch in progress.

use std::collections::BTreeSet;

use afterwrite_model::Error;
use afterwrite_model::clock::Clock as _;
use afterwrite_model::projection::{RollupTargets, TargetId, offered_outputs};
use afterwrite_model::record::Item;
use hashbrown::HashMap;

use super::core::lookups::LookupResults;
use super::core::pack::PackedTransaction;
use super::core::{ItemInput, ItemState, LedgerCore, LedgerItem, StepContext};
use super::lookup::LookupStage;
use super::policy::{PeerGroup, SplitCause, WriteTurn};
use super::requests::Requests;
use super::state::rollup::{ReadRollup, RollupUpdate, changes_rollup, computed_rollup};

/// The surroundings of a batch that every stage uses.
#[derive(Clone, Copy)]
pub(crate) struct BatchContext<'l> {
    pub(crate) core: &'l LedgerCore,
    pub(crate) requests: &'l Requests<'l>,
    pub(crate) lookups: &'l LookupStage<'l>,
}

impl<'l> BatchContext<'l> {
    /// The context of the items' steps at this moment.
    pub(crate) fn step_context(&self) -> StepContext<'l> {
        let now = self.requests.clock.now();
        let service_now = self.requests.service_time(now);
        StepContext { core: self.core, now, service_now, tally: self.requests.tally }
    }
}

/// The items of a batch, and what was learned for all of them.
#[derive(Debug)]
pub(crate) struct LedgerBatch<'r> {
    pub(crate) items: Vec<LedgerItem<'r>>,
    pub(crate) targets: RollupTargets,
    pub(crate) lookups: LookupResults,
    /// The rollups that were read, because an update depends on what is stored: those with computed measures, and those with a change that
    /// cannot be added. They are as stored, as far as known.
    pub(crate) read_rollups: HashMap<TargetId, Option<Item>>,
    /// How far the mirrors of each item are.
    pub(crate) mirrors: Vec<MirrorProgress>,
    /// The mirrors that could not be written.
    pub(crate) unwritable_mirrors: Vec<Error>,
    /// The number of the next group of items that share transactions with no others.
    pub(crate) next_group: u32,
    /// How often a transaction was rejected as invalid.
    pub(crate) rejections: usize,
}

/// How far the mirrors of a committed item are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MirrorProgress {
    Untried,
    /// Some may have been written. Another attempt can write the others.
    Delayed,
    Refreshed,
}

impl<'r> LedgerBatch<'r> {
    pub(crate) fn new(items: Vec<LedgerItem<'r>>, targets: RollupTargets) -> Self {
        let mirrors = vec![MirrorProgress::Untried; items.len()];
        Self {
            items,
            targets,
            mirrors,
            lookups: LookupResults::default(),
            read_rollups: HashMap::new(),
            unwritable_mirrors: Vec::new(),
            next_group: 0,
            rejections: 0,
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.items.iter().all(|item| item.state.is_finished())
    }

    /// The items in progress, with their indexes.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = (usize, &LedgerItem<'r>)> {
        self.items.iter().enumerate().filter(|(_, item)| !item.state.is_finished())
    }

    /// The committed items whose mirrors are not refreshed yet, with their indexes.
    pub(crate) fn unrefreshed(&self) -> impl Iterator<Item = (usize, &LedgerItem<'r>)> {
        let items = self.items.iter().enumerate().zip(&self.mirrors);
        let is_open = |item: &LedgerItem<'r>, progress| {
            item.state.is_committed() && progress != MirrorProgress::Refreshed
        };
        items.filter(move |((_, item), progress)| is_open(item, **progress)).map(|(item, _)| item)
    }

    /// Notes how far the mirrors of these items are.
    pub(crate) fn note_mirrors(&mut self, indexes: &BTreeSet<usize>, progress: MirrorProgress) {
        for index in indexes {
            if let Some(noted) = self.mirrors.get_mut(*index) {
                *noted = progress;
            }
        }
    }

    /// The item with this index.
    pub(crate) fn item(&self, index: usize) -> &LedgerItem<'r> {
        #[expect(
            clippy::indexing_slicing,
            reason = "indexes come from enumerating `items`, which never shrinks"
        )]
        &self.items[index]
    }

    /// A rollup as it was read, if this update depends on what is stored.
    pub(crate) fn read_rollup(&self, id: TargetId, update: &RollupUpdate) -> Option<ReadRollup<'_>> {
        let stored = self.read_rollups.get(&id)?;
        let computed = computed_rollup(&self.targets, id);
        let is_needed = computed.is_some() || update.exceeds();
        is_needed.then_some(ReadRollup { computed, stored: stored.as_ref() })
    }

    /// Whether a rollup must be read before the transaction can be sent, because its update depends on what is stored.
    pub(crate) fn lacks_rollup(&self, transaction: &PackedTransaction) -> bool {
        let is_unread = |(id, update): &(TargetId, RollupUpdate)| {
            !self.read_rollups.contains_key(id)
                && (update.exceeds() || computed_rollup(&self.targets, *id).is_some())
        };
        transaction.rollups.iter().any(is_unread)
    }

    /// Tells an item what was learned about it.
    pub(crate) fn step(&mut self, index: usize, input: ItemInput<'r, '_>, context: StepContext<'_>) {
        #[expect(
            clippy::indexing_slicing,
            reason = "indexes come from enumerating `items`, which never shrinks"
        )]
        self.items[index].step(input, context, &mut self.targets);
    }

    /// Plans the items whose lookups are resolved. Returns whether other items still wait.
    pub(crate) fn plan_ready_items(&mut self, context: StepContext<'_>) -> bool {
        let Self { items, lookups, targets, .. } = self;
        let (model, has_needed) = (&context.core.model, lookups.has_needed());
        let mut is_open = false;
        for item in items.iter_mut().filter(|item| matches!(item.state, ItemState::AwaitingLookup(_))) {
            if has_needed && item.state.needed_lookups(&item.facts, model).any(|key| lookups.is_open(key)) {
                is_open = true;
            } else {
                item.step(ItemInput::LookupsResolved(lookups), context, targets);
            }
        }
        is_open
    }

    /// Drops from the plans the values for `max` and `min` that would not change their rollups as they were read.
    pub(crate) fn drop_unchanged_extremes(&mut self) {
        let Self { items, read_rollups, .. } = self;
        for plan in items.iter_mut().filter_map(|item| item.state.planned_mut()) {
            plan.extremes.retain(|extreme| match read_rollups.get(&extreme.target) {
                Some(stored) => changes_rollup(extreme, stored.as_ref()),
                None => true,
            });
        }
    }

    /// Ends the items whose offered outputs are not remembered yet, counted or not: the record, which may be the last to show the
    /// outputs, would not be delivered again otherwise.
    pub(crate) fn give_up_offers(&mut self, error: &Error, context: StepContext<'_>) {
        if !self.lookups.has_open() {
            return;
        }
        let is_open = |(_, item): &(usize, &LedgerItem<'_>)| {
            let images = item.state.offering_images(&item.facts);
            let mut offered =
                images.flat_map(|image| offered_outputs(&context.core.model, item.facts.candidates, image));
            offered.any(|(key, _)| self.lookups.is_open(&key))
        };
        let items =
            self.items.iter().enumerate().filter(|(_, item)| !matches!(item.state, ItemState::Failed(_)));
        let indexes: Vec<usize> = items.filter(is_open).map(|(index, _)| index).collect();
        for index in indexes {
            self.step(index, ItemInput::GivenUp(error.restated()), context);
        }
    }

    /// Ends every item in progress.
    pub(crate) fn give_up(&mut self, error: &Error, context: StepContext<'_>) {
        let unfinished: Vec<usize> = self.unfinished().map(|(index, _)| index).collect();
        for index in unfinished {
            self.step(index, ItemInput::GivenUp(error.restated()), context);
        }
    }

    /// Notes that a transaction was delayed by these items. Returns those that delayed one before.
    pub(crate) fn note_delays(&mut self, indexes: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let mut repeated = Vec::new();
        for index in indexes {
            let Some(item) = self.items.get_mut(index) else { continue };
            if item.peers.note_delay() {
                repeated.push(index);
            }
        }
        repeated
    }

    /// Gives the delaying items transactions of their own, so that no other item waits for them.
    pub(crate) fn separate(&mut self, delaying: &BTreeSet<usize>) {
        let first_tries = self.first_tries(delaying);
        self.start_group(&first_tries);
    }

    /// Notes that a transaction of these items failed as a whole. The second time the items are divided, so that the other items do not
    /// wait for the item that may be the cause.
    pub(crate) fn note_failure(&mut self, indexes: &[usize]) {
        if self.note_delays(indexes.iter().copied()).is_empty() {
            return;
        }
        let first_tries = self.first_tries(indexes);
        self.divide(&first_tries, SplitCause::Failure);
    }

    /// The items of `indexes` that have no redelivered parked record. Items with such records share transactions only with each other.
    fn first_tries<'i>(&self, indexes: impl IntoIterator<Item = &'i usize>) -> Vec<usize> {
        indexes
            .into_iter()
            .copied()
            .filter(|index| self.item(*index).peers.turn == WriteTurn::First)
            .collect()
    }

    /// Gives each part of these items transactions of its own.
    fn divide(&mut self, indexes: &[usize], cause: SplitCause) {
        for part in cause.parts(indexes) {
            self.start_group(part);
        }
    }

    /// Gives these items transactions that they share with no others.
    fn start_group<'i>(&mut self, indexes: impl IntoIterator<Item = &'i usize>) {
        for index in indexes {
            if let Some(item) = self.items.get_mut(*index) {
                item.peers.group = PeerGroup::numbered(self.next_group);
            }
        }
        self.next_group += 1;
    }

    /// One of these items, which shared a transaction, cannot be written. Alone, it is rejected; otherwise they are divided.
    pub(crate) fn bisect(&mut self, indexes: &[usize], error: &Error, context: StepContext<'_>) {
        self.rejections += 1;
        if let [index] = indexes {
            return self.step(*index, ItemInput::Rejected(error.restated()), context);
        }
        self.divide(indexes, SplitCause::Rejection);
    }
}
