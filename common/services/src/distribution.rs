//! Distributions of a content delivery network.

use std::future::Future;
use std::time::Duration;

use afterwrite_model::Error;

/// A CloudFront distribution that caches responses under paths.
pub trait Distribution: Send + Sync {
    /// Starts to invalidate these paths: at most 3,000, and at most 15 with a wildcard at the end. A request with the same `reference` and
    /// the same paths as an earlier one starts nothing and is free.
    ///
    /// # Errors
    /// [`DistributionError`]; `Unavailable` if there is no response within `limit`.
    fn invalidate(
        &self,
        paths: &[String],
        reference: &str,
        limit: Duration,
    ) -> impl Future<Output = Result<(), DistributionError>> + Send;
}

/// Why an invalidation was not started.
#[derive(Debug)]
pub enum DistributionError {
    /// Too many earlier invalidations are in progress. It can start when they are complete, which takes seconds to minutes.
    Busy(Error),
    /// Any other error.
    Failed(Error),
}
