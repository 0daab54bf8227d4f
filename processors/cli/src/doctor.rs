//! `afterwrite doctor`: checks a deployment, and shows what to change.
//!
//! ```text
//! tables, mappings, functions, bucket, queue ─▶ look: requests that only read ─▶ facts ─▶ judge ─▶ a table of findings
//! ```

mod bucket;
mod delivery;
mod look;
mod queues;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_services::config::{EnvironmentSettings, FunctionConfig, s3_client, sdk_config};
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_deployment::doctor::{
    DeploymentFacts, DriftFacts, HealthFinding, HealthVerdict, Looked, judge,
};
use clap::Args;

use self::bucket::BucketLook;
use self::delivery::DeliveryLook;
use self::tables::TableLook;
use crate::deployment::DeploymentArguments;
use crate::print::{json, new_table, print};

/// The variable with the queue of stale paths.
const PATH_QUEUE: &str = "AFTERWRITE_CDN_QUEUE";

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
        let facts = Box::pin(self.look(&config, settings.required_state_table()?)).await?;
        let findings = judge(&config.model, &facts);
        print(&if self.json { json(&findings)? } else { findings_text(&findings) })?;
        Ok(findings.iter().all(|finding| finding.verdict != HealthVerdict::Change))
    }

    async fn look(&self, config: &FunctionConfig, state_table: Arc<str>) -> Result<DeploymentFacts> {
        let drift = self.drift()?;
        let sdk = sdk_config().await?;
        let (tables, delivery) = (TableLook::new(&sdk), DeliveryLook::new(&sdk));
        let mut facts = DeploymentFacts {
            tables: Vec::new(),
            state_table: (state_table.to_string(), Box::pin(tables.table(&state_table)).await?),
            mappings: Vec::new(),
            functions: BTreeMap::new(),
            bucket: Looked::NotNamed("AFTERWRITE_BUCKET or --bucket"),
            queue: Looked::NotNamed("AFTERWRITE_BUCKET or --bucket"),
            path_queues: BTreeMap::new(),
            dry_calls: Box::pin(tables.dry_calls(&state_table)).await?,
            freshness: Box::pin(tables.heartbeats(&config.model, &config.table_names)).await,
            drift,
            failures: BTreeMap::new(),
            parked: Looked::Missing,
            unchanged_for: None,
        };
        facts.parked = Box::pin(tables.parked(&state_table, &facts.state_table.1)).await;
        facts.dry_calls.extend(Box::pin(tables.source_dry_calls(&config.model, &config.table_names)).await);
        for name in &config.table_names {
            let (table, stream) = Box::pin(tables.streamed_table(name)).await?;
            facts.mappings.push(match table {
                // The stream of a table that may not be described is unknown.
                Looked::NotAllowed(permission) => Looked::NotAllowed(permission),
                Looked::Found(_) | Looked::Missing | Looked::NotNamed(_) | Looked::NotRead(_) => {
                    Box::pin(delivery.mappings(stream.as_deref())).await?
                }
            });
            facts.tables.push((name.to_string(), table));
        }
        Box::pin(look_at_functions(&delivery, &mut facts)).await?;
        Box::pin(look_at_failures(&mut facts)).await?;
        facts.unchanged_for = unchanged_for(&facts);
        if let Some(name) = self.bucket.clone().or_else(|| EnvironmentSettings::from_env().bucket) {
            let bucket = BucketLook::new(s3_client().await?, name);
            Box::pin(look_at_bucket(&bucket, &delivery, &config.model, &mut facts)).await?;
        }
        Ok(facts)
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

/// Looks at the functions that read the streams, and at the queues that they name.
async fn look_at_functions(delivery: &DeliveryLook, facts: &mut DeploymentFacts) -> Result<()> {
    let mappings = facts.mappings.iter().filter_map(Looked::found).flatten();
    let names: BTreeSet<String> = mappings.map(|mapping| mapping.function.clone()).collect();
    for name in names {
        let function = Box::pin(delivery.function(&name)).await?;
        if let Some(url) = function.found().and_then(|function| function.environment.get(PATH_QUEUE)) {
            facts.path_queues.insert(url.clone(), Box::pin(delivery.queue_at(url)).await?);
        }
        facts.functions.insert(name, function);
    }
    Ok(())
}

/// Looks at the buckets that mappings of Afterwrite's functions name as on-failure destinations.
async fn look_at_failures(facts: &mut DeploymentFacts) -> Result<()> {
    let mappings = facts.mappings.iter().filter_map(Looked::found).flatten();
    let buckets: BTreeSet<String> = mappings
        .filter(|mapping| match facts.functions.get(&mapping.function) {
            Some(Looked::Found(function)) => !function.environment.is_empty(),
            Some(Looked::NotAllowed(_)) => true,
            Some(Looked::Missing | Looked::NotNamed(_) | Looked::NotRead(_)) | None => false,
        })
        .filter_map(|mapping| Some(mapping.on_failure.as_deref()?.split_once(":s3:::")?.1.to_owned()))
        .collect();
    for name in buckets {
        let bucket = BucketLook::new(s3_client().await?, name.clone());
        facts.failures.insert(name, Box::pin(bucket.failures()).await?);
    }
    Ok(())
}

/// The time since the state table was created and a mapping changed last.
fn unchanged_for(facts: &DeploymentFacts) -> Option<Duration> {
    let mappings = facts.mappings.iter().filter_map(Looked::found).flatten();
    let created = facts.state_table.1.found().and_then(|table| table.created);
    let newest = mappings.filter_map(|mapping| mapping.modified).chain(created).max();
    newest.map(|newest| SystemClock.now().since(newest))
}

async fn look_at_bucket(
    bucket: &BucketLook,
    delivery: &DeliveryLook,
    model: &Model,
    facts: &mut DeploymentFacts,
) -> Result<()> {
    facts.bucket = Box::pin(bucket.facts()).await?;
    if let Looked::NotRead(reason) = &facts.bucket {
        facts.queue = Looked::NotRead(reason.clone());
        if let DriftFacts::Bucket(report) = &mut facts.drift {
            *report = Looked::NotRead(reason.clone());
        }
        return Ok(());
    }
    if facts.bucket == Looked::Missing {
        return Ok(());
    }
    facts.queue = Box::pin(delivery.export_queue(facts.bucket.found())).await?;
    let Some(found) = facts.bucket.found() else { return Ok(()) };
    if found.archive.is_some() {
        facts.dry_calls.extend(Box::pin(bucket.dry_calls()).await?);
    }
    facts.freshness.datasets = Box::pin(bucket.dataset_ages(model)).await;
    if let DriftFacts::Bucket(report) = &mut facts.drift {
        *report = Box::pin(bucket.drift()).await?;
    }
    Ok(())
}

/// The differences in a report of `verify`: its lines.
fn differences(report: &PathBuf) -> Result<u64> {
    let text = std::fs::read_to_string(report).map_err(|error| {
        Error::new(ErrorKind::Configuration, "the report cannot be read")
            .with("file", report.display().to_string())
            .caused_by(error)
    })?;
    let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
    Ok(u64::try_from(lines).unwrap_or(u64::MAX))
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
