//! The datasets for analysts: the archive as Delta tables, compacted and copied to a folder of this machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use afterwrite_datasets::compact::{CompactionOptions, DatasetCompactor};
use afterwrite_datasets::delta::DeltaTable;
use afterwrite_datasets::export::ArchiveExporter;
use afterwrite_ledger::RememberedLookups;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::Bucket as _;
use afterwrite_services::dynamodb::DynamoDb;
use afterwrite_services::s3::S3Bucket;
use serde::Serialize;

use crate::archiving::read_object;
use crate::counting::STATE_TABLE;
use crate::environment::DemoEnvironment;
use crate::workload::{Workload, WorkloadQuestion};

/// The prefix of every dataset's keys, and the folder of the same name.
const DATASETS: &str = "datasets/";

/// How many objects of the archive one commit adds.
const OBJECTS_PER_COMMIT: usize = 50;

/// How long a commit may take.
const COMMIT_TIME: Duration = Duration::from_secs(60);

/// The datasets in the end.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DatasetsReport {
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
    pub datasets: Vec<DatasetFiles>,
    /// The workload's questions to the datasets.
    pub questions: Vec<DatasetQuestion>,
}

/// A question to the datasets.
#[derive(Clone, Debug, Serialize)]
pub struct DatasetQuestion {
    /// A description of the query.
    pub about: String,
    /// The query.
    pub sql: String,
    /// The saved query's name, if it is one of the model's.
    pub saved: Option<String>,
    /// The answer as a text table; `None` in a build without an SQL engine.
    pub answer: Option<String>,
}

/// The files of one dataset's current table.
#[derive(Clone, Debug, Serialize)]
pub struct DatasetFiles {
    /// The dataset's name.
    pub name: String,
    /// The number of files.
    pub files: usize,
    /// Their total size.
    pub bytes: u64,
}

impl DatasetsReport {
    /// Whether every change has its row, and every value its column.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.rows > 0 && self.rejected == 0 && self.rescued == 0
    }
}

/// Creates the folder, and removes an earlier demo's datasets from it; nothing else.
///
/// # Errors
/// [`ErrorKind::Configuration`] if it cannot be written.
pub(crate) fn prepare(folder: &Path) -> Result<()> {
    let removed = match std::fs::remove_dir_all(folder.join(DATASETS)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => std::fs::create_dir_all(folder),
    };
    removed.map_err(|error| not_writable(folder, error))
}

/// Exports every object of the archive, compacts the datasets and copies them into `folder`.
///
/// # Errors
/// An object could not be exported, or a file could not be written.
pub(crate) async fn export(
    environment: &DemoEnvironment,
    workload: &Workload,
    folder: &Path,
) -> Result<DatasetsReport> {
    let (model, bucket) = (&environment.model, &environment.archiving.bucket());
    let tables = DynamoDb::retrying(environment.server.client());
    let remembered = RememberedLookups::new(Arc::clone(model), Arc::from(STATE_TABLE), tables);
    let names = environment.table_names.clone();
    let exporter =
        ArchiveExporter::new(Arc::clone(model), names, bucket.clone(), Some(remembered), SystemClock);
    let mut report = DatasetsReport { folder: folder.to_owned(), ..DatasetsReport::default() };
    let objects = bucket.list("archive/").await?;
    let objects: Vec<String> = objects.into_iter().map(|object| object.key).collect();
    for keys in objects.chunks(OBJECTS_PER_COMMIT) {
        for tally in Box::pin(exporter.export(keys, SystemClock.now().plus(COMMIT_TIME))).await {
            let tally = tally?;
            report.rows += tally.rows;
            report.rejected += tally.rejected;
            report.rescued += tally.rescued;
            report.exported_files += tally.files;
        }
    }
    report.duplicates = compact(model, bucket).await?;
    for dataset in &model.datasets {
        copy_table(bucket, &format!("{DATASETS}{}_log/", dataset.name), folder).await?;
        let (files, bytes) = copy_table(bucket, &format!("{DATASETS}{}/", dataset.name), folder).await?;
        report.datasets.push(DatasetFiles { name: dataset.name.to_string(), files, bytes });
    }
    report.questions = workload.questions.iter().filter_map(|question| resolve(model, *question)).collect();
    Ok(report)
}

/// Compacts everything; returns the number of duplicate rows.
async fn compact(model: &Arc<Model>, bucket: &S3Bucket) -> Result<u64> {
    let options = CompactionOptions::default();
    let compactor = DatasetCompactor::new(Arc::clone(model), bucket.clone(), options, SystemClock);
    Ok(Box::pin(compactor.compact(None, None)).await?.duplicates)
}

/// Copies the log of a table and the files of its newest version; returns their number and size.
async fn copy_table(bucket: &S3Bucket, root: &str, folder: &Path) -> Result<(usize, u64)> {
    for object in bucket.list(&format!("{root}_delta_log/")).await? {
        copy(bucket, &object.key, folder).await?;
    }
    let snapshot = Box::pin(DeltaTable::new(bucket.clone(), root).snapshot()).await?;
    let (mut files, mut bytes) = (0, 0);
    for file in snapshot.files() {
        copy(bucket, &format!("{root}{}", file.path), folder).await?;
        files += 1;
        bytes += file.size;
    }
    Ok((files, bytes))
}

/// A question with its SQL; `None` if the model has no such saved query.
fn resolve(model: &Model, question: WorkloadQuestion) -> Option<DatasetQuestion> {
    let (about, sql, saved) = match question {
        WorkloadQuestion::Sql(about, sql) => (about, sql, None),
        WorkloadQuestion::Saved(name) => {
            let query = model.queries.iter().find(|query| *query.name == *name)?;
            (&*query.about, &*query.sql, Some(name.to_owned()))
        }
    };
    Some(DatasetQuestion { about: about.to_owned(), sql: sql.to_owned(), saved, answer: None })
}

/// Copies an object to the same path within the folder.
async fn copy(bucket: &S3Bucket, key: &str, folder: &Path) -> Result<()> {
    let (path, data) = (folder.join(key), read_object(bucket, key).await?);
    let created = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    created.and_then(|()| std::fs::write(&path, data)).map_err(|error| not_writable(folder, error))
}

fn not_writable(folder: &Path, cause: std::io::Error) -> Error {
    Error::new(ErrorKind::Configuration, "the datasets cannot be written")
        .with("folder", folder.display().to_string())
        .hint("Choose another folder with --datasets DIR")
        .caused_by(cause)
}
