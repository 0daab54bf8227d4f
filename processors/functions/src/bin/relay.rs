//! The Lambda function `relay`: a table's stream in, caches invalidated and every change archived.

use std::process::ExitCode;

use afterwrite::config::Projection;
use afterwrite_functions::host::ProjectionHost;

fn main() -> ExitCode {
    afterwrite_lambda::run(|settings| {
        ProjectionHost::start("relay", &[Projection::Invalidate, Projection::Archive], settings)
    })
}
