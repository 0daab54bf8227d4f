//! `afterwrite verify` and `afterwrite repair`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use afterwrite::clock::SystemClock;
use afterwrite::sink::TableScan as _;
use afterwrite::{Error, ErrorKind, Result};
use afterwrite_operations::TenantFilter;
use afterwrite_operations::jobs::{JobKind, JobRunner, JobStatus, require_recovery};
use afterwrite_operations::repair::{DriftRepairer, RepairLogEntry, RepairOutcome, repair_totals};
use afterwrite_operations::tables::OverlayTables;
use afterwrite_operations::verify::{
    DEFAULT_TOLERANCE, FindingVerdict, ThreeWayCheck, VerifyArguments, VerifyFinding, VerifyReport,
    VerifySummary, VerifyTask, finding_lines, parse_findings, plan_verify, recheck_findings,
};
use clap::Args;
use serde::Serialize;

use crate::arguments::pair;
use crate::backfill::tenant;
use crate::deployment::{Deployment, DeploymentArguments};
use crate::job_output::ProgressLine;
use crate::print::{align_right, json, new_table, print};

/// The arguments of `afterwrite verify`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite verify\n  afterwrite verify --sample 0.01 --report drift.jsonl --json\n  afterwrite verify --only admin_id=42\n  afterwrite verify --recheck drift.jsonl\n\nRun it on a schedule with --sample and an alarm on exit code 1. The application may go on writing: a difference that a change in flight may explain is never reported as drift.\n\nExit codes: 0 no drift, 1 drift was found, 2 wrong usage or configuration, 3 the command could not finish."
)]
pub struct VerifyCommand {
    #[command(flatten)]
    deployment: DeploymentArguments,
    /// The share of items and rollups to judge, more than 0 and at most 1. The tables are read completely, but only so many items are read again.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = share)]
    sample: f64,
    /// Judge only one tenant: a variable of keys, an attribute or an output of a lookup, and its value.
    #[arg(long, value_name = "NAME=VALUE", value_parser = tenant)]
    only: Option<TenantFilter>,
    /// Compare a counter of the application with a measure and a recount of the items.
    #[arg(long, value_name = "ATTRIBUTE=ROLLUP.MEASURE", value_parser = three_way)]
    three_way: Option<ThreeWayCheck>,
    /// The longest time that a record is in flight, in seconds: a difference of an item must be older than this.
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_TOLERANCE.as_secs())]
    tolerance: u64,
    /// Judge the findings of this file again, and nothing else.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sample", "only", "three_way"])]
    recheck: Option<PathBuf>,
    /// Write the findings to this file, one a line, for --recheck and `afterwrite repair`.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// The segments of each table that are read in parallel.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    segments: u32,
    /// The most items that are read in a second.
    #[arg(long, value_name = "ITEMS", value_parser = clap::value_parser!(u64).range(1..))]
    rate: Option<u64>,
    /// The most parts of the work at once.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// Print the summary and the findings as one JSON object.
    #[arg(long)]
    json: bool,
}

/// The arguments of `afterwrite repair`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite repair drift.jsonl --dry-run\n  afterwrite repair drift.jsonl --yes\n\nEach finding is judged again before anything is written, and every write depends on the revision that was judged. The log names each finding, its cause if known, and what was written.\n\nExit codes: 0 everything is right, 1 findings are left, 2 wrong usage or configuration, 3 the command could not finish."
)]
pub struct RepairCommand {
    /// The findings: the file that `afterwrite verify --report` wrote.
    file: PathBuf,
    #[command(flatten)]
    deployment: DeploymentArguments,
    /// Show what would be written, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Write without a question. Without a terminal, nothing is written unless this is set.
    #[arg(long)]
    yes: bool,
    /// Accept that the state table has no point-in-time recovery.
    #[arg(long)]
    without_recovery: bool,
    /// The longest time that a record is in flight, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_TOLERANCE.as_secs())]
    tolerance: u64,
    /// Print the log as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct PrintedReport<'r> {
    #[serde(flatten)]
    summary: &'r VerifySummary,
    findings: &'r [VerifyFinding],
    next_steps: Vec<String>,
}

impl VerifyCommand {
    /// Verifies, and prints the result; returns whether nothing has drifted.
    ///
    /// # Errors
    /// A setting that is missing or wrong; a table that cannot be read.
    pub async fn run(&self) -> Result<bool> {
        let deployment = self.deployment.connect().await?;
        let report = match &self.recheck {
            Some(file) => Box::pin(self.recheck(&deployment, file)).await?,
            None => Box::pin(self.verify(&deployment)).await?,
        };
        if let Some(file) = &self.report {
            std::fs::write(file, finding_lines(&report.findings)).map_err(|error| {
                Error::new(ErrorKind::Configuration, "the report cannot be written")
                    .with("file", file.display().to_string())
                    .caused_by(error)
            })?;
        }
        print(&if self.json { json(&self.printed(&report))? } else { report_text(&report) })?;
        Ok(report.summary.drift == 0)
    }

    fn printed<'r>(&self, report: &'r VerifyReport) -> PrintedReport<'r> {
        let file = self.report.as_ref().map_or("FILE".to_owned(), |file| file.display().to_string());
        let next_steps = if report.summary.drift == 0 {
            Vec::new()
        } else {
            vec![format!("afterwrite verify --recheck {file}"), format!("afterwrite repair {file} --dry-run")]
        };
        PrintedReport { summary: &report.summary, findings: &report.findings, next_steps }
    }

    async fn verify(&self, deployment: &Deployment) -> Result<VerifyReport> {
        if let Some(check) = &self.three_way {
            check.check(&deployment.config.model)?;
        }
        let arguments = VerifyArguments {
            segments: self.segments,
            sample: self.sample,
            only: self.only.clone(),
            three_way: self.three_way.clone(),
            tolerance_seconds: self.tolerance,
        };
        let (mut items, mut bytes) = (0, 0);
        for name in &deployment.config.table_names {
            let summary = deployment.tables.describe(name).await?;
            items += summary.items;
            bytes += summary.bytes;
        }
        let state = deployment.tables.describe(&deployment.state_table).await?;
        let plan = plan_verify((state.items, state.bytes), (items, bytes), &arguments);
        let task = VerifyTask::new(
            Arc::clone(&deployment.config.model),
            deployment.config.table_names.clone(),
            Arc::clone(&deployment.state_table),
            Arc::clone(&deployment.tables),
            SystemClock,
            arguments.clone(),
        );
        let store = deployment.job_store();
        let stored = serde_json::to_value(&arguments).map_err(|error| {
            Error::new(ErrorKind::State, "the arguments of the job cannot be stored").caused_by(error)
        })?;
        let job = store.create(JobKind::Verify, stored, task.units(), plan, self.rate).await?;
        let job = store.acquire(&job.id).await?;
        let progress = ProgressLine::new();
        let runner = JobRunner { store: &store, observer: &progress, workers: usize::from(self.workers) };
        let job = Box::pin(runner.run(job, &task)).await;
        progress.finish();
        let job = job?;
        if job.status != JobStatus::Done {
            return Err(Error::new(ErrorKind::Unavailable, "the verification was paused or stopped")
                .with("job", job.id)
                .hint("Start it again"));
        }
        Ok(task.report())
    }

    async fn recheck(&self, deployment: &Deployment, file: &Path) -> Result<VerifyReport> {
        let findings = read_findings(file)?;
        let found = recheck_findings(
            &deployment.config.model,
            &deployment.config.table_names,
            &deployment.state_table,
            Arc::clone(&deployment.tables),
            &SystemClock,
            Duration::from_secs(self.tolerance),
            &findings,
        )
        .await?;
        let count = |verdict| {
            let of_verdict = found.iter().filter(|finding| finding.verdict == verdict);
            u64::try_from(of_verdict.count()).unwrap_or(u64::MAX)
        };
        let summary = VerifySummary {
            items: u64::try_from(findings.len()).unwrap_or(u64::MAX),
            drift: count(FindingVerdict::Drift),
            undecided: count(FindingVerdict::Undecided),
            ..VerifySummary::default()
        };
        Ok(VerifyReport { summary, findings: found })
    }
}

impl RepairCommand {
    /// Repairs the findings, and prints the log; returns whether everything is right.
    ///
    /// # Errors
    /// A setting that is missing or wrong; a table that cannot be read.
    pub async fn run(&self) -> Result<bool> {
        let findings = read_findings(&self.file)?;
        let deployment = self.deployment.connect().await?;
        let log = if self.dry_run {
            let overlay = Arc::new(OverlayTables::new(Arc::clone(&deployment.tables)));
            Box::pin(repair(&deployment, overlay, self.tolerance, &findings)).await?
        } else {
            require_recovery(&deployment.tables, &deployment.state_table, self.without_recovery).await?;
            if !self.yes {
                return Err(Error::new(ErrorKind::Configuration, "nothing was written")
                    .hint("Look at the result of --dry-run, then pass --yes"));
            }
            let tables = Arc::clone(&deployment.tables);
            Box::pin(repair(&deployment, tables, self.tolerance, &findings)).await?
        };
        print(&if self.json { json(&log)? } else { log_text(&log) })?;
        let is_right = |entry: &RepairLogEntry| match entry.outcome {
            RepairOutcome::Repaired | RepairOutcome::AlreadyRight => true,
            RepairOutcome::Changed | RepairOutcome::Failed => false,
        };
        Ok(log.iter().all(is_right))
    }
}

async fn repair<T>(
    deployment: &Deployment,
    tables: T,
    tolerance: u64,
    findings: &[VerifyFinding],
) -> Result<Vec<RepairLogEntry>>
where
    T: afterwrite::sink::Tables + afterwrite::sink::TableScan + Clone,
{
    let repairer = DriftRepairer::new(
        Arc::clone(&deployment.config.model),
        deployment.config.table_names.clone(),
        Arc::clone(&deployment.state_table),
        tables,
        SystemClock,
        Duration::from_secs(tolerance),
    );
    Box::pin(repairer.repair(findings)).await
}

fn read_findings(file: &Path) -> Result<Vec<VerifyFinding>> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        Error::new(ErrorKind::Configuration, "the findings cannot be read")
            .with("file", file.display().to_string())
            .caused_by(error)
    })?;
    parse_findings(&text)
}

fn three_way(written: &str) -> std::result::Result<ThreeWayCheck, String> {
    let (attribute, measure) = pair(written)?;
    let (rollup, measure) = measure.split_once('.').ok_or("write ATTRIBUTE=ROLLUP.MEASURE")?;
    Ok(ThreeWayCheck { attribute, rollup: rollup.to_owned(), measure: measure.to_owned() })
}

fn share(written: &str) -> std::result::Result<f64, String> {
    let share = written.parse().ok().filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| "write a number above 0 and up to 1, such as 0.01".to_owned())
}

fn report_text(report: &VerifyReport) -> String {
    let VerifySummary {
        items_confirmed,
        items,
        rollups_confirmed,
        rollups,
        rollups_expired,
        hashed_entries,
        drift,
        undecided,
        drift_upper_bound,
    } = &report.summary;
    let mut table = new_table(&[]);
    for (name, value) in [
        ("items judged", items.to_string()),
        ("items confirmed", items_confirmed.to_string()),
        ("rollups judged", rollups.to_string()),
        ("rollups confirmed", rollups_confirmed.to_string()),
        ("rollups that have expired", rollups_expired.to_string()),
        ("entries with hashed keys", hashed_entries.to_string()),
        ("drift", drift.to_string()),
        ("undecided", undecided.to_string()),
        ("upper bound of the share of wrong items, 95 %", format!("{:.4} %", drift_upper_bound * 100.0)),
    ] {
        table.add_row([name.to_owned(), value]);
    }
    align_right(&mut table, 1..2);
    let findings: String = report.findings.iter().map(finding_text).collect();
    format!("{table}\n{findings}")
}

fn finding_text(finding: &VerifyFinding) -> String {
    let verdict = match finding.verdict {
        FindingVerdict::Drift => "drift",
        FindingVerdict::Undecided => "undecided",
    };
    let place = serde_json::to_value(finding.place).ok();
    let place = place.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default();
    let mut text = format!("\n{verdict}: {place} {}", finding.key.join(" / "));
    if let Some(cause) = &finding.cause {
        text.push_str(&format!("\n    {cause}"));
    }
    for (name, value) in &finding.values {
        let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "absent".to_owned());
        text.push_str(&format!(
            "\n    {name}: expected {}, found {}",
            shown(&value.expected),
            shown(&value.found)
        ));
    }
    text + "\n"
}

fn log_text(log: &[RepairLogEntry]) -> String {
    let lines: String =
        log.iter().map(|entry| format!("{}    → {}\n", finding_text(&entry.finding), entry.action)).collect();
    let totals: Vec<String> = repair_totals(log)
        .iter()
        .map(|(name, number)| format!("{number} {}", name.replace('_', " ")))
        .collect();
    format!("{lines}\n{}\n", totals.join(", "))
}
