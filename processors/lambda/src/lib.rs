//! What all Lambda functions share: start-up and the invocation loop, the response to a batch, metrics and logging.
//!
//! A function implements [`LambdaFunction`]; its binary passes a constructor to [`run`].

mod logging;
mod metrics;
mod response;
mod runtime;

pub use self::metrics::MetricsLine;
pub use self::response::{BatchItemFailure, BatchResponse};
pub use self::runtime::{Invocation, LambdaFunction, run};
