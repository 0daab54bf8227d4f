//! The shared parts of all Lambda functions: start-up and the invocation loop, failures, the response to a batch, metrics and logging.
//!
//! A function implements [`LambdaFunction`]; its binary passes a constructor to [`run`].

mod logging;
mod metrics;
mod payload;
mod runtime;

pub use self::logging::{LogOutput, start_logging};
pub use self::metrics::{
    ESSENTIAL_METRIC_OF_EXPIRING_SOURCES, ESSENTIAL_METRICS, ESSENTIAL_STAGES, MetricsLabels, MetricsLine,
    observe_metrics,
};
pub use self::payload::EventSource;
pub use self::runtime::{
    BatchItemFailure, BatchResponse, HandledInvocation, Invocation, LambdaFunction, response_json, run,
};
