//! The release binaries, for tests that start them as processes.

use std::path::PathBuf;
use std::process::Command;

use afterwrite_local::sdk::{CREDENTIAL, REGION};

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

/// `afterwrite` on the embedded services at this endpoint, with no other setting than the state table.
#[must_use]
pub fn embedded_afterwrite(endpoint: &str, state_table: &str) -> Command {
    let mut command = Command::new(program("afterwrite"));
    command.env_clear().envs([
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_REGION", REGION),
        ("AWS_ACCESS_KEY_ID", CREDENTIAL),
        ("AWS_SECRET_ACCESS_KEY", CREDENTIAL),
        ("AFTERWRITE_STATE_TABLE", state_table),
    ]);
    command
}

/// Removes the settings of the test run, which a command would report as unknown settings of Afterwrite.
pub fn remove_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("AFTERWRITE_") {
            command.env_remove(name);
        }
    }
}
