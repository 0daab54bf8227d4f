//! Findings about rows, judged again.

use afterwrite::Result;
use afterwrite::clock::Clock;
use afterwrite::sink::{Bucket, TableScan, Tables};

use super::access::DatasetJudge;
use super::keys::candidates_of;
use crate::verify::finding::VerifyFinding;

/// Judges findings about rows again: returns those that are still drift or cannot be decided, as they are now. Other findings are
/// ignored.
///
/// # Errors
/// As [`Tables::read`] and [`Bucket::get`].
pub async fn recheck_rows<B: Bucket, T: Tables + TableScan, C: Clock>(
    judge: &DatasetJudge<B, T, C>,
    findings: &[VerifyFinding],
) -> Result<Vec<VerifyFinding>> {
    let candidates = candidates_of(judge.model(), findings);
    let verdicts = Box::pin(judge.judge(candidates)).await?;
    let drifted = verdicts.drifted.into_iter().map(|row| row.finding);
    Ok(drifted.chain(verdicts.undecided).collect())
}
