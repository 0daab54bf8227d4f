//! The AWS clients, configured as the AWS SDK configures itself: `AWS_REGION`, `AWS_ENDPOINT_URL`, credentials and so on.

use std::time::Duration;

use afterwrite_model::{Error, ErrorKind, Result};
use aws_config::timeout::{TimeoutConfig, TimeoutConfigBuilder};
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use aws_types::service_config::ServiceConfigKey;

use super::{EnvironmentSettings, environment};
use crate::clock_check::ClockCheck;
use crate::cloudfront::CloudFront;
use crate::events::EventService;
use crate::http_client;
use crate::secret::ManagedSecret;

/// Time limits of a connection and of a request: services respond within milliseconds. A connection that died while the function was
/// frozen must not block a batch until Lambda ends the invocation. Requests to DynamoDB have shorter limits of their own
/// ([`DynamoDb`](crate::dynamodb::DynamoDb)).
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

/// The embedded servers that functions of this process use in place of AWS, as URLs. `afterwrite dev` sets them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddedEndpoints {
    /// The region of the servers.
    pub region: String,
    /// Both the access key id and the secret access key.
    pub credential: String,
    /// DynamoDB.
    pub dynamodb: String,
    /// Firehose.
    pub firehose: String,
    /// S3.
    pub s3: String,
    /// SQS.
    pub sqs: String,
    /// CloudFront.
    pub cloudfront: String,
    /// EventBridge.
    pub eventbridge: String,
}

impl EnvironmentSettings {
    /// A DynamoDB client, as [`dynamodb_client`].
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if no region is set.
    pub async fn dynamodb_client(&self) -> Result<aws_sdk_dynamodb::Client> {
        Ok(dynamodb_client_of(&self.sdk_config(|embedded| &embedded.dynamodb).await?))
    }

    /// A Firehose client.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if no region is set.
    pub async fn firehose_client(&self) -> Result<aws_sdk_firehose::Client> {
        Ok(aws_sdk_firehose::Client::new(&self.sdk_config(|embedded| &embedded.firehose).await?))
    }

    /// An S3 client, as [`s3_client`].
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if no region is set.
    pub async fn s3_client(&self) -> Result<aws_sdk_s3::Client> {
        Ok(s3_client_of(&self.sdk_config(|embedded| &embedded.s3).await?))
    }

    /// A CloudFront distribution.
    pub(super) async fn distribution(&self, id: impl Into<String>) -> Result<CloudFront> {
        Ok(CloudFront::new(self.sdk_config(|embedded| &embedded.cloudfront).await?, id))
    }

    /// A secret of Secrets Manager. No embedded server takes its place.
    pub(super) async fn secret<'s>(&self, arn: &'s str, setting: &'static str) -> Result<ManagedSecret<'s>> {
        Ok(ManagedSecret::new(sdk_config().await?, arn, setting))
    }

    /// An SQS client.
    pub(super) async fn sqs_client(&self) -> Result<aws_sdk_sqs::Client> {
        Ok(aws_sdk_sqs::Client::new(&self.sdk_config(|embedded| &embedded.sqs).await?))
    }

    /// The configuration of the clients of a service that takes events. No embedded server takes the place of SNS.
    pub(super) async fn event_sdk_config(&self, service: EventService) -> Result<SdkConfig> {
        match service {
            EventService::EventBridge => self.sdk_config(|embedded| &embedded.eventbridge).await,
            EventService::Sqs => self.sdk_config(|embedded| &embedded.sqs).await,
            EventService::Sns => sdk_config().await,
        }
    }

    async fn sdk_config(&self, endpoint: fn(&EmbeddedEndpoints) -> &str) -> Result<SdkConfig> {
        match &self.embedded {
            Some(embedded) => Ok(embedded.sdk_config(endpoint(embedded))),
            None => sdk_config().await,
        }
    }
}

impl EmbeddedEndpoints {
    /// A configuration that reads neither the environment nor a profile.
    fn sdk_config(&self, endpoint: &str) -> SdkConfig {
        let credentials = Credentials::new(&self.credential, &self.credential, None, None, "embedded");
        SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(self.region.clone()))
            .endpoint_url(endpoint)
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .http_client(http_client())
            .timeout_config(timeouts().operation_attempt_timeout(ATTEMPT_TIMEOUT).build())
            .build()
    }
}

/// A Firehose client.
///
/// # Errors
/// [`ErrorKind::Configuration`] if no region is set.
pub async fn firehose_client() -> Result<aws_sdk_firehose::Client> {
    Ok(aws_sdk_firehose::Client::new(&sdk_config().await?))
}

/// A DynamoDB client, whose requests fail if this machine's clock is not DynamoDB's.
///
/// # Errors
/// [`ErrorKind::Configuration`] if no region is set.
pub async fn dynamodb_client() -> Result<aws_sdk_dynamodb::Client> {
    Ok(dynamodb_client_of(&sdk_config().await?))
}

/// A DynamoDB client with this configuration, as [`dynamodb_client`].
#[must_use]
pub fn dynamodb_client_of(sdk: &SdkConfig) -> aws_sdk_dynamodb::Client {
    let config = aws_sdk_dynamodb::config::Builder::from(sdk).interceptor(ClockCheck::default());
    aws_sdk_dynamodb::Client::from_conf(config.build())
}

/// An S3 client. With an endpoint of its own, it puts the bucket into the path: such a server has no host name for each bucket.
///
/// # Errors
/// [`ErrorKind::Configuration`] if no region is set.
pub async fn s3_client() -> Result<aws_sdk_s3::Client> {
    Ok(s3_client_of(&sdk_config().await?))
}

fn s3_client_of(sdk: &SdkConfig) -> aws_sdk_s3::Client {
    let has_endpoint = sdk.endpoint_url().is_some() || has_s3_endpoint(sdk);
    // A large object takes its time; the SDK gives up a transfer that stalls.
    let config = aws_sdk_s3::config::Builder::from(sdk)
        .force_path_style(has_endpoint)
        .timeout_config(timeouts().disable_operation_attempt_timeout().build())
        .build();
    aws_sdk_s3::Client::from_conf(config)
}

/// Whether `AWS_ENDPOINT_URL_S3` or the profile's `services` set an endpoint for S3 alone. S3's client reads it in the same way.
fn has_s3_endpoint(sdk: &SdkConfig) -> bool {
    let key = ServiceConfigKey::builder().service_id("S3").env("AWS_ENDPOINT_URL").profile("endpoint_url");
    let services = sdk.service_config().zip(key.build().ok());
    services.and_then(|(services, key)| services.load_config(key)).is_some()
}

/// The settings of the SDK that no request can be made with if a control character is in them, by the beginnings of their names.
const PLAIN_SETTINGS: [&str; 7] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
];

/// Refuses settings of the SDK that would fail each request: text with a control character, such as the carriage return of a file with the line ends
/// of Windows, and endpoints that are no URLs.
fn check_settings(variables: impl Iterator<Item = (String, String)>) -> Result<()> {
    let variables: Vec<(String, String)> = variables.collect();
    let is_plain = |name: &str| PLAIN_SETTINGS.iter().any(|plain| name.starts_with(plain));
    let has_control = |(name, value): &&(String, String)| is_plain(name) && value.contains(char::is_control);
    if let Some((name, _)) = variables.iter().find(has_control) {
        let message = format!("{name} contains a control character, such as a line break");
        return Err(Error::new(ErrorKind::Configuration, message).hint(format!(
            "Set {name} without it: a file with the line ends of Windows leaves one behind each value"
        )));
    }
    check_endpoints(variables.into_iter())
}

fn check_endpoints(variables: impl Iterator<Item = (String, String)>) -> Result<()> {
    let is_url = |value: &str| {
        let host = value.strip_prefix("http://").or_else(|| value.strip_prefix("https://"));
        host.is_some_and(|host| !host.is_empty() && !host.starts_with(['/', ':', '?', '#']))
    };
    let mut wrong = variables
        .filter(|(name, value)| name.starts_with("AWS_ENDPOINT_URL") && !value.is_empty() && !is_url(value));
    match wrong.next() {
        None => Ok(()),
        Some((name, _)) => Err(Error::new(ErrorKind::Configuration, format!("{name} is not a URL")).hint(
            format!("Set {name} to a URL with its scheme, such as http://127.0.0.1:8000, or unset it"),
        )),
    }
}

/// The configuration of all clients: the environment's, with our time limits.
///
/// # Errors
/// [`ErrorKind::Configuration`] if no region is set, an endpoint is not a URL, or a setting has a control character.
pub async fn sdk_config() -> Result<SdkConfig> {
    check_settings(environment())?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_has_a_scheme_and_a_host() {
        let checked =
            |name: &str, value: &str| check_endpoints(std::iter::once((name.to_owned(), value.to_owned())));
        for right in ["", "http://localhost:8000", "https://sqs.example/", "http://[::1]:80"] {
            assert!(checked("AWS_ENDPOINT_URL_SQS", right).is_ok(), "{right}");
        }
        for wrong in ["localhost:9703", "http://", "http:///", "sqs.example", "ftp://host", "https://:80"] {
            let error = checked("AWS_ENDPOINT_URL_SQS", wrong).expect_err(wrong);
            assert!(error.to_string().contains("AWS_ENDPOINT_URL_SQS"), "{error}");
        }
        assert!(checked("OTHER", "localhost").is_ok());
    }

    #[test]
    fn a_line_break_in_a_setting_is_named() {
        let checked =
            |name: &str, value: &str| check_settings(std::iter::once((name.to_owned(), value.to_owned())));
        for name in PLAIN_SETTINGS {
            let error = checked(name, "http://secret\r").expect_err(name).to_string();
            assert!(error.contains(name) && !error.contains("secret"), "{error}");
            assert!(checked(name, "http://secret").is_ok(), "{name}");
        }
        assert!(checked("PS1", "\u{1b}[0m").is_ok());
    }
}
