//! Delivery streams, which collect many small records into few large objects.

use std::future::Future;
use std::sync::Arc;

use afterwrite_model::Error;

/// A Firehose delivery stream.
///
/// A request is sent once; retries are the caller's decision. The stream may take a record and still report an error, so a record
/// may be delivered twice.
pub trait DeliveryStream: Send + Sync {
    /// Sends records, within the limits of [`super::firehose`]: a request over a limit is rejected as a whole. The results align with
    /// the records; an error means that this record was not taken.
    ///
    /// # Errors
    /// `Unavailable` when throttled, unreachable or without a response; `Configuration` for a missing stream or permission;
    /// `Rejected` for a request that would be refused again.
    fn put_batch(
        &self,
        records: &[&[u8]],
    ) -> impl Future<Output = Result<Vec<Result<(), Error>>, Error>> + Send;
}

impl<S: DeliveryStream> DeliveryStream for Arc<S> {
    fn put_batch(
        &self,
        records: &[&[u8]],
    ) -> impl Future<Output = Result<Vec<Result<(), Error>>, Error>> + Send {
        (**self).put_batch(records)
    }
}
