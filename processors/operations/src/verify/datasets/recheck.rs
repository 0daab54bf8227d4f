//! Findings about rows, judged again.

use afterwrite_ledger::tables::{TableScan, Tables};
use afterwrite_model::Result;
use afterwrite_model::clock::Clock;
use afterwrite_services::Bucket;

use super::access::DatasetJudge;
use super::keys::{candidates_of, is_foreign_row};
use crate::verify::finding::{VerifyFinding, check_generation};
use crate::verify::undecided::{UndecidedCause, UndecidedReason};

/// Judges findings about rows again: returns those that are still drift or cannot be decided, as they are now. Other findings are
/// ignored.
///
/// # Errors
/// As [`Tables::read`] and [`Bucket::get`].
pub async fn recheck_rows<B: Bucket, T: Tables + TableScan, C: Clock>(
    judge: &DatasetJudge<B, T, C>,
    findings: &[VerifyFinding],
) -> Result<Vec<VerifyFinding>> {
    check_generation(judge.model(), findings)?;
    let candidates = candidates_of(judge.model(), findings);
    let verdicts = Box::pin(judge.judge(candidates)).await?;
    let drifted = verdicts.drifted.into_iter().map(|row| row.finding);
    let foreign = findings.iter().filter(|finding| is_foreign_row(judge.model(), finding)).map(|finding| {
        let cause = UndecidedCause::new(
            UndecidedReason::Foreign,
            "the model has no such dataset, or no entity of the row",
        );
        finding.clone().undecided(cause)
    });
    let found = drifted.chain(verdicts.undecided).chain(foreign);
    Ok(found.map(|finding| finding.of_model(judge.model())).collect())
}
