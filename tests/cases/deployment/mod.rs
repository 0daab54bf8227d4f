//! Cases H. Deployment.

mod archive;
mod capacity;
mod doctor;
mod infrastructure;
mod template;

use std::collections::HashMap;
use std::process::{Command, Output};

use afterwrite_tests::programs::program;

/// Runs the command line with these settings alone, and credentials that no service checks.
fn afterwrite(arguments: &[&str], settings: &HashMap<&str, String>) -> Output {
    let mut command = Command::new(program("afterwrite"));
    command.args(arguments).env_clear().envs(settings).envs([
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
    ]);
    command.output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
