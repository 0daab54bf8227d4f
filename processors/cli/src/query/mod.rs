//! `afterwrite query`: SQL over the datasets, where they lie, with the views and saved queries that Athena gets.
//!
//! ```text
//! --datasets PATH   a folder    ┐
//! --bucket NAME     S3          ┴─▶ engine: <name>_log and the catalogue's views ──▶ table, CSV or JSON
//! ```
//!
//! The engine is DataFusion. It takes longer to build than all the rest, so it is there only with the cargo feature `sql`; without
//! it the command exists and says so.

#[cfg(feature = "sql")]
pub mod engine;
#[cfg(feature = "sql")]
mod objects;
#[cfg(feature = "sql")]
mod output;

use std::path::{Path, PathBuf};

use afterwrite::config::EnvironmentSettings;
use afterwrite::table::Model;
use afterwrite::{Error, ErrorKind, Result};
use clap::{ArgGroup, Args};

use crate::print::{json, new_table, print};

/// The folder of a bucket that holds the datasets.
const DATASETS: &str = "datasets";

/// The arguments of `afterwrite query`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite query --list\n  afterwrite query --saved pass_rate_by_week --datasets bucket-copy\n  afterwrite query \"SELECT status, count(*) FROM attempts WHERE dt >= '2026-02-01' GROUP BY status\" --bucket my-bucket --csv\n\nA dataset has a view of its name, an item each, and a table <name>_log, a change each. A condition on dt spares reading other days.\nNeeds a build with the cargo feature `sql`.",
    group = ArgGroup::new("asked").required(true)
)]
pub struct QueryArguments {
    /// One SELECT.
    #[arg(group = "asked")]
    sql: Option<String>,
    /// The name of one of the model's saved queries.
    #[arg(long, value_name = "NAME", group = "asked")]
    saved: Option<String>,
    /// Tell the model's saved queries.
    #[arg(long, group = "asked")]
    list: bool,
    /// A built-in model's name or the path of a TOML file; default: AFTERWRITE_MODEL, else exambuddy.
    #[arg(long)]
    model: Option<String>,
    /// A folder of this machine that is like the bucket: it holds datasets/NAME/dt=DAY/….parquet.
    #[arg(long, value_name = "PATH", conflicts_with = "bucket")]
    datasets: Option<PathBuf>,
    /// The bucket of the datasets; default: AFTERWRITE_BUCKET.
    #[arg(long, value_name = "NAME")]
    bucket: Option<String>,
    /// Print CSV with a line of names.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print a JSON array of objects.
    #[arg(long)]
    json: bool,
}

/// Where datasets lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a folder that is like the bucket.
    Folder(PathBuf),
    /// In a bucket of S3.
    Bucket(String),
}

/// How an answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// For people.
    Table,
    /// With a line of names; a null is an empty field, an empty text is `""`.
    Csv,
    /// An array of objects.
    Json,
}

impl QueryArguments {
    /// Does what was asked for; says whether all was right.
    ///
    /// # Errors
    /// What was asked wrongly, with the names there are; a place that cannot be read.
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
        print(&Box::pin(answer(&model, &place, sql, layout)).await?)?;
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
            Error::new(ErrorKind::Configuration, "nobody said where the datasets are").hint(
                "Name a folder with --datasets or a bucket with --bucket, or set AFTERWRITE_BUCKET to the bucket",
            )
        })
    }
}

fn no_datasets(folder: &Path) -> Error {
    let error = |message: &str| {
        Error::new(ErrorKind::Configuration, message).with("folder", folder.display().to_string())
    };
    if !folder.is_dir() {
        error("there is no such folder").hint("Name with --datasets the folder that holds `datasets/`")
    } else if folder.file_name().is_some_and(|name| name == DATASETS) {
        error("this folder does not hold `datasets/`: it is that folder")
            .hint("Name with --datasets the folder that it is in")
    } else {
        error("this folder does not hold `datasets/`").hint(
            "Name with --datasets a folder that is like the bucket, with datasets/<name>/dt=<day>/….parquet in it",
        )
    }
}

fn saved<'m>(model: &'m Model, name: &str) -> Result<&'m str> {
    let query = model.queries.iter().find(|query| *query.name == *name);
    query.map(|query| &*query.sql).ok_or_else(|| {
        let names: Vec<&str> = model.queries.iter().map(|query| &*query.name).collect();
        let remedy = match names.as_slice() {
            [] => "The model has none; give the SQL itself".to_owned(),
            names => format!("There are {}", names.join(", ")),
        };
        Error::new(ErrorKind::Configuration, "there is no saved query of this name")
            .with("name", name)
            .with("model", &*model.name)
            .hint(remedy)
    })
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
    let mut table = new_table(&["saved query", "answers"]);
    table.add_rows(model.queries.iter().map(|query| [&*query.name, &*query.about]));
    Ok(format!("{}\n", table.trim_fmt()))
}

/// The answer to one `SELECT`, as text.
///
/// # Errors
/// A place that cannot be read, SQL that means nothing there.
#[cfg(feature = "sql")]
pub async fn answer(model: &Model, place: &Place, sql: &str, layout: Layout) -> Result<String> {
    let engine = engine::Engine::open(model, place).await?;
    let answer = engine.ask(sql).await?;
    output::text(&answer, layout)
}

/// What there is to say without an engine.
///
/// # Errors
/// Always: how to get one.
#[cfg(not(feature = "sql"))]
pub async fn answer(_: &Model, _: &Place, _: &str, _: Layout) -> Result<String> {
    Err(Error::new(ErrorKind::Configuration, "this build of afterwrite has no SQL engine").hint(
        "Released binaries have one; from source, build with `cargo build --release --bin afterwrite --features afterwrite-cli/sql`",
    ))
}

#[cfg(test)]
mod tests;
