//! The release binaries, for tests that start them as processes.

use std::path::PathBuf;
use std::process::Command;

/// Names the folder that `tests/run` builds the release binaries into.
const BIN_DIR: &str = "AFTERWRITE_TEST_BIN_DIR";

/// The release binary of this name, for tests that are ignored unless `tests/run` runs them.
///
/// # Panics
/// If the binary is not built: the test must fail, not pass without a check.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    let folder = std::env::var_os(BIN_DIR).map(PathBuf::from);
    let path = folder.map(|folder| folder.join(name).with_extension(std::env::consts::EXE_EXTENSION));
    match path {
        Some(path) if path.is_file() => path,
        Some(path) => panic!("{} is not there: run tests/run", path.display()),
        None => panic!("{BIN_DIR} is not set: run tests/run"),
    }
}

/// Removes the settings of the test run, which a command would report as unknown settings of Afterwrite.
pub fn remove_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("AFTERWRITE_") {
            command.env_remove(name);
        }
    }
}
