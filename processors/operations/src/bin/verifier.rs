//! The Lambda function `verifier`: `{"verify": {"sample": 0.01}}`; what is derived is compared with the items.

use std::process::ExitCode;

use afterwrite_operations::verifier::function::VerifierFunction;

fn main() -> ExitCode {
    afterwrite_lambda::run("verifier", VerifierFunction::start)
}
