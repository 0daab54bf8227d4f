//! `afterwrite compact`: runs one compaction, as the Lambda function `compactor` does on a schedule.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_datasets::compact::{CompactionOptions, CompactionTotals, DatasetCompactor};
use afterwrite_model::Result;
use afterwrite_model::clock::SystemClock;
use afterwrite_services::config::{EnvironmentSettings, s3_client};
use afterwrite_services::s3::S3Bucket;
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget};

use crate::arguments::{day, unknown};
use crate::print::{align_right, json, new_table, print};

/// The arguments of `afterwrite compact`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite compact --bucket my-bucket\n  afterwrite compact --dataset attempts --dt 2026-02-06 --json\n\nSuperseded files stay for the retention, because running queries may have listed them; the first compaction of a day removes older files.\n\nExit codes: 0 success, 2 wrong usage or configuration, 3 the command could not finish."
)]
pub struct CompactArguments {
    /// Compact only this dataset; default: all datasets of the model.
    #[arg(long, value_name = "NAME")]
    dataset: Option<String>,
    /// Compact only the partition of this day, yyyy-mm-dd; default: all partitions that changed.
    #[arg(long, value_name = "DAY", value_parser = day)]
    dt: Option<String>,
    /// A built-in model's name or the path of a TOML file; default: AFTERWRITE_MODEL, else exambuddy.
    #[arg(long)]
    model: Option<String>,
    /// The bucket of the datasets; default: AFTERWRITE_BUCKET.
    #[arg(long, value_name = "NAME")]
    bucket: Option<String>,
    /// How long superseded files stay, in days.
    #[arg(long, value_name = "DAYS", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=3650))]
    retention: u32,
    /// Print the totals as one JSON object.
    #[arg(long)]
    json: bool,
}

impl CompactArguments {
    /// Runs the compaction and prints its totals; returns `true`.
    ///
    /// # Errors
    /// An unknown dataset or day; a bucket that cannot be reached; a file that cannot be read.
    pub async fn run(&self) -> Result<bool> {
        let model = Arc::new(crate::model::load(self.model.as_deref())?);
        let names = || model.datasets.iter().map(|dataset| &*dataset.name);
        if let Some(name) = self.dataset.as_deref().filter(|name| !names().any(|known| known == *name)) {
            return Err(unknown("a dataset that the model does not have", name, names()));
        }
        let mut settings = EnvironmentSettings::from_env();
        settings.bucket = self.bucket.clone().or(settings.bucket);
        let name = settings.required_bucket()?;
        let objects = S3Bucket::retrying(s3_client().await?, name);
        let retention = Duration::from_secs(u64::from(self.retention) * 24 * 60 * 60);
        let options = CompactionOptions { retention, ..CompactionOptions::default() };
        let compactor = DatasetCompactor::new(model, objects, options, SystemClock);
        let progress = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        progress.set_message("compacting");
        progress.enable_steady_tick(Duration::from_millis(100));
        let compact = compactor.compact(self.dataset.as_deref(), self.dt.as_deref());
        let compacted = Box::pin(compact).await;
        progress.finish_and_clear();
        let compacted = compacted?;
        print(&if self.json { json(&compacted)? } else { table(&compacted) })?;
        Ok(true)
    }
}

fn table(compacted: &CompactionTotals) -> String {
    let mut table = new_table(&[]);
    for (name, number) in [
        ("partitions", compacted.partitions),
        ("files of the log packed", compacted.files_in),
        ("files of the log written", compacted.files_out),
        ("rows packed", compacted.rows_in),
        ("rows written", compacted.rows_out),
        ("duplicate rows", compacted.duplicates),
        ("outdated rows", compacted.outdated),
        ("bytes packed", compacted.bytes_in),
        ("bytes written", compacted.bytes_out),
        ("partitions derived", compacted.derived),
        ("current files written", compacted.current_files),
        ("current rows written", compacted.current_rows),
        ("current bytes written", compacted.current_bytes),
        ("superseded files removed", compacted.files_removed),
        ("commits overtaken by another compactor", compacted.overtaken),
    ] {
        table.add_row([name.to_owned(), number.to_string()]);
    }
    align_right(&mut table, 1..2);
    format!("{table}\n")
}
