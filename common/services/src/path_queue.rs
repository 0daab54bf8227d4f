//! Queues that hold the stale paths of a distribution until they are invalidated.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_model::Error;

/// A queue between the relay, which sends stale paths as messages, and the invalidator, which drains it.
///
/// A request is sent once; retries are the caller's decision. The queue may take a message and still report an error, and may deliver a
/// message twice: both only invalidate paths once more. Order does not matter.
pub trait PathQueue: Send + Sync {
    /// Sends messages, within the limits of [`super::sqs`]: a request over a limit is rejected as a whole. The results align with the
    /// messages; an error means that this message was not taken.
    ///
    /// # Errors
    /// `Unavailable` when throttled, unreachable or without a response within `limit`; `Configuration` for a missing queue or
    /// permission; `Rejected` for a request that would be refused again.
    fn send_batch(
        &self,
        messages: &[String],
        limit: Duration,
    ) -> impl Future<Output = Result<Vec<Result<(), Error>>, Error>> + Send;
}

impl<Q: PathQueue> PathQueue for Arc<Q> {
    fn send_batch(
        &self,
        messages: &[String],
        limit: Duration,
    ) -> impl Future<Output = Result<Vec<Result<(), Error>>, Error>> + Send {
        (**self).send_batch(messages, limit)
    }
}
