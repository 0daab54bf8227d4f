//! Buckets.

mod memory;

use std::future::Future;
use std::sync::Arc;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::primitives::ByteStream;

pub use self::memory::MemoryObjects;
use super::service::Request;
use crate::Error;

/// A bucket. Putting the same object twice is the same as once.
pub trait ObjectStore: Send + Sync {
    /// Writes an object, replacing what is there under this key. A request is sent once.
    ///
    /// # Errors
    /// `Unavailable` when throttled, unreachable or not answered (the object may have been written), `Configuration` for a missing
    /// bucket or permission, `Rejected` for a request that would be refused again.
    fn put(&self, key: &str, body: Vec<u8>) -> impl Future<Output = Result<(), Error>> + Send;
}

impl<S: ObjectStore> ObjectStore for Arc<S> {
    fn put(&self, key: &str, body: Vec<u8>) -> impl Future<Output = Result<(), Error>> + Send {
        (**self).put(key, body)
    }
}

/// A bucket of S3, spoken to through the AWS SDK.
#[derive(Clone, Debug)]
pub struct S3 {
    client: Client,
    bucket: Arc<str>,
}

impl S3 {
    /// The bucket of this name. Takes a client as it is configured, but for retries: it has none.
    #[must_use]
    pub fn new(client: &Client, bucket: Arc<str>) -> Self {
        let once = client.config().to_builder().retry_config(RetryConfig::disabled()).build();
        Self { client: Client::from_conf(once), bucket }
    }
}

impl ObjectStore for S3 {
    async fn put(&self, key: &str, body: Vec<u8>) -> Result<(), Error> {
        let request = Request {
            service: "S3",
            action: "PutObject",
            permission: "s3:PutObject",
            kind: "bucket",
            name: &self.bucket,
            variable: "AFTERWRITE_BUCKET",
        };
        let put = self.client.put_object().bucket(&*self.bucket).key(key).body(ByteStream::from(body));
        // A future of the SDK is too large to lie in its caller's.
        Box::pin(put.send()).await.map(drop).map_err(|error| request.error(&error))
    }
}
