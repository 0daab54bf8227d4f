//! `afterwrite model schema`: the JSON Schema of model files, for editors.

use std::path::PathBuf;

use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use clap::Args;

use crate::print::{self, print};

/// The arguments of `afterwrite model schema`.
#[derive(Debug, Args)]
#[command(
    after_help = "An editor that knows Taplo's `#:schema` (Even Better TOML) completes, describes and checks the\nkeys of a model file that begins with the line:\n\n    #:schema ./model.schema.json\n\nExamples:\n  afterwrite model schema --out model.schema.json\n\nExit codes: 0 success, 2 the file cannot be written."
)]
pub struct SchemaArguments {
    /// Write the schema to a file instead of standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl SchemaArguments {
    /// Prints or writes the schema.
    ///
    /// # Errors
    /// The file or standard output cannot be written to.
    pub fn run(&self) -> Result<bool> {
        let schema = print::json(&Model::json_schema())?;
        match &self.out {
            None => print(&schema)?,
            Some(path) => std::fs::write(path, schema).map_err(|error| {
                Error::new(ErrorKind::Configuration, "the schema cannot be written")
                    .with("file", path.display().to_string())
                    .caused_by(error)
            })?,
        }
        Ok(true)
    }
}
