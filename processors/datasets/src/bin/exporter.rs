//! The Lambda function `exporter`: the archive's objects in, Parquet out.

use std::process::ExitCode;

use afterwrite_datasets::export::function::ExporterFunction;

fn main() -> ExitCode {
    afterwrite_lambda::run("exporter", ExporterFunction::start)
}
