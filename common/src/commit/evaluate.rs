//! From an item's decision to its plan: which of its images count, and what they contribute.

use super::decide::RecordIndexes;
use super::lookup::LookupResults;
use super::plan::{ItemPlan, ItemPlanner, NewState};
use super::work::{ItemObservation, ItemProgress, LedgerItemState};
use super::{InvocationContext, Ledger};
use crate::Result;
use crate::clock::Clock;
use crate::projection::{ExtremeValue, ImageProjection, ItemContributions, RollupTargets, contributions};
use crate::record::{Image, Position};
use crate::sink::{MAX_TRANSACTION_ACTIONS, Tables};
use crate::table::{Aggregate, MeasureKind};

type ExpirySettlement<'r> = (Position<'r>, ItemContributions);

impl<T: Tables, C: Clock> Ledger<T, C> {
    /// The plan for an item, if there is anything to write. An item without one is done, has failed, or goes another round.
    pub(super) fn plan<'r>(
        &self,
        work: &mut LedgerItemState<'r>,
        targets: &mut RollupTargets,
        answered: &LookupResults,
        invocation: &InvocationContext,
    ) -> Option<ItemPlan<'r>> {
        let (state, settlements, newest) = match &work.observation {
            ItemObservation::Wanted => return None,
            ItemObservation::Seen { .. } => match self.observed_state(work, targets, answered) {
                Ok(Some(state)) => (Some(state), Vec::new(), None),
                Ok(None) => {
                    work.observation = ItemObservation::Counted;
                    return None;
                }
                Err(error) => {
                    work.fail(error);
                    return None;
                }
            },
            ItemObservation::Unneeded | ItemObservation::Counted => {
                // First what expired: an expiry that cannot be settled must not empty the state either.
                let settlements = self.settlements(work, targets, answered);
                let state = self.newest_state(work, targets, answered);
                if state.is_none() && settlements.is_empty() {
                    let unfit = work.unfit.len().min(work.records.len());
                    invocation.tally.duplicates.add_len(work.records.len() - unfit);
                    work.progress = ItemProgress::Done;
                    return None;
                }
                let decided = work.decision.live.iter().chain(&work.decision.expiries);
                let newest = decided.filter_map(|index| work.records.get(*index)?.created_at).max();
                (state, settlements, newest)
            }
        };
        let planner = ItemPlanner { model: &self.model, targets, now: self.clock.now() };
        planner.plan(work.entry.as_ref(), state, settlements, newest).map_err(|error| work.fail(error)).ok()
    }

    /// The state of the item as its table shows it; `None` if neither table nor ledger knows it.
    fn observed_state<'r>(
        &self,
        work: &LedgerItemState<'r>,
        targets: &mut RollupTargets,
        answered: &LookupResults,
    ) -> Result<Option<NewState<'r>>> {
        let ItemObservation::Seen { image, at } = &work.observation else { return Ok(None) };
        if work.entry.is_none() && image.is_none() {
            return Ok(None);
        }
        let projected = match image {
            Some(image) => self.project(work, image, targets, answered)?,
            None => ImageProjection::default(),
        };
        let position = match &work.entry {
            Some(entry) => entry.position.clone(),
            None => Position::start_of(work.stream_label().to_owned()),
        };
        Ok(Some(NewState { position, projected, gone: image.is_none(), as_of: Some(*at) }))
    }

    /// The newest of the live records that can be counted. Those that cannot are unfit; whatever is older is folded into it,
    /// but for `max` and `min`, which see every image.
    fn newest_state<'r>(
        &self,
        work: &mut LedgerItemState<'r>,
        targets: &mut RollupTargets,
        answered: &LookupResults,
    ) -> Option<NewState<'r>> {
        let mut live = work.decision.live.clone();
        live.retain(|index| !work.unfit.contains_key(index));
        let mut seen = Vec::new();
        if live.len() > 1 && self.has_extremes(work) {
            seen = self.extremes_of(work, &mut live, targets, answered);
        }
        while let Some(index) = live.pop() {
            let record = *work.records.get(index)?;
            let projected = match &record.new {
                None => Ok(ImageProjection::default()),
                Some(image) => self.project(work, image, targets, answered),
            };
            match projected {
                Ok(mut projected) => {
                    projected.extremes.extend(seen);
                    let position = record.position.clone();
                    return Some(NewState { position, projected, gone: record.new.is_none(), as_of: None });
                }
                Err(error) => {
                    work.unfit.insert(index, error);
                }
            }
        }
        None
    }

    /// What `max` and `min` see in these records. One that a lookup cannot answer yet is not passed, nor is what follows it: it
    /// comes again, and its image would be lost.
    fn extremes_of(
        &self,
        work: &mut LedgerItemState<'_>,
        live: &mut RecordIndexes,
        targets: &mut RollupTargets,
        answered: &LookupResults,
    ) -> Vec<ExtremeValue> {
        let mut seen = Vec::new();
        for (passed, index) in live.clone().into_iter().enumerate() {
            let image = work.records.get(index).and_then(|record| record.new.as_ref());
            match image.map(|image| self.project(work, image, targets, answered)) {
                Some(Ok(projected)) => seen.extend(projected.extremes),
                Some(Err(error)) if error.is_retryable() => {
                    work.unfit.insert(index, error);
                    live.truncate(passed);
                    break;
                }
                Some(Err(_)) | None => {}
            }
        }
        seen
    }

    fn settlements<'r>(
        &self,
        work: &mut LedgerItemState<'r>,
        targets: &mut RollupTargets,
        answered: &LookupResults,
    ) -> Vec<ExpirySettlement<'r>> {
        let most = self.settled_at_once(work);
        let mut settlements = Vec::new();
        for index in work.decision.expiries.clone() {
            let (Some(record), Some(image)) = (work.records.get(index), work.old_images.get(&index)) else {
                continue;
            };
            match self.project(work, image, targets, answered) {
                Ok(projected) => settlements.push((record.position.clone(), projected.contributions)),
                Err(error) => {
                    work.unfit.insert(index, error);
                }
            }
            if settlements.len() == most {
                break;
            }
        }
        settlements
    }

    /// How many expiries fit into one transaction beside the entry and its old and new rollups; further ones of the same item
    /// go into the next. The loader sees to it that one does.
    fn settled_at_once(&self, work: &LedgerItemState<'_>) -> usize {
        let rollups: usize = self.aggregates(work).map(|aggregate| aggregate.into.len()).sum();
        (MAX_TRANSACTION_ACTIONS - 1).saturating_sub(2 * rollups).checked_div(1 + rollups).unwrap_or(1).max(1)
    }

    fn project(
        &self,
        work: &LedgerItemState<'_>,
        image: &Image<'_>,
        targets: &mut RollupTargets,
        answered: &LookupResults,
    ) -> Result<ImageProjection> {
        contributions(&self.model, work.identity, image, answered, work.sharding(), targets)
    }

    pub(super) fn aggregates<'w>(
        &'w self,
        work: &'w LedgerItemState<'_>,
    ) -> impl Iterator<Item = &'w Aggregate> {
        work.identity.entity.aggregates.iter().filter_map(|index| self.model.aggregates.get(*index))
    }

    fn has_extremes(&self, work: &LedgerItemState<'_>) -> bool {
        let mut kinds =
            self.aggregates(work).flat_map(|aggregate| &aggregate.measures).map(|measure| &measure.kind);
        kinds.any(|kind| matches!(kind, MeasureKind::Max(..) | MeasureKind::Min(..)))
    }
}
