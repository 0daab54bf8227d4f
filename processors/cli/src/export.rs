//! `afterwrite export`: exports objects of the archive, as the function `exporter` does when they arrive.

use std::time::Duration;

use afterwrite_datasets::export::missing::{ArchiveRange, archive_objects};
use afterwrite_datasets::export::{ArchiveExporter, ExportTotals};
use afterwrite_ledger::RememberedLookups;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::harmless::harmless;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::config::{
    EnvironmentSettings, FunctionConfig, ProjectionKind, dynamodb_client, s3_client,
};
use afterwrite_services::dynamodb::DynamoDb;
use afterwrite_services::s3::S3Bucket;
use clap::Args;
use futures::{StreamExt as _, stream};
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde::Serialize;

use crate::arguments::day;
use crate::print::{align_right, json, new_table, print};

/// The model if none is named.
const DEFAULT_MODEL: &str = "exambuddy";

/// How many objects one commit adds.
const OBJECTS_PER_COMMIT: usize = 50;

/// How long a commit that loses races is tried.
const COMMIT_TIME: Duration = Duration::from_secs(300);

/// The arguments of `afterwrite export`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite export --missing --bucket my-bucket\n  afterwrite export --from 2026-01-01 --to 2026-01-31 --workers 4\n\nAn object that has been exported with the same model changes nothing. The command can be stopped and run again: with --missing it goes on where it stopped.\n\nExit codes: 0 success, 1 objects were not exported, 2 wrong usage or configuration, 3 the command could not finish."
)]
pub struct ExportArguments {
    /// Export only objects that have not been exported with this model since they were written.
    #[arg(long)]
    missing: bool,
    /// Export only objects that arrived on this day or later (UTC), yyyy-mm-dd.
    #[arg(long, value_name = "DAY", value_parser = day)]
    from: Option<String>,
    /// Export only objects that arrived on this day or earlier (UTC), yyyy-mm-dd.
    #[arg(long, value_name = "DAY", value_parser = day)]
    to: Option<String>,
    /// How many objects are exported at once; each takes up to 300 MB of memory.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// A built-in model's name or the path of a TOML file; default: AFTERWRITE_MODEL, else exambuddy.
    #[arg(long)]
    model: Option<String>,
    /// The bucket of the archive and the datasets; default: AFTERWRITE_BUCKET.
    #[arg(long, value_name = "NAME")]
    bucket: Option<String>,
    /// Print the totals as one JSON object.
    #[arg(long)]
    json: bool,
}

/// The result of an export.
#[derive(Debug, Default, Serialize)]
struct ExportReport {
    objects: usize,
    failed: usize,
    #[serde(flatten)]
    totals: ExportTotals,
}

impl ExportArguments {
    /// Exports the objects and prints the totals; returns whether all were exported.
    ///
    /// # Errors
    /// A setting that is missing or wrong; a bucket that cannot be listed.
    pub async fn run(&self) -> Result<bool> {
        if let (Some(from), Some(to)) = (&self.from, &self.to)
            && from > to
        {
            return Err(Error::new(
                ErrorKind::Configuration,
                "the range has no day: --from is later than --to",
            )
            .hint("Both days are part of the range; swap them"));
        }
        let exporter = self.exporter().await?;
        let range = ArchiveRange { from: self.from.clone(), to: self.to.clone() };
        let keys = archive_objects(exporter.bucket(), exporter.model(), &range, self.missing).await?;
        let progress = ProgressBar::with_draw_target(
            Some(u64::try_from(keys.len()).unwrap_or(u64::MAX)),
            ProgressDrawTarget::stderr(),
        );
        let batches = keys.chunks(OBJECTS_PER_COMMIT).map(|keys| async {
            let deadline = SystemClock.now().plus(COMMIT_TIME);
            let outcomes = Box::pin(exporter.export(keys, deadline)).await;
            progress.inc(u64::try_from(keys.len()).unwrap_or(0));
            keys.iter().zip(outcomes).collect::<Vec<_>>()
        });
        let mut batches = stream::iter(batches).buffer_unordered(usize::from(self.workers));
        let mut report = ExportReport { objects: keys.len(), ..ExportReport::default() };
        while let Some(outcomes) = batches.next().await {
            for (key, outcome) in outcomes {
                match outcome {
                    Ok(totals) => report.totals += totals,
                    Err(error) => {
                        report.failed += 1;
                        progress.suspend(|| eprintln!("afterwrite: {}: {}", harmless(key), error.report()));
                    }
                }
            }
        }
        progress.finish_and_clear();
        print(&if self.json { json(&report)? } else { table(&report) })?;
        Ok(report.failed == 0)
    }

    async fn exporter(&self) -> Result<ArchiveExporter<S3Bucket, DynamoDb, SystemClock>> {
        let mut settings = EnvironmentSettings::from_env();
        settings.bucket = self.bucket.clone().or(settings.bucket);
        settings.model = self.model.clone().or(settings.model).or_else(|| Some(DEFAULT_MODEL.to_owned()));
        let config = FunctionConfig::resolve(&settings)?;
        settings.check_state_source(&config.model, [ProjectionKind::Archive])?;
        let bucket = S3Bucket::retrying(s3_client().await?, settings.required_bucket()?);
        let remembered = match &settings.state_table {
            Some(_) => {
                let tables = DynamoDb::retrying(Box::pin(dynamodb_client()).await?);
                Some(RememberedLookups::new(config.model.clone(), settings.required_state_table()?, tables))
            }
            None => None,
        };
        Ok(ArchiveExporter::new(config.model, config.table_names, bucket, remembered, SystemClock))
    }
}

fn table(report: &ExportReport) -> String {
    let mut table = new_table(&[]);
    let ExportReport { objects, failed, totals } = report;
    for (name, number) in [
        ("objects", *objects),
        ("objects that were not exported", *failed),
        ("lines", totals.lines),
        ("rows", totals.rows),
        ("duplicate lines", totals.duplicates),
        ("lines of items that match no entity", totals.unmatched),
        ("rejected lines", totals.rejected),
        ("rows with rescued values", totals.rescued),
        ("rows without a usable time", totals.undated),
        ("files written", totals.files),
        ("files that were there", totals.existing_files),
        ("bytes written", totals.file_bytes),
    ] {
        table.add_row([name.to_owned(), number.to_string()]);
    }
    align_right(&mut table, 1..2);
    format!("{table}\n")
}
