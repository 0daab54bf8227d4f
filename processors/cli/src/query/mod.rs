//! `afterwrite query`: SQL over the datasets in place, with the same views and saved queries as in Athena.
//!
//! ```text
//! --datasets DIR    a folder    ┐
//! --bucket NAME     S3          ┴─▶ engine: <name>, <name>_log and the catalogue's views ──▶ table, CSV or JSON
//! ```
//!
//! The engine is DataFusion. It takes longer to build than the rest of the project, so it requires the cargo feature `sql`;
//! without it the command returns an error with a hint.

#[cfg(feature = "sql")]
pub mod engine;
#[cfg(feature = "sql")]
mod objects;
#[cfg(feature = "sql")]
mod output;
#[cfg(feature = "sql")]
mod tables;

#[cfg(feature = "sql")]
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::config::EnvironmentSettings;
use clap::{ArgGroup, Args};
#[cfg(feature = "sql")]
use futures::FutureExt as _;

use crate::arguments::unknown;
use crate::print::{json, new_table, print};

/// The folder of a bucket that holds the datasets.
const DATASETS: &str = "datasets";

/// The arguments of `afterwrite query`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite query --list\n  afterwrite query --saved pass_rate_by_week --datasets bucket-copy\n  afterwrite query \"SELECT count(*) FROM attempts\" --bucket my-bucket --csv\n\nA dataset NAME has a table NAME with one row for each item as of the last compaction, a table NAME_log with one row for each change, and a view NAME_now of the items with what came since. With a condition on dt, only the files of those days are read.\nRequires a build with the cargo feature `sql`.\n\nExit codes: 0 success, 2 wrong SQL, usage or configuration, 3 the datasets cannot be read.",
    group = ArgGroup::new("source").required(true)
)]
pub struct QueryArguments {
    /// One SELECT statement.
    #[arg(group = "source")]
    sql: Option<String>,
    /// Run the model's saved query of this name.
    #[arg(long, value_name = "NAME", group = "source")]
    saved: Option<String>,
    /// List the model's saved queries.
    #[arg(long, group = "source")]
    list: bool,
    /// A built-in model's name or the path of a TOML file; default: AFTERWRITE_MODEL, else exambuddy.
    #[arg(long)]
    model: Option<String>,
    /// A local folder with the layout of the bucket: it contains datasets/NAME and datasets/NAME_log.
    #[arg(long, value_name = "DIR", conflicts_with = "bucket")]
    datasets: Option<PathBuf>,
    /// The bucket of the datasets; default: AFTERWRITE_BUCKET.
    #[arg(long, value_name = "NAME")]
    bucket: Option<String>,
    /// Print CSV with a header line.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print a JSON array of objects.
    #[arg(long)]
    json: bool,
}

/// The location of the datasets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A folder with the layout of the bucket.
    Folder(PathBuf),
    /// An S3 bucket.
    Bucket(String),
}

/// The format of a printed result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A table for people.
    Table,
    /// CSV with a header line; a null is an empty field, an empty text is `""`.
    Csv,
    /// A JSON array of objects.
    Json,
}

impl QueryArguments {
    /// Runs the query, or lists the saved queries, and prints the result; returns `true`.
    ///
    /// # Errors
    /// A wrong query or an unknown name, with the available names; a location that is missing or cannot be read.
    pub async fn run(&self) -> Result<bool> {
        let model = crate::model::load(self.model.as_deref())?;
        if self.list {
            print(&saved_queries(&model, self.json)?)?;
            return Ok(true);
        }
        let sql = match &self.saved {
            Some(name) => saved(&model, name)?,
            None => self.sql.as_deref().unwrap_or_default(),
        };
        let place = self.place(EnvironmentSettings::from_env().bucket)?;
        let layout = match (self.csv, self.json) {
            (true, _) => Layout::Csv,
            (false, true) => Layout::Json,
            (false, false) => Layout::Table,
        };
        print(&Box::pin(run_query(&model, &place, sql, layout)).await?)?;
        Ok(true)
    }

    fn place(&self, bucket_set: Option<String>) -> Result<Place> {
        if let Some(folder) = &self.datasets {
            return if folder.join(DATASETS).is_dir() {
                Ok(Place::Folder(folder.clone()))
            } else {
                Err(no_datasets(folder))
            };
        }
        self.bucket.clone().or(bucket_set).map(Place::Bucket).ok_or_else(|| {
            Error::new(ErrorKind::Configuration, "no dataset location: pass --datasets DIR or --bucket NAME")
                .hint("The environment variable AFTERWRITE_BUCKET can name the bucket, too")
        })
    }
}

fn no_datasets(folder: &Path) -> Error {
    let error = |message: &str| {
        Error::new(ErrorKind::Configuration, message).with("folder", folder.display().to_string())
    };
    if !folder.is_dir() {
        error("there is no such folder").hint("Pass with --datasets the folder that contains `datasets/`")
    } else if folder.file_name().is_some_and(|name| name == DATASETS) {
        error("this folder is `datasets/` itself").hint("Pass with --datasets the folder that contains it")
    } else {
        error("this folder does not contain `datasets/`").hint(
            "Pass with --datasets a folder with the layout of the bucket: datasets/<name> and datasets/<name>_log, with their _delta_log",
        )
    }
}

fn saved<'m>(model: &'m Model, name: &str) -> Result<&'m str> {
    let query = model.queries.iter().find(|query| *query.name == *name);
    let names = model.queries.iter().map(|query| &*query.name);
    query
        .map(|query| &*query.sql)
        .ok_or_else(|| unknown("a saved query that the model does not have", name, names))
}

fn saved_queries(model: &Model, as_json: bool) -> Result<String> {
    if as_json {
        let queries: Vec<_> = model
            .queries
            .iter()
            .map(|query| serde_json::json!({ "name": &*query.name, "about": &*query.about, "sql": &*query.sql }))
            .collect();
        return json(&queries);
    }
    let mut table = new_table(&["saved query", "description"]);
    for query in &model.queries {
        table.add_row([&*query.name, &*query.about]);
    }
    Ok(format!("{table}\n"))
}

/// The result of one `SELECT`, as text.
///
/// # Errors
/// A location that cannot be read, or SQL that is not valid for the datasets.
#[cfg(feature = "sql")]
pub async fn run_query(model: &Model, place: &Place, sql: &str, layout: Layout) -> Result<String> {
    let query = async {
        let engine = engine::Engine::open(model, place).await?;
        let result = engine.query(sql).await?;
        output::text(&result, layout)
    };
    // A Parquet file that is cut off is a panic of the reader.
    AssertUnwindSafe(query).catch_unwind().await.unwrap_or_else(|_| {
        Err(Error::new(ErrorKind::State, "a file of the datasets cannot be read: its content does not match its table").hint(
            "Compare the sizes of the files with the table's log, and restore the file from a version of the bucket or from a backup. Keep the table: the archive does not have the rows that a backfill wrote",
        ))
    })
}

/// Fails, because this build has no SQL engine.
///
/// # Errors
/// Always, with a hint on how to get a build with the engine.
#[cfg(not(feature = "sql"))]
pub async fn run_query(_: &Model, _: &Place, _: &str, _: Layout) -> Result<String> {
    Err(Error::new(ErrorKind::Configuration, "this build of afterwrite has no SQL engine").hint(
        "Released binaries contain it; from source, build with `cargo build --release --bin afterwrite --features afterwrite-cli/sql`",
    ))
}

#[cfg(test)]
mod tests;
