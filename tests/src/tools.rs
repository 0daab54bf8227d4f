//! The tools that `tests/run` provides: interpreters, compilers and browsers, and the libraries of their languages.

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// The path that `tests/run` sets in this variable.
///
/// # Panics
/// If the variable is not set: the test must fail, not pass without a check.
#[must_use]
pub fn setting(name: &str) -> PathBuf {
    env::var_os(name).unwrap_or_else(|| panic!("{name} is not set: run tests/run")).into()
}

/// The folder that has Node.js as `run`, and AWS's SDK, TypeScript and prettier in `node_modules`.
#[must_use]
pub fn node_folder() -> PathBuf {
    setting("AFTERWRITE_TEST_CLIENT_NODE")
}

/// Runs a tool; returns its output.
///
/// # Panics
/// If the tool fails.
pub fn output(mut command: Command) -> Vec<u8> {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let texts = [&done.stdout, &done.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(done.status.success(), "{command:?}:\n{}", texts.concat());
    done.stdout
}
