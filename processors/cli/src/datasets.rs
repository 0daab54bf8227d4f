//! `afterwrite datasets`: the tables of the datasets themselves.

use afterwrite_datasets::freshness::{DatasetFreshness, dataset_freshness};
use afterwrite_model::Result;
use afterwrite_model::record::Timestamp;
use afterwrite_services::config::{EnvironmentSettings, s3_client};
use afterwrite_services::s3::S3Bucket;
use clap::{Args, Subcommand};

use crate::print::{align_right, json, new_table, print};

/// The commands of `afterwrite datasets`.
#[derive(Debug, Subcommand)]
pub enum DatasetsCommand {
    /// Show how fresh the tables of current rows are.
    #[command(
        after_help = "Examples:\n  afterwrite datasets freshness --bucket my-bucket\n  afterwrite datasets freshness --json\n\nEverything that was exported until the time `as of` is in the table of current rows. The view NAME_now has the rest, too.\n\nExit codes: 0 success, 2 wrong usage or configuration, 3 the command could not finish."
    )]
    Freshness(DatasetsArguments),
}

/// The arguments of `afterwrite datasets freshness`.
#[derive(Debug, Args)]
pub struct DatasetsArguments {
    /// A built-in model's name or the path of a TOML file; default: AFTERWRITE_MODEL, else exambuddy.
    #[arg(long)]
    model: Option<String>,
    /// The bucket of the datasets; default: AFTERWRITE_BUCKET.
    #[arg(long, value_name = "NAME")]
    bucket: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl DatasetsCommand {
    /// Runs the command and prints its result; returns `true`.
    ///
    /// # Errors
    /// A setting that is missing or wrong; a bucket that cannot be reached; a table or a file that cannot be read.
    pub async fn run(&self) -> Result<bool> {
        let Self::Freshness(arguments) = self;
        let (bucket, model) = (arguments.bucket().await?, crate::model::load(arguments.model.as_deref())?);
        let freshness = Box::pin(dataset_freshness(bucket, &model)).await?;
        print(&if arguments.json { json(&freshness)? } else { freshness_table(&freshness) })?;
        Ok(true)
    }
}

impl DatasetsArguments {
    async fn bucket(&self) -> Result<S3Bucket> {
        let mut settings = EnvironmentSettings::from_env();
        settings.bucket = self.bucket.clone().or(settings.bucket);
        Ok(S3Bucket::retrying(s3_client().await?, settings.required_bucket()?))
    }
}

fn freshness_table(freshness: &[DatasetFreshness]) -> String {
    let mut table = new_table(&["dataset", "log version", "current up to version", "as of", "pending days"]);
    let version =
        |version: Option<u64>| version.map_or_else(|| "none".to_owned(), |version| version.to_string());
    for one in freshness {
        let as_of =
            one.as_of.map_or_else(|| "unknown".to_owned(), |ms| Timestamp::from_epoch_ms(ms).to_string());
        table.add_row([
            one.dataset.clone(),
            version(one.log_version),
            version(one.current_log_version),
            as_of,
            one.pending_days.len().to_string(),
        ]);
    }
    align_right(&mut table, 1..3);
    align_right(&mut table, 4..5);
    format!("{table}\n")
}
