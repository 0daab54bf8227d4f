//! From an item's decision to its plan: which images count, and what they contribute.

use super::decide::RecordIndexes;
use super::item_state::{ItemObservation, ItemProgress, LedgerItemState};
use super::lookup::LookupResults;
use super::plan::{ItemPlan, ItemPlanner, NewState};
use super::{InvocationContext, Ledger};
use crate::Result;
use crate::clock::Clock;
use crate::projection::{ExtremeValue, ImageProjection, ItemContributions, RollupTargets, contributions};
use crate::record::{Image, Position};
use crate::sink::{MAX_TRANSACTION_ACTIONS, Tables};
use crate::table::Aggregate;

type ExpirySettlement<'r> = (Position<'r>, ItemContributions);

impl<T: Tables, C: Clock> Ledger<T, C> {
    /// The plan for an item, if there is anything to write. An item without a plan is done, has failed, or needs
    /// another round.
    pub(super) fn plan<'r>(
        &self,
        item: &mut LedgerItemState<'r>,
        targets: &mut RollupTargets,
        lookups: &LookupResults,
        invocation: &InvocationContext,
    ) -> Option<ItemPlan<'r>> {
        let (state, settlements, newest) = match &item.observation {
            ItemObservation::Wanted => return None,
            ItemObservation::Seen { .. } => match self.observed_state(item, targets, lookups) {
                Ok(Some(state)) => (Some(state), Vec::new(), None),
                Ok(None) => {
                    item.observation = ItemObservation::Counted;
                    return None;
                }
                Err(error) => {
                    item.fail(error);
                    return None;
                }
            },
            ItemObservation::Unneeded | ItemObservation::Counted => {
                // Expiries first: one that cannot be settled must not remove the item's contributions either.
                let settlements = self.settlements(item, targets, lookups);
                let state = self.newest_state(item, targets, lookups);
                if state.is_none() && settlements.is_empty() {
                    let failed = item.record_errors.len().min(item.records.len());
                    invocation.tally.duplicates.add_len(item.records.len() - failed);
                    item.progress = ItemProgress::Done;
                    return None;
                }
                let decided = item.decision.uncounted.iter().chain(&item.decision.expiries);
                let newest = decided.filter_map(|index| item.records.get(*index)?.created_at).max();
                (state, settlements, newest)
            }
        };
        let planner = ItemPlanner { model: &self.model, targets, now: self.clock.now() };
        planner.plan(item.entry.as_ref(), state, settlements, newest).map_err(|error| item.fail(error)).ok()
    }

    /// The state of the item as its table has it; `None` if neither the table nor the ledger has the item.
    fn observed_state<'r>(
        &self,
        item: &LedgerItemState<'r>,
        targets: &mut RollupTargets,
        lookups: &LookupResults,
    ) -> Result<Option<NewState<'r>>> {
        let ItemObservation::Seen { image, at } = &item.observation else { return Ok(None) };
        if item.entry.is_none() && image.is_none() {
            return Ok(None);
        }
        let projection = match image {
            Some(image) => self.project(item, image, targets, lookups)?,
            None => ImageProjection::default(),
        };
        let position = match &item.entry {
            Some(entry) => entry.position.clone(),
            None => Position::start_of(item.stream_label().to_owned()),
        };
        Ok(Some(NewState { position, projection, is_deleted: image.is_none(), as_of: Some(*at) }))
    }

    /// The state of the newest uncounted record that can be counted. Records that cannot be counted get a record error.
    /// Older records are folded into the newest one, except that `max` and `min` see every image.
    fn newest_state<'r>(
        &self,
        item: &mut LedgerItemState<'r>,
        targets: &mut RollupTargets,
        lookups: &LookupResults,
    ) -> Option<NewState<'r>> {
        let mut uncounted = item.decision.uncounted.clone();
        uncounted.retain(|index| !item.record_errors.contains_key(index));
        let mut extremes = Vec::new();
        if uncounted.len() > 1 && self.has_extremes(item) {
            extremes = self.collect_extremes(item, &mut uncounted, targets, lookups);
        }
        while let Some(index) = uncounted.pop() {
            let record = *item.records.get(index)?;
            let projection = match &record.new {
                None => Ok(ImageProjection::default()),
                Some(image) => self.project(item, image, targets, lookups),
            };
            match projection {
                Ok(mut projection) => {
                    projection.extremes.extend(extremes);
                    let position = record.position.clone();
                    let is_deleted = record.new.is_none();
                    return Some(NewState { position, projection, is_deleted, as_of: None });
                }
                Err(error) => {
                    item.record_errors.insert(index, error);
                }
            }
        }
        None
    }

    /// The values that `max` and `min` see in these records. A record whose lookup has no outputs yet stops the
    /// collection: `uncounted` is cut there, because the record is redelivered and its image would otherwise be lost.
    fn collect_extremes(
        &self,
        item: &mut LedgerItemState<'_>,
        uncounted: &mut RecordIndexes,
        targets: &mut RollupTargets,
        lookups: &LookupResults,
    ) -> Vec<ExtremeValue> {
        let mut extremes = Vec::new();
        for (passed, index) in uncounted.clone().into_iter().enumerate() {
            let image = item.records.get(index).and_then(|record| record.new.as_ref());
            match image.map(|image| self.project(item, image, targets, lookups)) {
                Some(Ok(projection)) => extremes.extend(projection.extremes),
                Some(Err(error)) if error.is_retryable() => {
                    item.record_errors.insert(index, error);
                    uncounted.truncate(passed);
                    break;
                }
                Some(Err(_)) | None => {}
            }
        }
        extremes
    }

    fn settlements<'r>(
        &self,
        item: &mut LedgerItemState<'r>,
        targets: &mut RollupTargets,
        lookups: &LookupResults,
    ) -> Vec<ExpirySettlement<'r>> {
        let limit = self.max_settlements(item);
        let mut settlements = Vec::new();
        for index in item.decision.expiries.clone() {
            let (Some(record), Some(image)) = (item.records.get(index), item.old_images.get(&index)) else {
                continue;
            };
            match self.project(item, image, targets, lookups) {
                Ok(projection) => settlements.push((record.position.clone(), projection.contributions)),
                Err(error) => {
                    item.record_errors.insert(index, error);
                }
            }
            if settlements.len() == limit {
                break;
            }
        }
        settlements
    }

    /// How many expiries fit into one transaction with the entry and its old and new rollups, at least 1. The next
    /// transaction settles the rest. The loader rejects a model in which one expiry does not fit.
    fn max_settlements(&self, item: &LedgerItemState<'_>) -> usize {
        let rollups: usize = self.aggregates(item).map(|aggregate| aggregate.into.len()).sum();
        (MAX_TRANSACTION_ACTIONS - 1).saturating_sub(2 * rollups).checked_div(1 + rollups).unwrap_or(1).max(1)
    }

    pub(super) fn project(
        &self,
        item: &LedgerItemState<'_>,
        image: &Image<'_>,
        targets: &mut RollupTargets,
        lookups: &LookupResults,
    ) -> Result<ImageProjection> {
        contributions(&self.model, item.identity, image, lookups, item.sharding(), targets)
    }

    pub(super) fn aggregates<'i>(
        &'i self,
        item: &'i LedgerItemState<'_>,
    ) -> impl Iterator<Item = &'i Aggregate> {
        item.identity.entity.aggregates.iter().filter_map(|index| self.model.aggregates.get(*index))
    }

    fn has_extremes(&self, item: &LedgerItemState<'_>) -> bool {
        let mut measures = self.aggregates(item).flat_map(|aggregate| &aggregate.measures);
        measures.any(|measure| measure.kind.function().is_extreme())
    }
}
