//! `afterwrite model ddl`: the SQL that defines a model's datasets in Athena.

use std::fs;
use std::path::{Path, PathBuf};

use afterwrite_datasets::catalogue::{self, BUCKET, CatalogueStatement};
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use clap::Args;

use super::ModelArgument;
use crate::print::print;

/// The arguments of `afterwrite model ddl`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite model ddl\n  afterwrite model ddl exambuddy --out infra/athena/exambuddy\n  afterwrite model ddl my-model.toml --bucket my-bucket --out sql\n\nExit codes: 0 success, 2 the model has errors or a file cannot be written."
)]
pub struct DdlArguments {
    #[command(flatten)]
    model: ModelArgument,
    /// Write the SQL to files under this folder (tables/, views/, queries/) and print their paths, instead of printing the SQL.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The bucket of the datasets; default: the placeholder `${bucket}` in its place.
    #[arg(long, value_name = "NAME")]
    bucket: Option<String>,
}

impl DdlArguments {
    /// Prints or writes the statements.
    ///
    /// # Errors
    /// A model that does not load, a folder that cannot be written.
    pub fn run(&self) -> Result<bool> {
        let statements = self.statements()?;
        match &self.out {
            Some(folder) => print(&write(folder, &statements)?)?,
            None => {
                let text: Vec<String> =
                    statements.iter().map(|statement| format!("{};\n", statement.sql)).collect();
                print(&text.join("\n"))?;
            }
        }
        Ok(true)
    }

    fn statements(&self) -> Result<Vec<CatalogueStatement>> {
        let mut statements = catalogue::statements(&Model::load(&self.model.name())?);
        if let Some(bucket) = &self.bucket {
            for statement in &mut statements {
                statement.sql = statement.sql.replace(BUCKET, bucket);
            }
        }
        Ok(statements)
    }
}

/// Writes a file for each statement; returns the paths, one a line.
fn write(folder: &Path, statements: &[CatalogueStatement]) -> Result<String> {
    let mut written = String::new();
    for statement in statements {
        let path = folder.join(&statement.path);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        made.and_then(|()| fs::write(&path, statement.file())).map_err(|error| {
            Error::new(ErrorKind::Configuration, "a file cannot be written")
                .with("file", path.display().to_string())
                .hint("Name a folder with --out that can be written")
                .caused_by(error)
        })?;
        written.push_str(&path.display().to_string());
        written.push('\n');
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments() -> DdlArguments {
        let model = ModelArgument { model: Some(Model::DEFAULT_NAME.to_owned()) };
        DdlArguments { model, out: None, bucket: Some("lake".to_owned()) }
    }

    #[test]
    fn the_placeholder_of_the_bucket_is_replaced() {
        for CatalogueStatement { path, sql } in arguments().statements().unwrap() {
            assert!(!sql.contains(BUCKET), "{path}");
            assert_eq!(sql.contains("s3://lake/datasets/"), path.starts_with("tables/"), "{path}");
        }
    }

    #[test]
    fn every_statement_gets_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let statements = arguments().statements().unwrap();
        let written = write(folder.path(), &statements).unwrap();
        assert_eq!(written.lines().count(), statements.len());
        for (path, statement) in written.lines().zip(&statements) {
            assert_eq!(fs::read_to_string(path).unwrap(), statement.file());
        }
        let blocked = folder.path().join(&statements[0].path);
        let error = write(&blocked, &statements).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    }
}
