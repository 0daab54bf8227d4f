//! The Lambda function `aggregator`: a table's stream in, its rollups, counters and mirrors up to date.

use std::process::ExitCode;

use afterwrite_functions::ProjectionHost;
use afterwrite_services::config::ProjectionKind;

fn main() -> ExitCode {
    afterwrite_lambda::run("aggregator", |settings| {
        ProjectionHost::start("aggregator", &[ProjectionKind::Aggregate], settings)
    })
}
