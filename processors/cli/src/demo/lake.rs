//! What analysts get of the demo: the archive as Parquet, left on this machine to be asked.

use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use afterwrite::commit::Remembered;
use afterwrite::config::{Config, Settings};
use afterwrite::sink::dynamodb::DynamoDb;
use afterwrite::sink::s3::{Bucket as _, Listed, S3};
use afterwrite::{Error, ErrorKind, Result};
use afterwrite_datasets::export::Exporter;
use aws_sdk_dynamodb::Client;
use futures::TryStreamExt as _;
use serde::Serialize;

use super::STATE_TABLE;
use super::report::{align_right, new_table};

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
    datasets: Vec<Dataset>,
}

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
pub(super) async fn fill(bucket: &S3, client: &Client, folder: &Path) -> Result<Lake> {
    let Config { model, table_names, .. } = Config::resolve(&Settings::default(), &[])?;
    let remembered = Remembered::new(model.clone(), Arc::from(STATE_TABLE), DynamoDb::new(client.clone()));
    let exporter = Exporter::new(model.clone(), table_names, bucket.clone(), Some(remembered));
    let mut lake = Lake { folder: folder.to_owned(), ..Lake::default() };
    for object in bucket.list("archive/").await? {
        let tally = Box::pin(exporter.export(&object.key)).await?;
        lake.rows += tally.rows;
        lake.rejected += tally.rejected;
        lake.rescued += tally.rescued;
    }
    for dataset in &model.datasets {
        let files = bucket.list(&format!("{DATASETS}{}/", dataset.name)).await?;
        for Listed { key, .. } in &files {
            copy(bucket, key, folder).await?;
        }
        lake.datasets.push(Dataset {
            name: dataset.name.to_string(),
            files: files.len(),
            bytes: files.iter().map(|file| file.size).sum(),
        });
    }
    Ok(lake)
}

/// Copies an object to the same place within the folder.
async fn copy(bucket: &S3, key: &str, folder: &Path) -> Result<()> {
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
        .remedy("Name another folder: --datasets FOLDER")
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
        write!(
            f,
            "Datasets ({} rows, {} lines rejected, {} rows with values that fit no column):\n{table}\n",
            self.rows, self.rejected, self.rescued
        )?;
        let folder = self.folder.display();
        write!(
            f,
            "They lie in {folder}. Ask them, with no AWS account:\n  \
             cargo run --release --features sql -- query --datasets {folder} --list"
        )
    }
}
