//! From an item's records to its work: which of them the next transaction counts, settles and parks.

use afterwrite_model::Result;
use afterwrite_model::projection::{ImageProjection, RollupTargets, TargetId, contributions};
use afterwrite_model::record::{Image, Position, Timestamp};
use afterwrite_model::table::OnExpiry;
use smallvec::SmallVec;

use super::decide::{RecordDecision, RecordIndexes};
use super::item::LedgerItem;
use super::lookups::LookupResults;
use super::plan::{ItemWork, NewState};
use super::{PoisonPolicy, StepContext};
use crate::state::entry::ParkedPosition;
use crate::state::marker::ExpiryMarker;
use crate::tables::MAX_TRANSACTION_ACTIONS;

/// The records that one transaction has room for, oldest first.
#[derive(Default)]
struct RecordPrefix<'r> {
    uncounted: RecordIndexes,
    settlements: Vec<(Position<'r>, ImageProjection)>,
    settled: RecordIndexes,
    /// The values of the uncounted records for `max` and `min`.
    extremes: ImageProjection,
}

/// The actions of a transaction that are left for more than one record of an item.
struct ActionRoom {
    left: usize,
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
        let has_room = needed <= self.left;
        if has_room {
            self.left -= needed;
            self.targets.extend(new);
        }
        has_room
    }
}

impl<'r> LedgerItem<'r> {
    /// The work of the next transaction. Records that cannot be counted get an error.
    pub(super) fn work_of_records(
        &mut self,
        decision: &RecordDecision,
        lookups: &LookupResults,
        context: StepContext<'_>,
        targets: &mut RollupTargets,
    ) -> ItemWork<'r> {
        let prefix = self.prefix(decision, lookups, context, targets);
        let RecordPrefix { uncounted, settlements, settled, extremes } = prefix;
        let mut records = uncounted.clone();
        records.extend(settled.iter().filter(|index| !uncounted.contains(index)).copied());
        let (mut state, counted) = self.newest_state(uncounted, lookups, context, targets);
        if let Some(state) = &mut state {
            state.projection.extremes.extend(extremes.extremes);
        }
        records.retain(|index| counted.is_some_and(|counted| *index <= counted) || settled.contains(index));
        let created = |index: &usize| self.records.changes.get(*index)?.created_at;
        let newest = records.iter().filter_map(created).max();
        let start = Position::start_of("");
        let mut work = ItemWork {
            state,
            settlements,
            behind: None,
            parked_expiries: Vec::new(),
            start,
            records,
            newest,
        };
        if context.core.poison == PoisonPolicy::Park {
            self.park(&mut work);
        }
        work
    }

    /// The work of reconciling the item: its state as its table has it, unless neither the table nor the ledger has it.
    pub(super) fn work_of_table(
        &self,
        image: Option<&Image<'static>>,
        at: Timestamp,
        lookups: &LookupResults,
        context: StepContext<'_>,
        targets: &mut RollupTargets,
    ) -> Result<ItemWork<'r>> {
        let projection = match image {
            Some(image) => self.project(image, lookups, context, targets)?,
            None => ImageProjection::default(),
        };
        let start = Position::start_of(self.stream_label().to_owned());
        let entry = self.entry.as_ref().filter(|entry| entry.has_counted());
        let position = entry.map_or_else(|| start.clone(), |entry| entry.position.clone());
        let state = NewState { position, projection, is_deleted: image.is_none(), as_of: Some(at) };
        let is_known = image.is_some() || self.entry.is_some();
        Ok(ItemWork {
            state: is_known.then_some(state),
            settlements: Vec::new(),
            behind: None,
            parked_expiries: Vec::new(),
            start,
            records: RecordIndexes::new(),
            newest: None,
        })
    }

    /// The oldest records, as many as one transaction has room for. The rest follows in the next.
    fn prefix(
        &mut self,
        decision: &RecordDecision,
        lookups: &LookupResults,
        context: StepContext<'_>,
        targets: &mut RollupTargets,
    ) -> RecordPrefix<'r> {
        // `max` and `min` see every image; all else depends on the newest alone.
        let sees_every_image = decision.uncounted.len() > 1 && self.has_extremes(context);
        let mut prefix = RecordPrefix::default();
        let mut room = self.action_room(context);
        for index in decision.open_records() {
            if let Some(error) = self.records.errors.get(&index) {
                if sees_every_image && error.is_retryable() {
                    // The record is delivered again. If newer ones were counted, its image would be passed over.
                    break;
                }
                continue;
            }
            let is_uncounted = decision.uncounted.contains(&index);
            let settlement = match self.records.old_image(index) {
                // An expiry that cannot be settled must not remove the item's contributions either.
                Some(image) if decision.expiries.contains(&index) => {
                    match self.settlement(image, lookups, context, targets) {
                        Ok(projection) => Some(projection),
                        Err(error) => {
                            self.records.errors.insert(index, error);
                            continue;
                        }
                    }
                }
                Some(_) | None => None,
            };
            let image = self.records.new_image(index).filter(|_| is_uncounted && sees_every_image);
            let seen = match image.map(|image| self.project(image, lookups, context, targets)) {
                None => ImageProjection::default(),
                Some(Ok(projection)) => projection,
                Some(Err(error)) if error.is_retryable() => {
                    self.records.errors.insert(index, error);
                    break;
                }
                // If it is the newest, counting it fails as well, and that error is reported.
                Some(Err(_)) => ImageProjection::default(),
            };
            let settled_targets = settlement.iter().flat_map(all_targets);
            let seen_targets = seen.extremes.iter().map(|extreme| extreme.target);
            let has_room = room.take(settled_targets.chain(seen_targets), usize::from(settlement.is_some()));
            let is_first = prefix.uncounted.is_empty() && prefix.settlements.is_empty();
            if !has_room && !is_first {
                break;
            }
            if is_uncounted {
                prefix.uncounted.push(index);
                prefix.extremes.extremes.extend(seen.extremes);
            }
            let position = self.records.changes.get(index).map(|record| record.position.clone());
            if let (Some(projection), Some(position)) = (settlement, position) {
                prefix.settlements.push((position, projection));
                prefix.settled.push(index);
            }
        }
        prefix
    }

    /// The actions that the item's entry, its old rollups and its new ones leave. The loader refuses a model in which
    /// they leave none for one expiry.
    fn action_room(&self, context: StepContext<'_>) -> ActionRoom {
        let rollups = context.core.most_rollups(self);
        let mut room = ActionRoom {
            left: MAX_TRANSACTION_ACTIONS - 1 - rollups.min(MAX_TRANSACTION_ACTIONS - 1),
            targets: SmallVec::new(),
        };
        let current = self.current().by_aggregate.iter().flat_map(|contribution| &contribution.targets);
        room.take(current.copied(), 0);
        room
    }

    /// The state of the newest of these records that can be counted, and the record's index.
    fn newest_state(
        &mut self,
        mut uncounted: RecordIndexes,
        lookups: &LookupResults,
        context: StepContext<'_>,
        targets: &mut RollupTargets,
    ) -> (Option<NewState<'r>>, Option<usize>) {
        while let Some(index) = uncounted.pop() {
            let Some(record) = self.records.changes.get(index).copied() else { continue };
            let projection = match &record.new {
                None => Ok(ImageProjection::default()),
                Some(image) => self.project(image, lookups, context, targets),
            };
            match projection {
                Ok(projection) => {
                    let (position, is_deleted) = (record.position.clone(), record.new.is_none());
                    let state = NewState { position, projection, is_deleted, as_of: None };
                    return (Some(state), Some(index));
                }
                Err(error) => {
                    self.records.errors.insert(index, error);
                }
            }
        }
        (None, None)
    }

    /// Adds the marks of the records that cannot be counted, unless the ledger has them already.
    fn park(&self, work: &mut ItemWork<'r>) {
        let reached = work.state.as_ref().map(|state| &state.position);
        for record in self.records.defective() {
            let (Some(position), reason) = (record.position, record.error.kind().name()) else { continue };
            let is_known = self.is_counted(&record) || self.is_parked(&record, PoisonPolicy::Park);
            if is_known || !record.error.kind().is_poison() {
                continue;
            }
            let position = position.clone().into_owned();
            if self.must_settle(&record) {
                work.parked_expiries.push(ExpiryMarker { position, parked: Some(reason) });
            } else if reached.is_none_or(|reached| position > *reached)
                && work.behind.as_ref().is_none_or(|behind| position > behind.position)
            {
                work.behind = Some(ParkedPosition { position, reason: reason.into() });
            }
        }
    }

    pub(crate) fn project(
        &self,
        image: &Image<'_>,
        lookups: &LookupResults,
        context: StepContext<'_>,
        targets: &mut RollupTargets,
    ) -> Result<ImageProjection> {
        contributions(&context.core.model, self.candidates, image, lookups, self.sharding(), targets)
    }

    /// The settlement of an expiry: the contributions of the item as it was, if its entity keeps them.
    fn settlement(
        &self,
        image: &Image<'_>,
        lookups: &LookupResults,
        context: StepContext<'_>,
        targets: &mut RollupTargets,
    ) -> Result<ImageProjection> {
        let entity = self.candidates.in_state(image).map(|identity| identity.entity);
        match entity.map(|entity| entity.on_expiry) {
            Some(OnExpiry::Keep) => self.project(image, lookups, context, targets),
            Some(OnExpiry::Subtract) | None => Ok(ImageProjection::default()),
        }
    }

    fn has_extremes(&self, context: StepContext<'_>) -> bool {
        let mut measures = context.core.aggregates(self).flat_map(|aggregate| &aggregate.measures);
        measures.any(|measure| measure.kind.function().is_extreme())
    }
}

fn all_targets(projection: &ImageProjection) -> impl Iterator<Item = TargetId> {
    let counted = projection.contributions.by_aggregate.iter().flat_map(|contribution| &contribution.targets);
    counted.copied().chain(projection.extremes.iter().map(|extreme| extreme.target))
}
