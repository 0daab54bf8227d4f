//! The newest verification: of a file, or of the verifier's report in the bucket.

use std::time::Duration;

use super::facts::{DeploymentFacts, DriftFacts, DriftReport, Looked, age_text};
use super::{HealthFinding, HealthVerdict, on_part};

/// The module verifies every day. A deployment may do it less often, but at least every week.
const OLDEST_REPORT: Duration = Duration::from_secs(8 * 24 * 60 * 60);
const NO_REPORT: &str = "the bucket has no report of the verifier: set verify_schedule of the module, or name a report of `afterwrite verify --report FILE` with --report";
const REPAIR: &str = "`afterwrite verify --report drift.jsonl` finds all of it; then run `afterwrite repair drift.jsonl --dry-run`, and with --yes";

/// The first report of a deployment that verifies every day.
const FIRST_REPORT: Duration = Duration::from_secs(26 * 60 * 60);

pub(super) fn judge_drift(facts: &DeploymentFacts) -> Vec<HealthFinding> {
    let mut findings = Vec::new();
    match &facts.drift {
        DriftFacts::File(differences) => findings.push(HealthFinding::new(
            "drift",
            "report",
            *differences == 0,
            format!("{differences} differences"),
            "Run `afterwrite repair` with the report, after `afterwrite repair --dry-run`",
        )),
        DriftFacts::Bucket(Looked::Missing) => {
            let expected = (FIRST_REPORT, facts.unchanged_for);
            let finding = HealthFinding::expected("drift", "verifier", expected, "no report", NO_REPORT);
            // A deployment may have no verifier.
            let is_new = finding.verdict == HealthVerdict::NotYet;
            let unchecked = || HealthFinding::unchecked("drift", "verifier", NO_REPORT);
            findings.push(if is_new { finding } else { unchecked() });
        }
        DriftFacts::Bucket(looked) => on_part(&mut findings, "drift", "verifier", looked, "", judge_report),
    }
    findings
}

fn judge_report(report: &DriftReport, findings: &mut Vec<HealthFinding>) {
    let DriftReport { age, counts } = report;
    let place = counts.findings.as_deref().unwrap_or("the bucket");
    findings.push(HealthFinding::new(
        "drift",
        "verifier",
        counts.drifted_targets == 0,
        format!(
            "{} drifted and {} undecided of {}, a sample of {} %",
            counts.drifted_targets,
            counts.undecided_targets,
            counts.checked_targets,
            counts.sample * 100.0
        ),
        format!("The findings are in {place}. {REPAIR}"),
    ));
    findings.push(HealthFinding::new(
        "verification",
        "verifier",
        *age <= OLDEST_REPORT,
        format!("{} old", age_text(*age)),
        "See the schedule and the log of `verifier`: it has written no report for more than a week",
    ));
}

#[cfg(test)]
mod tests {
    use super::super::facts::DriftCounts;

    #[test]
    fn a_report_is_read_without_the_fields_that_are_not_judged() {
        let json = br#"{"sample":0.01,"read":{"rollups":1.0},"checked_targets":120,"drifted_targets":2,"undecided_targets":1,"items":100,"findings":"reports/verify/x.jsonl"}"#;
        let counts = DriftCounts::parse("reports/verify/x.json", json).unwrap();
        assert_eq!((counts.checked_targets, counts.drifted_targets, counts.undecided_targets), (120, 2, 1));
        assert_eq!(counts.findings.as_deref(), Some("reports/verify/x.jsonl"));
        let error = DriftCounts::parse("reports/verify/x.json", b"[]").unwrap_err();
        assert!(error.to_string().contains("reports/verify/x.json"), "{error}");
    }

    #[test]
    fn the_verifiers_own_report_has_these_fields() {
        use afterwrite_operations::verifier::{RotationReport, VerifiedShare, VerifierReport};
        use afterwrite_operations::verify::{VerifyReport, VerifySummary};

        let found = VerifyReport { findings: Vec::new(), summary: VerifySummary::default() };
        let rotation = RotationReport { round: None, last_round: None };
        let report = VerifierReport::new(&found, VerifiedShare::default(), rotation);
        let counts = DriftCounts::parse("key", &serde_json::to_vec(&report).unwrap()).unwrap();
        assert_eq!(counts, DriftCounts { sample: 1.0, ..DriftCounts::default() });
    }
}
