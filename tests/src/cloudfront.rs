//! An embedded CloudFront for tests.

use afterwrite_local::cloudfront::EmbeddedCloudFront;
use afterwrite_services::cloudfront::CloudFront;

use crate::sdk::sdk_config;

/// The id of its distribution.
pub const DISTRIBUTION: &str = "EDFDVBD6EXAMPLE";

/// Starts the server.
///
/// # Panics
/// If no port is available.
pub async fn start_cloudfront() -> EmbeddedCloudFront {
    EmbeddedCloudFront::start(0, DISTRIBUTION).await.expect("a port")
}

/// Its distribution.
#[must_use]
pub fn distribution(server: &EmbeddedCloudFront) -> CloudFront {
    CloudFront::new(sdk_config(&server.endpoint()), DISTRIBUTION)
}
