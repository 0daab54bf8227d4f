//! From an item's records to its work: which of them the next transaction counts, settles and parks.

use afterwrite_model::projection::{ImageProjection, LookupKey, RollupTargets, TargetId, contributions};
use afterwrite_model::record::{Image, Position, Timestamp};
use afterwrite_model::table::OnExpiry;
use afterwrite_model::{ErrorKind, Result};
use smallvec::SmallVec;

use super::decide::{RecordDecision, RecordIndexes};
use super::facts::ItemFacts;
use super::lookups::{ItemImage, LookupResults};
use super::{LedgerCore, PoisonPolicy};
use crate::state::life::UnrecordedLife;
use crate::state::marker::ExpiryMarker;
use crate::state::parked::ParkedPosition;
use crate::tables::MAX_TRANSACTION_ACTIONS;

/// The state that an entry has after a plan.
#[derive(Debug)]
pub(crate) struct NewState<'r> {
    /// The position of the state.
    pub(crate) position: Position<'r>,
    /// The contributions of the item; empty if it is deleted.
    pub(crate) projection: ImageProjection,
    /// Whether the item is deleted.
    pub(crate) is_deleted: bool,
    /// When the item was reconciled, if it was.
    pub(crate) as_of: Option<Timestamp>,
    /// The change of the item's life that a reconciliation found, if no record shows it.
    pub(crate) unrecorded: Option<UnrecordedLife>,
}

/// The records of an item to count, settle and park.
#[derive(Debug)]
pub(crate) struct ItemWork<'r> {
    /// The state to count.
    pub(crate) state: Option<NewState<'r>>,
    /// The expiries to settle: the position of each, and what the expired item contributed.
    pub(crate) settlements: Vec<(Position<'r>, ImageProjection)>,
    /// The newest record that cannot be counted.
    pub(crate) behind: Option<ParkedPosition<'r>>,
    /// The expiries that cannot be settled.
    pub(crate) parked_expiries: Vec<ExpiryMarker<'r>>,
    /// The position of an entry that counts nothing yet.
    pub(crate) start: Position<'r>,
    /// The indexes of the records that are counted or settled.
    pub(crate) records: RecordIndexes,
    /// The newest creation time of these records.
    pub(crate) newest: Option<Timestamp>,
    /// The unrecorded changes of the item's life, if they differ from the entry's list.
    pub(crate) lives: Option<Vec<UnrecordedLife>>,
}

impl<'r> ItemWork<'r> {
    /// No work, for an item whose entry would begin at this position.
    pub(crate) fn nothing(start: Position<'r>) -> Self {
        Self {
            state: None,
            settlements: Vec::new(),
            behind: None,
            parked_expiries: Vec::new(),
            start,
            records: RecordIndexes::new(),
            newest: None,
            lives: None,
        }
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        let parks = self.behind.is_some() || !self.parked_expiries.is_empty();
        self.state.is_none() && self.settlements.is_empty() && !parks && self.lives.is_none()
    }
}

/// The records that one transaction has room for, oldest first.
#[derive(Default)]
struct RecordPrefix<'r> {
    uncounted: RecordIndexes,
    settlements: Vec<(Position<'r>, ImageProjection)>,
    settled: RecordIndexes,
    /// The values of the uncounted records for `max` and `min`.
    extremes: ImageProjection,
}

/// The free actions of a transaction, for more than one record of an item.
struct ActionRoom {
    free: usize,
    targets: SmallVec<[TargetId; 8]>,
}

impl ActionRoom {
    /// Takes the actions for these rollups and markers, if there is room for them.
    fn take(&mut self, targets: impl Iterator<Item = TargetId>, markers: usize) -> bool {
        let mut new: SmallVec<[TargetId; 8]> = SmallVec::new();
        for target in targets {
            if !self.targets.contains(&target) && !new.contains(&target) {
                new.push(target);
            }
        }
        let needed = new.len() + markers;
        let has_room = needed <= self.free;
        if has_room {
            self.free -= needed;
            self.targets.extend(new);
        }
        has_room
    }
}

/// Evaluates images: what an item in such a state contributes.
pub(crate) struct ImageEvaluation<'e> {
    pub(crate) core: &'e LedgerCore,
    pub(crate) lookups: &'e LookupResults,
    pub(crate) targets: &'e mut RollupTargets,
}

impl ImageEvaluation<'_> {
    /// The contributions of an item, and its values for `max` and `min`, if it is as this image shows it. `keyed` has the
    /// image with the keys of its lookups, which were made before.
    pub(crate) fn project(
        &mut self,
        facts: &ItemFacts<'_>,
        keyed: (&Image<'_>, &[LookupKey<'static>]),
    ) -> Result<ImageProjection> {
        contributions(&self.core.model, facts.candidates, keyed, self.lookups, facts.sharding(), self.targets)
    }

    /// The settlement of an expiry: the contributions of the item as it was, if its entity keeps them.
    fn settlement(&mut self, facts: &ItemFacts<'_>, image: ItemImage<'_>) -> Result<ImageProjection> {
        let entity = facts.candidates.in_state(image.image).map(|identity| identity.entity);
        match entity.map(|entity| entity.on_expiry) {
            Some(OnExpiry::Keep) => self.project(facts, image.with_known_keys()),
            Some(OnExpiry::Subtract) | None => Ok(ImageProjection::default()),
        }
    }
}

/// Finds the work of an item's next transaction. Records that cannot be counted get an error.
pub(super) struct WorkEvaluation<'e, 'r> {
    pub(super) facts: &'e mut ItemFacts<'r>,
    pub(super) images: ImageEvaluation<'e>,
    pub(super) now: Timestamp,
}

impl<'r> WorkEvaluation<'_, 'r> {
    /// The work of counting records.
    pub(super) fn of_records(&mut self, decision: &RecordDecision) -> ItemWork<'r> {
        let prefix = self.prefix(decision);
        let RecordPrefix { uncounted, settlements, settled, extremes } = prefix;
        let mut records = uncounted.clone();
        records.extend(settled.iter().filter(|index| !uncounted.contains(index)).copied());
        let (mut state, last_counted) = self.newest_state(uncounted);
        if let Some(state) = &mut state {
            state.projection.extremes.extend(extremes.extremes);
        }
        records.retain(|index| last_counted.is_some_and(|last| *index <= last) || settled.contains(index));
        let created = |index: &usize| self.facts.records.changes.get(*index)?.created_at;
        let newest = records.iter().filter_map(created).max();
        let start = Position::start_of("");
        let lives = if decision.changes_lives {
            let left = decision.uncounted.iter().copied();
            let left: Vec<usize> =
                left.filter(|index| last_counted.is_none_or(|last| *index > last)).collect();
            self.facts.changed_lives(decision, &settled, &left, self.now)
        } else {
            None
        };
        let mut work = ItemWork { state, settlements, records, newest, lives, ..ItemWork::nothing(start) };
        if self.images.core.poison == PoisonPolicy::Park {
            self.park(&mut work);
        }
        work
    }

    /// The work of reconciling the item: its state as its table has it, unless neither the table nor the ledger has it. A rollup that is a
    /// source and has expired stays counted as the ledger has it, although no record shows that TTL deleted it.
    pub(super) fn of_table(&mut self, image: Option<ItemImage<'_>>, at: Timestamp) -> Result<ItemWork<'r>> {
        if image.is_none() && self.facts.candidates.keep_expired(at) {
            return Ok(ItemWork::nothing(Position::start_of("")));
        }
        let projection = match image {
            Some(image) => self.images.project(self.facts, image.with_known_keys())?,
            None => ImageProjection::default(),
        };
        let start = Position::start_of(self.facts.stream_label().to_owned());
        let entry = self.facts.readable_entry().filter(|entry| entry.has_counted());
        let position = entry.map_or_else(|| start.clone(), |entry| entry.position.clone());
        let unrecorded = self.facts.unrecorded_change(image.map(|image| image.image), at);
        let state =
            NewState { position, projection, is_deleted: image.is_none(), as_of: Some(at), unrecorded };
        let is_known = image.is_some() || self.facts.readable_entry().is_some();
        Ok(ItemWork { state: is_known.then_some(state), ..ItemWork::nothing(start) })
    }

    /// The mark of the newest record that an unreadable entry has not passed, unless it has the mark already.
    pub(super) fn of_unreadable(&self) -> ItemWork<'r> {
        let missing = self.facts.records.uncountable().filter(|record| {
            let is_known = self.facts.is_counted(record) || self.facts.is_parked(record, PoisonPolicy::Park);
            !is_known && record.error.kind().is_poison()
        });
        let newest = missing.filter_map(|record| record.position).max();
        let reason = ErrorKind::Unreadable.name().into();
        let behind =
            newest.map(|position| ParkedPosition { position: position.clone().into_owned(), reason });
        ItemWork { behind, ..ItemWork::nothing(Position::start_of("")) }
    }

    /// The oldest records, as many as one transaction has room for. The rest follows in the next.
    fn prefix(&mut self, decision: &RecordDecision) -> RecordPrefix<'r> {
        // `max` and `min` see every image; all else depends on the newest alone.
        let sees_every_image = decision.uncounted.len() > 1 && self.has_extremes();
        let mut prefix = RecordPrefix::default();
        let mut room = None;
        for index in decision.open_records() {
            if let Some(error) = self.facts.records.errors.get(&index) {
                if sees_every_image && error.is_retryable() {
                    // The record is delivered again. If newer ones were counted, its image would be passed over.
                    break;
                }
                continue;
            }
            let is_uncounted = decision.uncounted.contains(&index);
            let settlement = match self.facts.records.keyed_old_image(index) {
                // An expiry that cannot be settled must not remove the item's contributions either.
                Some(image) if decision.expiries.contains(&index) => {
                    match self.images.settlement(self.facts, image) {
                        Ok(projection) => Some(projection),
                        Err(error) => {
                            self.facts.records.errors.insert(index, error);
                            continue;
                        }
                    }
                }
                Some(_) | None => None,
            };
            let new = self.facts.records.keyed_new_image(index).filter(|_| is_uncounted && sees_every_image);
            let seen = match new.map(|image| self.images.project(self.facts, image.with_known_keys())) {
                None => ImageProjection::default(),
                Some(Ok(projection)) => projection,
                Some(Err(error)) if error.is_retryable() => {
                    self.facts.records.errors.insert(index, error);
                    break;
                }
                // If it is the newest, counting it fails as well, and that error is reported.
                Some(Err(_)) => ImageProjection::default(),
            };
            let has_room = self.takes_room(&mut room, settlement.as_ref(), &seen);
            let is_first = prefix.uncounted.is_empty() && prefix.settlements.is_empty();
            if !has_room && !is_first {
                break;
            }
            if is_uncounted {
                prefix.uncounted.push(index);
                prefix.extremes.extremes.extend(seen.extremes);
            }
            let position = self.facts.records.changes.get(index).map(|record| record.position.clone());
            if let (Some(projection), Some(position)) = (settlement, position) {
                prefix.settlements.push((position, projection));
                prefix.settled.push(index);
            }
        }
        prefix
    }

    /// Takes the actions that a record needs beside the actions of the newest state, if there is room. Few records need more actions.
    fn takes_room(
        &self,
        room: &mut Option<ActionRoom>,
        settlement: Option<&ImageProjection>,
        seen: &ImageProjection,
    ) -> bool {
        if settlement.is_none() && seen.extremes.is_empty() {
            return true;
        }
        let settled_targets = settlement.into_iter().flat_map(all_targets);
        let seen_targets = seen.extremes.iter().map(|extreme| extreme.target);
        let room = room.get_or_insert_with(|| self.action_room());
        room.take(settled_targets.chain(seen_targets), usize::from(settlement.is_some()))
    }

    /// The actions that the item's entry, its old rollups and its new ones leave. The loader refuses a model in which
    /// they leave none for one expiry.
    fn action_room(&self) -> ActionRoom {
        let rollups = self.facts.candidates.most_rollups();
        let mut room = ActionRoom {
            free: MAX_TRANSACTION_ACTIONS - 1 - rollups.min(MAX_TRANSACTION_ACTIONS - 1),
            targets: SmallVec::new(),
        };
        let current = self.facts.current().by_aggregate.iter().flat_map(|contribution| &contribution.targets);
        room.take(current.copied(), 0);
        room
    }

    /// The state of the newest of these records that can be counted, and the record's index.
    fn newest_state(&mut self, mut uncounted: RecordIndexes) -> (Option<NewState<'r>>, Option<usize>) {
        while let Some(index) = uncounted.pop() {
            let Some(record) = self.facts.records.changes.get(index).copied() else { continue };
            let projection = match &record.new {
                None => Ok(ImageProjection::default()),
                Some(image) => self.images.project(self.facts, (image, self.facts.records.known_keys(index))),
            };
            match projection {
                Ok(projection) => {
                    let (position, is_deleted) = (record.position.clone(), record.new.is_none());
                    let state = NewState { position, projection, is_deleted, as_of: None, unrecorded: None };
                    return (Some(state), Some(index));
                }
                Err(error) => {
                    self.facts.records.errors.insert(index, error);
                }
            }
        }
        (None, None)
    }

    /// Adds the marks of the records that cannot be counted, unless the ledger has them already.
    fn park(&self, work: &mut ItemWork<'r>) {
        let reached = work.state.as_ref().map(|state| &state.position);
        for record in self.facts.records.uncountable() {
            let (Some(position), reason) = (record.position, record.error.kind().name()) else { continue };
            let is_known =
                self.facts.is_counted(&record) || self.facts.is_parked(&record, PoisonPolicy::Park);
            if is_known || !record.error.kind().is_poison() {
                continue;
            }
            let position = position.clone().into_owned();
            if self.facts.must_settle(&record) {
                work.parked_expiries.push(ExpiryMarker { position, parked: Some(reason) });
            } else if reached.is_none_or(|reached| position > *reached)
                && work.behind.as_ref().is_none_or(|behind| position > behind.position)
            {
                work.behind = Some(ParkedPosition { position, reason: reason.into() });
            }
        }
    }

    fn has_extremes(&self) -> bool {
        let mut measures = self.facts.candidates.aggregates().flat_map(|aggregate| &aggregate.measures);
        measures.any(|measure| measure.kind.function().is_extreme())
    }
}

fn all_targets(projection: &ImageProjection) -> impl Iterator<Item = TargetId> {
    let counted = projection.contributions.by_aggregate.iter().flat_map(|contribution| &contribution.targets);
    counted.copied().chain(projection.extremes.iter().map(|extreme| extreme.target))
}
