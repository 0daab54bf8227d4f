//! The Lambda function `invalidator`: the queue of stale paths in, CloudFront invalidations out.

use std::process::ExitCode;

use afterwrite_functions::InvalidatorFunction;

fn main() -> ExitCode {
    afterwrite_lambda::run("invalidator", InvalidatorFunction::start)
}
