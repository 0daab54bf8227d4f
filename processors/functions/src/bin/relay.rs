//! The Lambda function `relay`: a table's stream in, caches invalidated and every change archived.

use std::process::ExitCode;

use afterwrite_functions::ProjectionHost;
use afterwrite_services::config::ProjectionKind;

fn main() -> ExitCode {
    afterwrite_lambda::run("relay", |settings| {
        ProjectionHost::start("relay", &[ProjectionKind::Invalidate, ProjectionKind::Archive], settings)
    })
}
