//! How AWS SDK clients reach the embedded servers.

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_s3::config::{Credentials, SharedCredentialsProvider};

/// The region of the embedded servers.
pub const REGION: &str = "us-east-1";
/// Both the access key id and the secret access key.
pub const CREDENTIAL: &str = "embedded";

/// A configuration for the AWS SDK client of an embedded server. It reads neither the environment nor a profile.
pub(crate) fn sdk_config(endpoint: String) -> SdkConfig {
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static(REGION))
        .endpoint_url(endpoint)
        .credentials_provider(SharedCredentialsProvider::new(Credentials::new(
            CREDENTIAL, CREDENTIAL, None, None, CREDENTIAL,
        )))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build()
}
