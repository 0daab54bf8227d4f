//! DuckDB as an independent reader of the datasets: it sees their files through the SQL that is checked in for Athena.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde::Deserialize;
use serde_json::Value;

use crate::python;

/// The output of `independent_reader.py`.
#[derive(Debug, Deserialize)]
pub struct DuckDbRows {
    /// The SQL files that were parsed, by their paths in the model's folder.
    pub statements: Vec<String>,
    /// The rows of each saved query.
    pub queries: BTreeMap<String, Vec<Value>>,
    /// The rows of each view, with the option `--views`.
    #[serde(default)]
    pub views: BTreeMap<String, Vec<Value>>,
}

/// A dataset in one version of its tables.
#[derive(Debug, Deserialize)]
pub struct DatasetRows {
    /// The rows of the table of current rows.
    pub current: Vec<Value>,
    /// The rows of the view over the log.
    pub now: Vec<Value>,
    /// Of both tables, by name.
    pub versions: BTreeMap<String, TableVersion>,
}

/// The version of a table, and what applications recorded in it.
#[derive(Debug, Deserialize)]
pub struct TableVersion {
    /// The version.
    pub version: i64,
    /// The versions of applications.
    pub transactions: BTreeMap<String, i64>,
}

/// Reads a built-in model's datasets in a folder that is laid out like the bucket. The options are those of
/// `independent_reader.py`.
///
/// # Panics
/// If Python, DuckDB or sqlglot is missing (run `tests/run`), or DuckDB cannot read the datasets.
#[must_use]
pub fn read_datasets(folder: &Path, model: &str, options: &[&str]) -> DuckDbRows {
    let mut reader = python::script("datasets/independent_reader.py");
    let output = reader.arg(folder).arg(sql_folder(model)).args(options).output().expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the reader's JSON")
}

/// The SQL of a built-in model.
fn sql_folder(model: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/athena").join(model)
}

/// A running DuckDB that reads a dataset again and again. Dropping it ends the process.
#[derive(Debug)]
pub struct ViewServer {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl ViewServer {
    /// Starts it for a dataset of a built-in model.
    ///
    /// # Panics
    /// If Python cannot start.
    #[must_use]
    pub fn start(model: &str, dataset: &str) -> Self {
        let mut server = python::script("datasets/view_server.py");
        server.arg(sql_folder(model)).arg(dataset).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = server.spawn().expect("Python starts");
        let input = process.stdin.take().expect("a piped input");
        let output = BufReader::new(process.stdout.take().expect("a piped output"));
        Self { process, input, output }
    }

    /// The rows of the dataset in a folder that is laid out like the bucket.
    ///
    /// # Panics
    /// If DuckDB, deltalake or sqlglot is missing (run `tests/run`), or one of them cannot read the dataset.
    pub fn rows(&mut self, folder: &Path) -> DatasetRows {
        writeln!(self.input, "{}", folder.display()).expect("the server runs");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the server runs");
        serde_json::from_str(&line).expect("rows; otherwise the error is on standard error")
    }
}

impl Drop for ViewServer {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
