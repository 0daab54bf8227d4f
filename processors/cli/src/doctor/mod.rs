//! `afterwrite doctor`: checks a deployment, and shows what to change.
//!
//! ```text
//! tables, mappings, functions, bucket, queue ─▶ look: requests that only read ─▶ facts ─▶ judge ─▶ a table of findings
//! ```

mod delivery;
mod look;
mod storage;

use std::path::PathBuf;
use std::sync::Arc;

use afterwrite::config::{EnvironmentSettings, FunctionConfig, s3_client, sdk_config};
use afterwrite::{Error, ErrorKind, Result};
use afterwrite_operations::doctor::{DeploymentFacts, HealthFinding, HealthVerdict, Looked, judge};
use clap::Args;
use comfy_table::ContentArrangement;

use self::delivery::DeliveryLook;
use self::storage::StorageLook;
use crate::deployment::DeploymentArguments;
use crate::print::{json, new_table, print};

/// The arguments of `afterwrite doctor`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite doctor\n  afterwrite doctor --bucket my-bucket --report drift.jsonl\n  afterwrite doctor --json | jq '.[] | select(.verdict == \"change\")'\n\nOnly reads: tables, event source mappings, functions, the bucket and its queue. A part that you may not read is reported as not checked, which is not a problem.\n\nExit codes: 0 healthy, 1 something is to be changed, 2 wrong usage or configuration, 3 the command could not finish."
)]
pub struct DoctorArguments {
    #[command(flatten)]
    deployment: DeploymentArguments,
    /// The bucket of archive and datasets; default: AFTERWRITE_BUCKET.
    #[arg(long, value_name = "NAME")]
    bucket: Option<String>,
    /// A report of `afterwrite verify --report FILE`, whose differences are counted.
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
        let drift = self.report.as_ref().map(differences).transpose()?;
        let sdk = sdk_config().await?;
        let storage = StorageLook::new(&sdk, s3_client().await?);
        let delivery = DeliveryLook::new(&sdk);
        let mut facts = DeploymentFacts {
            tables: Vec::new(),
            state_table: (state_table.to_string(), Box::pin(storage.table(&state_table)).await?),
            mappings: Vec::new(),
            functions: std::collections::BTreeMap::new(),
            bucket: Looked::NotNamed("AFTERWRITE_BUCKET or --bucket"),
            queue: Looked::NotNamed("AFTERWRITE_BUCKET or --bucket"),
            dry_calls: Box::pin(storage.dry_calls(&state_table)).await?,
            freshness: Box::pin(storage.heartbeats(&config.model, &config.table_names)).await,
            drift,
        };
        for name in &config.table_names {
            let (table, stream) = Box::pin(storage.streamed_table(name)).await?;
            facts.mappings.push(Box::pin(delivery.mappings(stream.as_deref())).await?);
            facts.tables.push((name.to_string(), table));
        }
        let mappings = facts.mappings.iter().filter_map(Looked::found).flatten();
        let names: Vec<String> = mappings.map(|mapping| mapping.function.clone()).collect();
        for name in names {
            let function = Box::pin(delivery.function(&name)).await?;
            facts.functions.insert(name, function);
        }
        if let Some(bucket) = self.bucket.clone().or_else(|| EnvironmentSettings::from_env().bucket) {
            facts.bucket = Box::pin(storage.bucket(&bucket)).await?;
            facts.queue = Box::pin(delivery.queue(facts.bucket.found())).await?;
            if facts.bucket.found().is_some() {
                facts.freshness.datasets = Box::pin(storage.dataset_ages(&config.model, &bucket)).await;
            }
        }
        Ok(facts)
    }
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
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(120);
    for finding in findings {
        table.add_row([finding.check, &finding.subject, finding.verdict.name(), &finding.found]);
    }
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    let mut text = format!("{table}\n");
    for (verdict, title) in [(HealthVerdict::Change, "To change"), (HealthVerdict::NotChecked, "Not checked")]
    {
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
        "\n{} healthy, {} to change, {} not checked\n",
        count(HealthVerdict::Healthy),
        count(HealthVerdict::Change),
        count(HealthVerdict::NotChecked)
    )
}
