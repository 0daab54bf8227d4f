//! From an item's decision to its plan: which of its images count, and what they contribute.

use super::clock::Clock;
use super::lookup::Answered;
use super::plan::{NewState, Plan, Planner};
use super::work::{Observation, Progress, Work};
use super::{Invocation, Ledger};
use crate::Result;
use crate::entity::Identity;
use crate::projection::{Contributions, Extreme, Projected, Sharding, TargetId, Targets, contributions};
use crate::record::{Image, Position};
use crate::sink::Tables;
use crate::table::MeasureKind;

/// Settlements of one plan, at most; further ones of the same item go into the next.
const SETTLED_AT_ONCE: usize = 4;

type Settlement = (Position<'static>, Contributions);

impl<T: Tables, C: Clock> Ledger<T, C> {
    /// The plan for an item, if there is anything to write. An item without one is done, has failed, or goes another round.
    pub(super) fn plan(
        &self,
        work: &mut Work<'_>,
        targets: &mut Targets,
        answered: &Answered,
        invocation: &Invocation,
    ) -> Option<Plan> {
        let (state, settlements, newest) = match &work.observation {
            Observation::Wanted => return None,
            Observation::Seen { .. } => match self.observed_state(work, targets, answered) {
                Ok(Some(state)) => (Some(state), Vec::new(), None),
                Ok(None) => {
                    work.observation = Observation::Counted;
                    return None;
                }
                Err(error) => {
                    work.fail(error);
                    return None;
                }
            },
            Observation::Unneeded | Observation::Counted => {
                let state = self.newest_state(work, targets, answered);
                let settlements = self.settlements(work, targets, answered);
                if state.is_none() && settlements.is_empty() {
                    invocation
                        .tally
                        .duplicates
                        .add_len(work.records.len() - work.unfit.len().min(work.records.len()));
                    work.progress = Progress::Done;
                    return None;
                }
                let decided = work.decision.live.iter().chain(&work.decision.expiries);
                let newest = decided.filter_map(|index| work.records.get(*index)?.created_at).max();
                (state, settlements, newest)
            }
        };
        let aggregates = |name: &str| self.model.aggregates.iter().any(|aggregate| *aggregate.name == *name);
        let planner = Planner {
            targets,
            aggregates: &aggregates,
            shows: &|target: TargetId, measure: &str| self.shows(targets.get(target), measure),
            generation: self.model.generation,
            now: self.clock.now(),
        };
        planner.plan(work.entry.as_ref(), state, settlements, newest).map_err(|error| work.fail(error)).ok()
    }

    /// The state of the item as its table shows it; `None` if neither table nor ledger knows it.
    fn observed_state(
        &self,
        work: &Work<'_>,
        targets: &mut Targets,
        answered: &Answered,
    ) -> Result<Option<NewState>> {
        let Observation::Seen { image, at } = &work.observation else { return Ok(None) };
        if work.entry.is_none() && image.is_none() {
            return Ok(None);
        }
        let projected = match image {
            Some(image) => self.project(work, work.identity, image, targets, answered)?,
            None => Projected::default(),
        };
        let position = match &work.entry {
            Some(entry) => entry.position.clone(),
            None => Position::start_of(work.stream_label().to_owned()),
        };
        Ok(Some(NewState { position, projected, gone: image.is_none(), as_of: Some(*at) }))
    }

    /// The newest of the live records that can be counted. Those that cannot are unfit; whatever is older is folded into it,
    /// but for `max` and `min`, which see every image.
    fn newest_state(
        &self,
        work: &mut Work<'_>,
        targets: &mut Targets,
        answered: &Answered,
    ) -> Option<NewState> {
        let mut older = work.decision.live.clone();
        let mut state = None;
        while let Some(index) = older.pop() {
            let record = *work.records.get(index)?;
            let projected = match &record.new {
                None => Ok(Projected::default()),
                Some(image) => self.project(work, work.identity, image, targets, answered),
            };
            match projected {
                Ok(projected) => {
                    let position = record.position.clone().into_owned();
                    state = Some(NewState { position, projected, gone: record.new.is_none(), as_of: None });
                    break;
                }
                Err(error) => {
                    work.unfit.insert(index, error);
                }
            }
        }
        let mut state = state?;
        if self.has_extremes(work.identity) {
            for index in older {
                state.projected.extremes.extend(self.extremes(work, index, targets, answered));
            }
        }
        Some(state)
    }

    fn extremes(
        &self,
        work: &Work<'_>,
        index: usize,
        targets: &mut Targets,
        answered: &Answered,
    ) -> Vec<Extreme> {
        let image = work.records.get(index).and_then(|record| record.new.as_ref());
        let projected =
            image.and_then(|image| self.project(work, work.identity, image, targets, answered).ok());
        projected.map(|projected| projected.extremes).unwrap_or_default()
    }

    fn settlements(
        &self,
        work: &mut Work<'_>,
        targets: &mut Targets,
        answered: &Answered,
    ) -> Vec<Settlement> {
        let mut settlements = Vec::new();
        for index in work.decision.expiries.clone() {
            let (Some(record), Some(image)) = (work.records.get(index), work.old_images.get(&index)) else {
                continue;
            };
            match self.project(work, work.identity, image, targets, answered) {
                Ok(projected) => {
                    settlements.push((record.position.clone().into_owned(), projected.contributions))
                }
                Err(error) => {
                    work.unfit.insert(index, error);
                }
            }
            if settlements.len() == SETTLED_AT_ONCE {
                break;
            }
        }
        settlements
    }

    fn project(
        &self,
        work: &Work<'_>,
        identity: &Identity<'_, '_>,
        image: &Image<'_>,
        targets: &mut Targets,
        answered: &Answered,
    ) -> Result<Projected> {
        let nothing = Contributions::default();
        let current = work.entry.as_ref().map_or(&nothing, |entry| &entry.current);
        let sharding = Sharding { item: work.hash, current };
        contributions(&self.model, identity, image, answered, sharding, targets)
    }

    fn has_extremes(&self, identity: &Identity<'_, '_>) -> bool {
        let aggregates =
            identity.entity.aggregates.iter().filter_map(|index| self.model.aggregates.get(*index));
        let mut kinds = aggregates.flat_map(|aggregate| &aggregate.measures).map(|measure| &measure.kind);
        kinds.any(|kind| matches!(kind, MeasureKind::Max(..) | MeasureKind::Min(..)))
    }
}
