//! The Lambda function `compactor`: `{"dataset": "attempts", "dt": "2026-02-06"}`, both optional; many small files become few.

use std::process::ExitCode;

use afterwrite_datasets::compact::function::CompactorFunction;

fn main() -> ExitCode {
    afterwrite_lambda::run("compactor", CompactorFunction::start)
}
