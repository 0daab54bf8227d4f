//! What analysts get of the demo: the archive as Parquet, compacted, and left on this machine to be asked.

use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use afterwrite::commit::{Clock as _, RememberedLookups, SystemClock};
use afterwrite::sink::dynamodb::DynamoDb;
use afterwrite::sink::s3::S3Bucket;
use afterwrite::sink::{Bucket as _, ListedObject};
use afterwrite::table::Model;
use afterwrite::{Error, ErrorKind, Result};
use afterwrite_datasets::compact::{Compactor, Options};
use afterwrite_datasets::export::Exporter;
use futures::TryStreamExt as _;
use serde::Serialize;

use super::stage::{STATE_TABLE, Stage};
use super::workloads::{Question, Workload};
use crate::print::{align_right, new_table};
use crate::query::{self, Layout, Place};

/// What every dataset's key begins with, and the folder of the same name.
const DATASETS: &str = "datasets/";

/// The datasets in the end.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Lake {
    /// The folder that they lie in.
    folder: PathBuf,
    /// Rows that were exported, those of every version of every item.
    rows: usize,
    /// Lines that could not be; rows with values that fit no column.
    rejected: usize,
    rescued: usize,
    /// Files that the exporter wrote, and that compaction made few.
    exported_files: usize,
    /// Rows that compaction found twice.
    duplicates: u64,
    datasets: Vec<Dataset>,
    /// Questions and what they are answered; none if this program was built without an SQL engine.
    asked: Vec<Asked>,
    /// What is to be typed to ask more.
    #[serde(skip)]
    ask_more: String,
}

#[derive(Clone, Debug, Serialize)]
struct Asked {
    about: String,
    sql: String,
    answer: String,
}

/// Lines of an answer that are shown.
const LINES_SHOWN: usize = 14;

#[derive(Clone, Debug, Serialize)]
struct Dataset {
    name: String,
    files: usize,
    bytes: u64,
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
    let exporter = Exporter::new(Arc::clone(model), names, bucket.clone(), Some(remembered));
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
    lake.asked = ask(model, workload, folder).await?;
    lake.ask_more = how_to_ask(model, workload);
    Ok(lake)
}

/// Compacts everything, and at once removes what was superseded: no query is under way here that could still want it.
async fn compact(model: &Arc<Model>, bucket: &S3Bucket) -> Result<u64> {
    let options = Options { grace: Duration::ZERO, ..Options::default() };
    let compactor = Compactor::new(Arc::clone(model), bucket.clone(), options);
    let compacted = Box::pin(compactor.compact(None, None, SystemClock.now())).await?;
    Box::pin(compactor.compact(None, None, SystemClock.now())).await?;
    Ok(compacted.duplicates)
}

async fn ask(model: &Model, workload: &dyn Workload, folder: &Path) -> Result<Vec<Asked>> {
    let mut asked = Vec::new();
    if !cfg!(feature = "sql") {
        return Ok(asked);
    }
    for question in workload.questions() {
        let (about, sql) = match question {
            Question::Sql(about, sql) => (*about, *sql),
            Question::Saved(name) => match model.queries.iter().find(|query| *query.name == **name) {
                Some(query) => (&*query.about, &*query.sql),
                None => continue,
            },
        };
        let place = Place::Folder(folder.to_owned());
        let answer = Box::pin(query::answer(model, &place, sql, Layout::Table)).await?;
        asked.push(Asked { about: about.to_owned(), sql: sql.to_owned(), answer });
    }
    Ok(asked)
}

/// The arguments of `query` that ask the first question, folder aside.
fn how_to_ask(model: &Model, workload: &dyn Workload) -> String {
    let model_option =
        if *model.name == *Model::DEFAULT_NAME { String::new() } else { format!("--model {} ", model.name) };
    let question = match workload.questions().first() {
        Some(Question::Saved(name)) => format!("--saved {name}"),
        Some(Question::Sql(_, sql)) => format!("\"{sql}\""),
        None => "--list".to_owned(),
    };
    format!("{model_option}{question}")
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

impl fmt::Display for Lake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = new_table(&["dataset", "files", "bytes"]);
        for Dataset { name, files, bytes } in &self.datasets {
            table.add_row([name.clone(), files.to_string(), bytes.to_string()]);
        }
        align_right(&mut table, 1..3);
        let Self { rows, rejected, rescued, exported_files, duplicates, .. } = self;
        writeln!(
            f,
            "Datasets: {rows} rows in {exported_files} files, compacted ({duplicates} rows lay there twice; {rejected} lines \
             rejected, {rescued} rows with values that fit no column):\n{table}\n"
        )?;
        for Asked { about, answer, .. } in &self.asked {
            writeln!(f, "{about}:")?;
            answer.lines().take(LINES_SHOWN).try_for_each(|line| writeln!(f, "  {line}"))?;
            writeln!(f)?;
        }
        let folder = self.folder.display();
        write!(
            f,
            "The Parquet lies in {folder}/{DATASETS}; ask it, with no AWS account:\n  \
             cargo run --release --features sql -- query --datasets {folder} {}",
            self.ask_more
        )
    }
}
