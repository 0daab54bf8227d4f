//! The HTTP client of the AWS clients.

use aws_sdk_dynamodb::config::SharedHttpClient;
use aws_smithy_http_client::{Builder, tls};

/// An HTTP client for `aws_config`, with TLS by rustls on ring: small, no C++ build, and no wait for entropy at a cold start.
#[must_use]
pub fn http_client() -> SharedHttpClient {
    Builder::new().tls_provider(tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring)).build_https()
}
