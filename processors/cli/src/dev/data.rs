//! The folder of `afterwrite dev --data`, which has the tables and the rollups of one model.

use std::io::ErrorKind as IoErrorKind;
use std::path::{Path, PathBuf};

use afterwrite_model::{Error, ErrorKind, Result};

const DATABASE_FILE: &str = "dynamodb.db";
const BUCKET_FOLDER: &str = "s3";
/// The name of the model whose rollups are in the state table.
const MODEL_FILE: &str = "model";

/// A folder that outlives the command.
pub(super) struct DataFolder<'f> {
    folder: &'f Path,
}

impl<'f> DataFolder<'f> {
    /// Creates the folder, or opens the folder that an earlier run of this model created.
    pub(super) fn open(folder: &'f Path, model: &str) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::new(ErrorKind::Configuration, "the folder of --data cannot be used")
                .with("folder", folder.display().to_string())
                .hint("Name a folder that can be written")
                .caused_by(error)
        };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let file = folder.join(MODEL_FILE);
        match std::fs::read_to_string(&file) {
            Ok(known) if known.trim() == model => {}
            Ok(known) => {
                return Err(Error::new(
                    ErrorKind::Configuration,
                    "the folder of --data has the rollups of another model, and two models would add to the same ones",
                )
                .with("folder", folder.display().to_string())
                .with("its model", known.trim().to_owned())
                .with("model", model)
                .hint("Name another folder, or delete this one"));
            }
            Err(error) if error.kind() == IoErrorKind::NotFound => {
                std::fs::write(&file, format!("{model}\n")).map_err(failed)?;
            }
            Err(error) => return Err(failed(error)),
        }
        Ok(Self { folder })
    }

    /// The file of the embedded DynamoDB.
    pub(super) fn database(&self) -> PathBuf {
        self.folder.join(DATABASE_FILE)
    }

    /// The folder of the embedded S3.
    pub(super) fn bucket(&self) -> PathBuf {
        self.folder.join(BUCKET_FOLDER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_the_data_of_one_model() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("data");
        DataFolder::open(&folder, "shop").unwrap();
        DataFolder::open(&folder, "shop").unwrap();
        let error = DataFolder::open(&folder, "social").err().expect("another model is refused").to_string();
        assert!(error.contains("its model") && error.contains("shop"), "{error}");
    }
}
