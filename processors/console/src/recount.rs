//! The recount inside `afterwrite dev`: everything that is derived is compared with the items while somebody looks, as `afterwrite verify`
//! compares it.
//!
//! A rollup that differs from the sum of the ledger is wrong, whatever is in flight. An item that differs from its ledger entry may have
//! a change in flight, which faults can hold up for long: it is judged only while nothing is in flight.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_model::Result;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_operations::DeploymentContext;
use afterwrite_operations::verifier::{TimedResult, TimedVerification};
use afterwrite_operations::verify::{
    DatasetCoverage, VerifyArguments, VerifyFinding, VerifyJob, VerifyTask, recheck_findings, verify_units,
};
use afterwrite_services::dynamodb::DynamoDb;
use afterwrite_services::s3::S3Bucket;

use crate::board::{DevBoard, RecountResult, RecountVerdict};

/// The function that counts.
pub(crate) const COUNTING: &str = "aggregator";
/// A change that is not held up is counted within this time.
const TOLERANCE: Duration = Duration::from_secs(2);
/// The longest time of a recount.
const MAX_TIME: Duration = Duration::from_secs(300);
/// A page is drawn within this time.
const DRAWN_WITHIN: Duration = Duration::from_millis(200);
/// A mapping reads a new record within this time.
const READ_WITHIN: Duration = Duration::from_millis(500);

/// The deployment whose derived data is compared.
type RecountedDeployment = DeploymentContext<Arc<DynamoDb>, SystemClock>;

/// Compares whenever a page asks for it. It never ends.
pub async fn recount_when_asked(
    deployment: &DeploymentContext<Arc<DynamoDb>, SystemClock>,
    board: &DevBoard,
) {
    loop {
        board.recount.asked().await;
        // The page that asks is drawn first.
        tokio::time::sleep(DRAWN_WITHIN).await;
        board.recount.end(Box::pin(compare(deployment, board)).await);
    }
}

/// The records that the function which counts has not accepted yet.
pub(crate) fn records_in_flight(board: &DevBoard) -> u64 {
    flow(board).0
}

/// The records in flight to the function that counts, and those that it has read.
fn flow(board: &DevBoard) -> (u64, u64) {
    let streams = board.meters.streams_of(COUNTING);
    streams.iter().fold((0, 0), |(in_flight, read), stream| {
        (in_flight + stream.in_flight(), read + stream.progress.counts().read)
    })
}

async fn compare(deployment: &RecountedDeployment, board: &DevBoard) -> RecountResult {
    let began = SystemClock.now();
    let mut result = RecountResult {
        verdict: RecountVerdict::Nothing,
        items: (0, 0),
        rollups: (0, 0),
        began,
        took: Duration::ZERO,
    };
    match verified(deployment).await {
        Err(error) => result.verdict = RecountVerdict::Failed(error.report()),
        Ok(found) => {
            let summary = &found.report.summary;
            result.items = (summary.items, summary.items_confirmed);
            result.rollups = (summary.rollups, summary.rollups_confirmed);
            result.verdict = match certain(deployment, board, &found).await {
                Err(error) => RecountVerdict::Failed(error.report()),
                Ok(wrong) if !wrong.is_empty() => RecountVerdict::Different(wrong),
                Ok(_) => judged(&found),
            };
        }
    }
    result.took = SystemClock.now().since(began);
    result
}

/// Everything that is derived in the state table, compared with the items.
async fn verified(deployment: &RecountedDeployment) -> Result<TimedResult> {
    let arguments = VerifyArguments {
        segments: 1,
        tolerance_seconds: TOLERANCE.as_secs(),
        datasets: DatasetCoverage::Excluded,
        ..VerifyArguments::default()
    };
    let deadline = SystemClock.now().plus(MAX_TIME);
    let task = VerifyTask::new(deployment.clone(), arguments.clone()).until(deadline);
    let job = VerifyJob::<S3Bucket, _, _>::new(task, None, arguments.datasets);
    let timed = TimedVerification { job: &job, clock: &SystemClock, deadline, tolerance: TOLERANCE };
    timed.run(verify_units(&deployment.model, &arguments)).await
}

/// The findings that no change in flight explains.
async fn certain(
    deployment: &RecountedDeployment,
    board: &DevBoard,
    found: &TimedResult,
) -> Result<Vec<VerifyFinding>> {
    let drift = found.report.findings.iter().filter(|finding| finding.is_drift()).cloned();
    let (mut wrong, of_items): (Vec<_>, Vec<_>) = drift.partition(|finding| !finding.place().is_of_item());
    if of_items.is_empty() {
        return Ok(wrong);
    }
    let before = flow(board);
    let left = recheck_findings(deployment, TOLERANCE, &of_items).await?;
    tokio::time::sleep(READ_WITHIN).await;
    let is_quiet = before.0 == 0 && flow(board) == before;
    if is_quiet {
        wrong.extend(left.into_iter().filter(VerifyFinding::is_drift));
    }
    Ok(wrong)
}

/// The verdict if nothing is known to be wrong. Everything was judged only if every item and every rollup is confirmed.
fn judged(found: &TimedResult) -> RecountVerdict {
    let (summary, share) = (&found.report.summary, &found.share);
    if summary.items == 0 && summary.rollups == 0 {
        return RecountVerdict::Nothing;
    }
    let is_read = [share.rollups, share.items, share.entries].iter().all(|share| *share >= 1.0);
    let is_all = is_read
        && found.report.findings.is_empty()
        && summary.unjudged.is_empty()
        && share.unjudged == 0
        && summary.unrecorded_lives == 0
        && summary.items == summary.items_confirmed
        && summary.rollups == summary.rollups_confirmed + summary.rollups_expired;
    if is_all {
        return RecountVerdict::Equal;
    }
    let rollups = summary.rollups_confirmed + summary.rollups_expired;
    let left =
        summary.items.saturating_sub(summary.items_confirmed) + summary.rollups.saturating_sub(rollups);
    let cause = found.report.findings.iter().find_map(|finding| finding.cause.clone());
    let cause = cause.map_or_else(String::new, |cause| format!(" ({cause})"));
    RecountVerdict::Counting(format!("{left} items and rollups{cause}"))
}
