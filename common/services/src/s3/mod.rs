//! S3 buckets.

mod part;
mod store;

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::operation::put_object::builders::PutObjectFluentBuilder;
use aws_sdk_s3::primitives::ByteStream;

pub use self::part::{ObjectPart, ObjectRange};
pub use super::request::NamedBy;

use super::request::ServiceRequest;

/// An S3 bucket, through the AWS SDK.
#[derive(Clone, Debug)]
pub struct S3Bucket {
    client: Client,
    bucket: Arc<str>,
    named_by: NamedBy<'static>,
}

/// The setting that names a deployment's bucket.
const SETTING: NamedBy<'static> = NamedBy::Setting("AFTERWRITE_BUCKET");

/// How long S3 may take to respond to a request that has been sent.
const RESPONSE_LIMIT: Duration = Duration::from_secs(10);

/// The slowest upload that is waited for.
const SLOWEST_BYTES_PER_SECOND: u64 = 1024 * 1024;

impl S3Bucket {
    /// The bucket of this name. Uses the client with its configuration, except that nothing is retried.
    #[must_use]
    pub fn new(client: &Client, bucket: Arc<str>) -> Self {
        let once = client.config().to_builder().retry_config(RetryConfig::disabled()).build();
        Self { client: Client::from_conf(once), bucket, named_by: SETTING }
    }

    /// The bucket of this name, with the client's retries: for callers that can only report to the operator, and so rather wait for
    /// a busy bucket.
    #[must_use]
    pub fn retrying(client: Client, bucket: Arc<str>) -> Self {
        Self { client, bucket, named_by: SETTING }
    }

    /// The same bucket, named by something else than `AFTERWRITE_BUCKET`: errors advise accordingly.
    #[must_use]
    pub fn named_by(self, named_by: NamedBy<'static>) -> Self {
        Self { named_by, ..self }
    }

    fn request(&self, action: &'static str, permission: &'static str) -> ServiceRequest<'_> {
        let named_by = self.named_by;
        ServiceRequest { service: "S3", action, permission, resource: "bucket", name: &self.bucket, named_by }
    }

    fn put_object(&self, key: &str, body: ByteStream) -> PutObjectFluentBuilder {
        self.client.put_object().bucket(&*self.bucket).key(key).body(body)
    }

    /// The time limit of one attempt of a request that sends this many bytes. Of a response, it covers the headers: the SDK gives up a
    /// body that stalls.
    fn attempt_limit(sent_bytes: u64) -> aws_sdk_s3::config::Builder {
        let limit = RESPONSE_LIMIT + Duration::from_secs(sent_bytes / SLOWEST_BYTES_PER_SECOND);
        let timeouts = TimeoutConfig::builder().operation_attempt_timeout(limit).build();
        aws_sdk_s3::Config::builder().timeout_config(timeouts)
    }
}
