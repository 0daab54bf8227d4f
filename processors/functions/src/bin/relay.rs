//! The Lambda function `relay`: a table's stream in, caches invalidated, every change archived, events published.

use std::process::ExitCode;

use afterwrite_functions::ProjectionHost;
use afterwrite_services::config::ProjectionKind;

fn main() -> ExitCode {
    afterwrite_lambda::run("relay", |settings| {
        ProjectionHost::start("relay", &ProjectionKind::OF_RELAY, settings)
    })
}
