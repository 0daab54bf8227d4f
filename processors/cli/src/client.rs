//! `afterwrite client`: typed readers of a model's rollups, for applications.

use std::path::{Path, PathBuf};
use std::{fs, io};

use afterwrite_client::{ClientLanguage, client};
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use clap::{Args, Subcommand};

use crate::print::{print, tell};

/// The languages of clients.
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  afterwrite client typescript my-model.toml --out rollups.ts\n  afterwrite client python my-model.toml --out rollups.py --check"
)]
pub enum ClientCommand {
    /// Write readers in TypeScript, for `@aws-sdk/client-dynamodb` 3.
    #[command(
        after_help = "Examples:\n  afterwrite client typescript my-model.toml --out rollups.ts\n  afterwrite client typescript my-model.toml --out rollups.ts --check\n\nExit codes: 0 success, 1 the file is out of date, 2 the model has errors or the file cannot be read or written."
    )]
    Typescript(ClientArguments),
    /// Write readers in Python, for boto3.
    #[command(
        after_help = "Examples:\n  afterwrite client python my-model.toml --out rollups.py\n  afterwrite client python my-model.toml --out rollups.py --check\n\nExit codes: 0 success, 1 the file is out of date, 2 the model has errors or the file cannot be read or written."
    )]
    Python(ClientArguments),
}

/// The arguments of a client.
#[derive(Debug, Args)]
pub struct ClientArguments {
    /// A built-in model's name or the path of a TOML file.
    model: String,
    /// Write to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write nothing; check that the file is what the command would write, for CI.
    #[arg(long, requires = "out")]
    check: bool,
}

impl ClientCommand {
    /// Writes or checks the client; returns whether a checked file is up to date.
    ///
    /// # Errors
    /// A model that does not load, a file that cannot be read or written.
    pub fn run(&self) -> Result<bool> {
        match self {
            Self::Typescript(arguments) => arguments.run(ClientLanguage::TypeScript),
            Self::Python(arguments) => arguments.run(ClientLanguage::Python),
        }
    }
}

impl ClientArguments {
    fn run(&self, language: ClientLanguage) -> Result<bool> {
        let text = client(&Model::load(&self.model)?, language);
        match &self.out {
            None => print(&text)?,
            Some(file) if self.check => return self.check(file, &text, language),
            Some(file) => fs::write(file, text).map_err(|error| unusable(file, "written", error))?,
        }
        Ok(true)
    }

    fn check(&self, file: &Path, text: &str, language: ClientLanguage) -> Result<bool> {
        let found = match fs::read(file) {
            Ok(found) => Some(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unusable(file, "read", error)),
        };
        // A checkout may have written the line ends of Windows.
        let is_equal = |found: &Vec<u8>| String::from_utf8_lossy(found).replace("\r\n", "\n") == text;
        if found.as_ref().is_some_and(is_equal) {
            return Ok(true);
        }
        let (file, state) = (file.display(), if found.is_some() { "out of date" } else { "missing" });
        let command = format!("afterwrite client {} {} --out {file}", language.name(), self.model);
        tell(&format!("{file} is {state}. Run: {command}"));
        Ok(false)
    }
}

fn unusable(file: &Path, done: &str, error: io::Error) -> Error {
    Error::new(ErrorKind::Configuration, format!("the client cannot be {done}"))
        .with("file", file.display().to_string())
        .caused_by(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_the_line_ends_of_windows_is_up_to_date() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rollups.py");
        let text = client(&Model::load("shop").unwrap(), ClientLanguage::Python);
        let arguments = ClientArguments { model: "shop".to_owned(), out: Some(file.clone()), check: true };
        let is_fresh = |content: String| {
            fs::write(&file, content).unwrap();
            arguments.run(ClientLanguage::Python).unwrap()
        };
        assert!(is_fresh(text.replace('\n', "\r\n")) && is_fresh(text.clone()));
        assert!(!is_fresh(text.replacen("shop", "shops", 1)));
    }
}
