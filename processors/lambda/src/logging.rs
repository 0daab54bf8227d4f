//! Logging to standard output, which Lambda sends to CloudWatch Logs.

use lambda_runtime::tracing::subscriber::fmt::writer::MakeWriterExt as _;
use lambda_runtime::tracing::{Level, init_default_subscriber_with_writer};

/// Logs at the level and in the format of the function's logging settings. TRACE is capped to DEBUG: at TRACE the Lambda runtime
/// writes every event, and with it the values that a model keeps secret.
pub fn start_logging() {
    init_default_subscriber_with_writer(std::io::stdout.with_max_level(Level::DEBUG));
}
