//! Sends stale paths to the distribution, within its limits.

use std::time::Duration;

use afterwrite_model::clock::Clock;
use afterwrite_model::projection::RecordsByPath;
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind};
use afterwrite_services::{Distribution, DistributionError};

use super::invalidation_outcome::{PathOutcome, RefusedPath};
use super::paths::{EventIds, PathInvalidation, invalidations};

/// How long one request may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);

/// How long the distribution may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct DistributionLimits {
    /// Until when a request to a busy distribution is repeated.
    pub(super) busy: Timestamp,
    /// The pause before that.
    pub(super) pause: Duration,
    /// When the last request must have its response.
    pub(super) end: Timestamp,
}

/// Invalidates these paths. A request that is refused is split: one bad path must not stop the others.
pub(super) async fn invalidate_paths(
    distribution: &impl Distribution,
    clock: &impl Clock,
    stale: &RecordsByPath,
    event_ids: &EventIds<'_>,
    limits: DistributionLimits,
) -> PathOutcome {
    let mut outcome = PathOutcome::default();
    let mut pending = invalidations(stale, event_ids);
    pending.reverse();
    while let Some(request) = pending.pop() {
        match send(distribution, clock, &request, limits, &mut outcome.requests).await {
            Ok(()) => outcome.paths += request.paths.len(),
            Err(error) if error.kind() != ErrorKind::Rejected => outcome.fail(request.records(), &error),
            Err(error) => match request.halves(event_ids) {
                Some(halves) => pending.extend(halves),
                None => {
                    outcome.refused.extend(request.paths.into_iter().map(|(path, records)| RefusedPath {
                        path,
                        records,
                        error: error.restated(),
                    }))
                }
            },
        }
    }
    outcome
}

/// Sends one invalidation; waits while the distribution is busy with earlier ones.
async fn send(
    distribution: &impl Distribution,
    clock: &impl Clock,
    request: &PathInvalidation,
    limits: DistributionLimits,
    requests: &mut u64,
) -> Result<(), Error> {
    let paths: Vec<String> = request.paths.iter().map(|(path, _)| path.clone()).collect();
    loop {
        let limit = limits.end.since(clock.now()).min(REQUEST_LIMIT);
        if limit.is_zero() {
            let message = "there was no time left to invalidate paths of CloudFront";
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        *requests += 1;
        match distribution.invalidate(&paths, &request.reference, limit).await {
            Ok(()) => return Ok(()),
            Err(DistributionError::Busy(_)) if clock.now().plus(limits.pause) <= limits.busy => {
                clock.sleep(limits.pause).await;
            }
            Err(DistributionError::Busy(error) | DistributionError::Failed(error)) => return Err(error),
        }
    }
}
