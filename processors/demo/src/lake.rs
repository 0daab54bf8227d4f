//! What analysts get of the demo: the archive as Parquet, compacted, and left on this machine to be asked.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use afterwrite::clock::SystemClock;
use afterwrite::commit::RememberedLookups;
use afterwrite::sink::dynamodb::DynamoDb;
use afterwrite::sink::s3::S3Bucket;
use afterwrite::sink::{Bucket as _, ListedObject};
use afterwrite::table::Model;
use afterwrite::{Error, ErrorKind, Result};
use afterwrite_datasets::compact::{CompactionOptions, DatasetCompactor};
use afterwrite_datasets::export::ArchiveExporter;
use futures::TryStreamExt as _;
use serde::Serialize;

use super::stage::{STATE_TABLE, Stage};
use super::workloads::{Question, Workload};

/// What every dataset's key begins with, and the folder of the same name.
const DATASETS: &str = "datasets/";

/// The datasets in the end.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Lake {
    /// The folder that holds `datasets/`.
    pub folder: PathBuf,
    /// Rows that were exported: every version of every item.
    pub rows: usize,
    /// Archive lines that could not be exported.
    pub rejected: usize,
    /// Rows with values that fit no column.
    pub rescued: usize,
    /// Files that the exporter wrote, before compaction.
    pub exported_files: usize,
    /// Duplicate rows that compaction removed.
    pub duplicates: u64,
    /// The datasets of the model.
    pub datasets: Vec<Dataset>,
    /// The workload's questions to the datasets.
    pub questions: Vec<Asked>,
}

/// A question to the datasets.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Asked {
    /// What it asks.
    pub about: String,
    /// The query.
    pub sql: String,
    /// The saved query's name, if it is one of the model's.
    pub saved: Option<String>,
    /// The answer as a text table; `None` until a program with an SQL engine has asked.
    pub answer: Option<String>,
}

/// The files of one dataset, compacted.
#[derive(Clone, Debug, Serialize)]
pub struct Dataset {
    /// The dataset's name.
    pub name: String,
    /// The number of files.
    pub files: usize,
    /// Their size together.
    pub bytes: u64,
}

/// Makes the folder, and removes an earlier demo's datasets from it; nothing else.
///
/// # Errors
/// [`ErrorKind::Configuration`] if it cannot be written to.
pub(super) fn prepare(folder: &Path) -> Result<()> {
    let earlier = folder.join(DATASETS);
    let done = match std::fs::remove_dir_all(&earlier) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => std::fs::create_dir_all(folder),
    };
    done.map_err(|error| unwritten(folder, error))
}

/// Exports every object of the archive, and copies what came of it into `folder`.
///
/// # Errors
/// An object could not be exported, or a file not be written.
pub(super) async fn fill(stage: &Stage, workload: &dyn Workload, folder: &Path) -> Result<Lake> {
    let (model, bucket) = (&stage.model, &stage.archive.bucket());
    let tables = DynamoDb::new(stage.server.client());
    let remembered = RememberedLookups::new(Arc::clone(model), Arc::from(STATE_TABLE), tables);
    let names = stage.table_names.clone();
    let exporter = ArchiveExporter::new(Arc::clone(model), names, bucket.clone(), Some(remembered));
    let mut lake = Lake { folder: folder.to_owned(), ..Lake::default() };
    for object in bucket.list("archive/").await? {
        let tally = Box::pin(exporter.export(&object.key)).await?;
        lake.rows += tally.rows;
        lake.rejected += tally.rejected;
        lake.rescued += tally.rescued;
        lake.exported_files += tally.files;
    }
    lake.duplicates = compact(model, bucket).await?;
    for dataset in &model.datasets {
        let files = bucket.list(&format!("{DATASETS}{}/", dataset.name)).await?;
        for ListedObject { key, .. } in &files {
            copy(bucket, key, folder).await?;
        }
        lake.datasets.push(Dataset {
            name: dataset.name.to_string(),
            files: files.len(),
            bytes: files.iter().map(|file| file.size).sum(),
        });
    }
    lake.questions = questions(model, workload);
    Ok(lake)
}

/// Compacts everything, and at once removes what was superseded: no query is under way here that could still want it.
async fn compact(model: &Arc<Model>, bucket: &S3Bucket) -> Result<u64> {
    let options = CompactionOptions { grace_period: Duration::ZERO, ..CompactionOptions::default() };
    let compactor = DatasetCompactor::new(Arc::clone(model), bucket.clone(), options, SystemClock);
    let compacted = Box::pin(compactor.compact(None, None)).await?;
    Box::pin(compactor.compact(None, None)).await?;
    Ok(compacted.duplicates)
}

/// The workload's questions, with the SQL of the model's saved queries.
fn questions(model: &Model, workload: &dyn Workload) -> Vec<Asked> {
    let asked = workload.questions().iter().filter_map(|question| match *question {
        Question::Sql(about, sql) => {
            Some(Asked { about: about.to_owned(), sql: sql.to_owned(), ..Asked::default() })
        }
        Question::Saved(name) => {
            let query = model.queries.iter().find(|query| *query.name == *name)?;
            let saved = Some(name.to_owned());
            Some(Asked { about: query.about.to_string(), sql: query.sql.to_string(), saved, answer: None })
        }
    });
    asked.collect()
}

/// Copies an object to the same place within the folder.
async fn copy(bucket: &S3Bucket, key: &str, folder: &Path) -> Result<()> {
    let Some(mut chunks) = bucket.get(key).await? else { return Ok(()) };
    let path = folder.join(key);
    let mut file = path
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::File::create(&path))
        .map_err(|error| unwritten(folder, error))?;
    while let Some(chunk) = chunks.try_next().await? {
        file.write_all(&chunk).map_err(|error| unwritten(folder, error))?;
    }
    Ok(())
}

fn unwritten(folder: &Path, cause: std::io::Error) -> Error {
    Error::new(ErrorKind::Configuration, "the datasets cannot be written")
        .with("folder", folder.display().to_string())
        .hint("Name another folder: --datasets FOLDER")
        .caused_by(cause)
}

impl Lake {
    /// Whether every change found its columns.
    pub(super) fn is_whole(&self) -> bool {
        self.rows > 0 && self.rejected == 0 && self.rescued == 0
    }
}
