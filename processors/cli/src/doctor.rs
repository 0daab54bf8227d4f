//! `afterwrite doctor`: checks a deployment, and shows what to change.
//!
//! ```text
//! tables, mappings, functions, bucket, queue ─▶ look: requests that only read ─▶ facts ─▶ judge ─▶ a table of findings
//! ```

use std::path::{Path, PathBuf};

use afterwrite_deployment::doctor::{
    DriftFacts, HealthFinding, HealthVerdict, Looked, deployment_facts, judge,
};
use afterwrite_model::Result;
use afterwrite_services::config::{EnvironmentSettings, FunctionConfig};
use clap::Args;

use crate::deployment::DeploymentArguments;
use crate::print::{json, new_table, print};
use crate::verify::report_file::read_findings;

/// The arguments of `afterwrite doctor`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite doctor\n  afterwrite doctor --bucket my-bucket\n  afterwrite doctor --report drift.jsonl\n  afterwrite doctor --json | jq '.[] | select(.verdict == \"change\")'\n\nOnly reads: tables, event source mappings, functions, the bucket, the queues, the buckets of failed records, parked items, and the newest report of the verifier. A part that cannot be read, or that you may not read, is reported as not checked. What a new deployment does not have yet is reported with the time when it is expected. Neither is a problem.\n\nExit codes: 0 healthy, 1 something is to be changed, 2 wrong usage or configuration, 3 the command could not finish."
)]
pub struct DoctorArguments {
    #[command(flatten)]
    deployment: DeploymentArguments,
    /// The bucket of archive and datasets; default: AFTERWRITE_BUCKET.
    #[arg(long, value_name = "NAME")]
    bucket: Option<String>,
    /// A report of `afterwrite verify --report FILE`, whose differences are counted. Default: the newest report of the verifier in the bucket.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print the findings as a JSON list.
    #[arg(long)]
    json: bool,
}

impl DoctorArguments {
    /// Prints the findings; returns whether nothing is to be changed.
    ///
    /// # Errors
    /// A setting that is missing or wrong; a service that cannot be reached.
    pub async fn run(&self) -> Result<bool> {
        let settings = self.deployment.settings();
        let config = FunctionConfig::resolve(&settings)?;
        let state_table = settings.required_state_table()?;
        let drift = self.drift()?;
        let bucket = self.bucket.clone().or_else(|| EnvironmentSettings::from_env().bucket);
        let facts = Box::pin(deployment_facts(&config, state_table, bucket, drift)).await?;
        let findings = judge(&config.model, &facts);
        print(&if self.json { json(&findings)? } else { findings_text(&findings) })?;
        Ok(findings.iter().all(|finding| finding.verdict != HealthVerdict::Change))
    }

    /// The differences of the report that is named; without one, the bucket's report is looked at later.
    fn drift(&self) -> Result<DriftFacts> {
        let not_named = "--report, or the bucket of the verifier's reports with --bucket";
        Ok(match &self.report {
            Some(report) => DriftFacts::File(differences(report)?),
            None => DriftFacts::Bucket(Looked::NotNamed(not_named)),
        })
    }
}

/// The differences in a report of `verify`: its findings.
fn differences(report: &Path) -> Result<u64> {
    let findings = read_findings(report)?;
    Ok(u64::try_from(findings.len()).unwrap_or(u64::MAX))
}

fn findings_text(findings: &[HealthFinding]) -> String {
    let mut table = new_table(&["check", "of", "", "found"]);
    for finding in findings {
        table.add_row([finding.check, &finding.subject, finding.verdict.name(), &finding.found]);
    }
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    let mut text = format!("{table}\n");
    for (verdict, title) in [
        (HealthVerdict::Change, "To change"),
        (HealthVerdict::NotYet, "Not yet"),
        (HealthVerdict::NotChecked, "Not checked"),
    ] {
        let of_verdict: Vec<String> = findings
            .iter()
            .filter(|finding| finding.verdict == verdict)
            .filter_map(|finding| Some((finding, finding.advice.as_ref()?)))
            .map(|(finding, advice)| format!("  {} of {}: {advice}\n", finding.check, finding.subject))
            .collect();
        if !of_verdict.is_empty() {
            text += &format!("\n{title}\n{}", of_verdict.concat());
        }
    }
    text + &format!(
        "\n{} healthy, {} to change, {} not yet, {} not checked\n",
        count(HealthVerdict::Healthy),
        count(HealthVerdict::Change),
        count(HealthVerdict::NotYet),
        count(HealthVerdict::NotChecked)
    )
}

#[cfg(test)]
mod tests {
    use afterwrite_model::ErrorKind;

    use super::*;

    #[test]
    fn a_file_that_is_no_report_is_refused_with_its_name() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(differences(file.path()).unwrap(), 0);
        std::fs::write(file.path(), "{\"a\":").unwrap();
        let error = differences(file.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        let name = file.path().display().to_string();
        assert!(
            error.report().contains(&name) && error.report().contains("not a finding"),
            "{}",
            error.report()
        );
    }
}
