//! The AWS clients, configured as the AWS SDK configures itself: `AWS_REGION`, `AWS_ENDPOINT_URL`, credentials and so on.

use std::time::Duration;

use aws_config::timeout::{TimeoutConfig, TimeoutConfigBuilder};
use aws_config::{BehaviorVersion, SdkConfig};
use aws_types::service_config::ServiceConfigKey;

use crate::sink::http_client;
use crate::{Error, ErrorKind, Result};

/// Time limits of a connection and of a request: services respond within milliseconds. A connection that died while the function was
/// frozen must not block a batch until Lambda ends the invocation. Requests to DynamoDB have shorter limits of their own
/// ([`DynamoDb`](crate::sink::dynamodb::DynamoDb)).
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

/// A DynamoDB client.
///
/// # Errors
/// [`ErrorKind::Configuration`] if no region is set.
pub async fn dynamodb_client() -> Result<aws_sdk_dynamodb::Client> {
    Ok(aws_sdk_dynamodb::Client::new(&sdk_config().await?))
}

/// A Firehose client.
///
/// # Errors
/// [`ErrorKind::Configuration`] if no region is set.
pub async fn firehose_client() -> Result<aws_sdk_firehose::Client> {
    Ok(aws_sdk_firehose::Client::new(&sdk_config().await?))
}

/// An S3 client. With an endpoint of its own, it puts the bucket into the path: such a server has no host name for each bucket.
///
/// # Errors
/// [`ErrorKind::Configuration`] if no region is set.
pub async fn s3_client() -> Result<aws_sdk_s3::Client> {
    let sdk = sdk_config().await?;
    let has_endpoint = sdk.endpoint_url().is_some() || has_s3_endpoint(&sdk);
    // A large object takes its time; the SDK gives up a transfer that stalls.
    let config = aws_sdk_s3::config::Builder::from(&sdk)
        .force_path_style(has_endpoint)
        .timeout_config(timeouts().disable_operation_attempt_timeout().build())
        .build();
    Ok(aws_sdk_s3::Client::from_conf(config))
}

/// A CloudFront client.
///
/// # Errors
/// [`ErrorKind::Configuration`] if no region is set.
pub(super) async fn cloudfront_client() -> Result<aws_sdk_cloudfront::Client> {
    Ok(aws_sdk_cloudfront::Client::new(&sdk_config().await?))
}

/// An SQS client.
///
/// # Errors
/// [`ErrorKind::Configuration`] if no region is set.
pub(super) async fn sqs_client() -> Result<aws_sdk_sqs::Client> {
    Ok(aws_sdk_sqs::Client::new(&sdk_config().await?))
}

/// Whether `AWS_ENDPOINT_URL_S3` or the profile's `services` set an endpoint for S3 alone. S3's client reads it in the same way.
fn has_s3_endpoint(sdk: &SdkConfig) -> bool {
    let key = ServiceConfigKey::builder().service_id("S3").env("AWS_ENDPOINT_URL").profile("endpoint_url");
    let services = sdk.service_config().zip(key.build().ok());
    services.and_then(|(services, key)| services.load_config(key)).is_some()
}

/// The configuration of all clients: the environment's, with our time limits.
///
/// # Errors
/// [`ErrorKind::Configuration`] if no region is set.
pub async fn sdk_config() -> Result<SdkConfig> {
    let timeouts = timeouts().operation_attempt_timeout(ATTEMPT_TIMEOUT).build();
    let defaults =
        aws_config::defaults(BehaviorVersion::latest()).http_client(http_client()).timeout_config(timeouts);
    let sdk = Box::pin(defaults.load()).await;
    if sdk.region().is_none() {
        return Err(Error::new(ErrorKind::Configuration, "no AWS region is set")
            .hint("Set AWS_REGION to the region of the tables"));
    }
    Ok(sdk)
}

fn timeouts() -> TimeoutConfigBuilder {
    TimeoutConfig::builder().connect_timeout(CONNECT_TIMEOUT)
}
