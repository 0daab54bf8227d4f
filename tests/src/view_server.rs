//! DuckDB, asked through the SQL that is checked in for Athena.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

/// A running DuckDB that answers what a view shows; dropping it ends it.
#[derive(Debug)]
pub struct ViewServer {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl ViewServer {
    /// Starts it for a view of a built-in model.
    ///
    /// # Panics
    /// If Python, DuckDB or sqlglot is not there: run `tests/run`.
    #[must_use]
    pub fn start(model: &str, view: &str) -> Self {
        let interpreter =
            std::env::var_os("AFTERWRITE_TEST_PYTHON").expect("AFTERWRITE_TEST_PYTHON is set: run tests/run");
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut process = Command::new(interpreter)
            .arg(root.join("datasets/view_server.py"))
            .arg(root.join("../infra/athena").join(model))
            .arg(view)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python starts");
        let questions = process.stdin.take().expect("its input");
        let answers = BufReader::new(process.stdout.take().expect("its output"));
        Self { process, questions, answers }
    }

    /// What the view shows of the datasets in a folder that is like the bucket.
    ///
    /// # Panics
    /// If DuckDB cannot read them.
    pub fn rows(&mut self, folder: &Path) -> Vec<Value> {
        writeln!(self.questions, "{}", folder.display()).expect("it listens");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it answers");
        serde_json::from_str(&line).expect("rows, or it has told what is wrong")
    }
}

impl Drop for ViewServer {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is gone.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
