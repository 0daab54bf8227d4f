//! The [`Distribution`] that is CloudFront's. An invalidation that is sent again is free: its caller reference is the same.

use std::time::Duration;

use aws_sdk_cloudfront::Client;
use aws_sdk_cloudfront::config::http::HttpResponse;
use aws_sdk_cloudfront::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_cloudfront::types::{InvalidationBatch, Paths};

use super::{Distribution, DistributionError};
use crate::{Error, ErrorKind};

/// A CloudFront distribution, spoken to through the AWS SDK.
#[derive(Clone, Debug)]
pub struct CloudFront {
    client: Client,
    distribution: String,
}

impl CloudFront {
    /// The distribution with this id.
    #[must_use]
    pub fn new(client: Client, distribution: impl Into<String>) -> Self {
        Self { client, distribution: distribution.into() }
    }

    fn error(&self, kind: ErrorKind, message: &str) -> Error {
        Error::new(kind, format!("CreateInvalidation: {message}")).with("distribution", &*self.distribution)
    }

    fn fault<E>(&self, error: &SdkError<E, HttpResponse>) -> DistributionError
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        let unreachable =
            || self.error(ErrorKind::Unavailable, "CloudFront could not be reached, or broke off");
        let Some(service) = error.as_service_error() else {
            return DistributionError::Failed(unreachable());
        };
        let status = error.raw_response().map_or(0, |response| response.status().as_u16());
        let code = service.meta().code().unwrap_or_default();
        let failed = match code {
            "TooManyInvalidationsInProgress" => {
                let busy =
                    self.error(ErrorKind::Unavailable, "too many earlier invalidations are in progress");
                return DistributionError::Busy(
                    busy.hint("The records come again; fewer, coarser paths take less"),
                );
            }
            "NoSuchDistribution" => self
                .error(ErrorKind::Configuration, "there is no such distribution")
                .hint("Set AFTERWRITE_CLOUDFRONT_DISTRIBUTION to the id of one in this account"),
            "AccessDenied"
            | "AccessDeniedException"
            | "InvalidClientTokenId"
            | "SignatureDoesNotMatch"
            | "ExpiredToken" => self
                .error(ErrorKind::Configuration, "permission denied")
                .with("code", code)
                .hint("Allow the role cloudfront:CreateInvalidation on the distribution"),
            "" => unreachable(),
            _ if status >= 500 || code.contains("Throttl") || code == "RequestLimitExceeded" => self
                .error(ErrorKind::Unavailable, "CloudFront cannot serve the request for now")
                .with("code", code),
            _ => self.error(ErrorKind::Rejected, "CloudFront refused the paths").with("code", code),
        };
        DistributionError::Failed(failed)
    }
}

impl Distribution for CloudFront {
    async fn invalidate(
        &self,
        paths: &[String],
        reference: &str,
        limit: Duration,
    ) -> Result<(), DistributionError> {
        let incomplete =
            |_| DistributionError::Failed(self.error(ErrorKind::Rejected, "the request lacks a part"));
        let quantity = i32::try_from(paths.len()).unwrap_or(i32::MAX);
        let paths = Paths::builder()
            .quantity(quantity)
            .set_items(Some(paths.to_vec()))
            .build()
            .map_err(incomplete)?;
        let batch = InvalidationBatch::builder()
            .paths(paths)
            .caller_reference(reference)
            .build()
            .map_err(incomplete)?;
        let request = self.client.create_invalidation().distribution_id(&self.distribution);
        let answer = Box::pin(request.invalidation_batch(batch).send());
        match tokio::time::timeout(limit, answer).await {
            Ok(Ok(_begun)) => Ok(()),
            Ok(Err(error)) => Err(self.fault(&error)),
            Err(_) => Err(DistributionError::Failed(self.error(ErrorKind::Unavailable, "no answer in time"))),
        }
    }
}
