//! The Python scripts of the tests and benchmarks.

use std::path::Path;
use std::process::Command;

/// Names the interpreter that has the scripts' packages; `tests/run` provides one and sets it. Without it: `python3`.
const INTERPRETER: &str = "AFTERWRITE_TEST_PYTHON";

/// A command that runs a script, by its path in the folder `tests`.
#[must_use]
pub fn script(path: &str) -> Command {
    let mut command = Command::new(std::env::var_os(INTERPRETER).unwrap_or_else(|| "python3".into()));
    // Compiled scripts would be left in the folders of the repository.
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}
