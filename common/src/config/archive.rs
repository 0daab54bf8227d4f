//! Where the archive goes.

use std::sync::Arc;

use aws_config::SdkConfig;
use aws_config::timeout::TimeoutConfig;
use aws_types::service_config::ServiceConfigKey;

use super::{CONNECT_TIMEOUT, EnvironmentSettings, sdk_config};
use crate::{Error, ErrorKind, Result};

pub(super) const FIREHOSE_STREAM: &str = "AFTERWRITE_FIREHOSE_STREAM";
pub(super) const BUCKET: &str = "AFTERWRITE_BUCKET";

/// What the settings of a function that archives come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveConfig {
    /// The delivery stream that takes the lines.
    pub firehose_stream: Arc<str>,
    /// The bucket that it delivers to, and that takes what is too large for it.
    pub bucket: Arc<str>,
}

impl ArchiveConfig {
    /// Resolves the settings.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`], naming the variable and what it should hold.
    pub fn resolve(settings: &EnvironmentSettings) -> Result<Self> {
        let firehose_stream = required(
            settings.firehose_stream.as_deref(),
            FIREHOSE_STREAM,
            "Set it to the name of the Firehose delivery stream that writes the archive",
        )?;
        Ok(Self { firehose_stream, bucket: bucket(settings)? })
    }
}

/// The bucket of archive and datasets.
///
/// # Errors
/// [`ErrorKind::Configuration`] if `AFTERWRITE_BUCKET` is unset.
pub fn bucket(settings: &EnvironmentSettings) -> Result<Arc<str>> {
    let remedy = "Set it to the name of the bucket that the delivery stream writes to";
    required(settings.bucket.as_deref(), BUCKET, remedy)
}

fn required(value: Option<&str>, variable: &str, remedy: &str) -> Result<Arc<str>> {
    value
        .map(Arc::from)
        .ok_or_else(|| Error::new(ErrorKind::Configuration, format!("{variable} is not set")).hint(remedy))
}

/// A Firehose client, configured as the AWS SDK configures itself: `AWS_REGION`, `AWS_ENDPOINT_URL_FIREHOSE`, credentials and
/// so on.
///
/// # Errors
/// [`ErrorKind::Configuration`] if no region is set anywhere.
pub async fn firehose_client() -> Result<aws_sdk_firehose::Client> {
    Ok(aws_sdk_firehose::Client::new(&sdk_config().await?))
}

/// An S3 client, configured likewise. Where an endpoint is set, buckets are part of the path: a server under an address of
/// its own has no name for each bucket.
///
/// # Errors
/// [`ErrorKind::Configuration`] if no region is set anywhere.
pub async fn s3_client() -> Result<aws_sdk_s3::Client> {
    let sdk = sdk_config().await?;
    let has_endpoint = sdk.endpoint_url().is_some() || has_endpoint_of_its_own(&sdk);
    // An object may be large, and takes its time; one that stands still is given up by the SDK.
    let timeouts =
        TimeoutConfig::builder().connect_timeout(CONNECT_TIMEOUT).disable_operation_attempt_timeout().build();
    let config = aws_sdk_s3::config::Builder::from(&sdk)
        .force_path_style(has_endpoint)
        .timeout_config(timeouts)
        .build();
    Ok(aws_sdk_s3::Client::from_conf(config))
}

/// Whether S3 alone is given an endpoint, by `AWS_ENDPOINT_URL_S3` or by the profile's `services`: S3's client asks in the same
/// way.
fn has_endpoint_of_its_own(sdk: &SdkConfig) -> bool {
    let key = ServiceConfigKey::builder().service_id("S3").env("AWS_ENDPOINT_URL").profile("endpoint_url");
    let services = sdk.service_config().zip(key.build().ok());
    services.and_then(|(services, key)| services.load_config(key)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_needed_and_each_is_named_by_its_variable() {
        let whole = EnvironmentSettings {
            firehose_stream: Some("changes".to_owned()),
            bucket: Some("lake".to_owned()),
            ..EnvironmentSettings::default()
        };
        let config = ArchiveConfig::resolve(&whole).expect("both are set");
        assert_eq!((&*config.firehose_stream, &*config.bucket), ("changes", "lake"));
        let without = [
            (FIREHOSE_STREAM, EnvironmentSettings { firehose_stream: None, ..whole.clone() }),
            (BUCKET, EnvironmentSettings { bucket: None, ..whole }),
        ];
        for (variable, settings) in without {
            let error = ArchiveConfig::resolve(&settings).expect_err("one is missing");
            assert_eq!(error.kind(), ErrorKind::Configuration);
            assert!(error.to_string().contains(variable), "{error}");
        }
    }
}
