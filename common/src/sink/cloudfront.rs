//! CloudFront distributions.

use std::time::Duration;

use aws_sdk_cloudfront::Client;
use aws_sdk_cloudfront::error::BuildError;
use aws_sdk_cloudfront::types::{InvalidationBatch, Paths};

use super::request::ServiceRequest;
use super::{Distribution, DistributionError};
use crate::{Error, ErrorKind};

/// A CloudFront distribution, through the AWS SDK.
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

    fn request(&self) -> ServiceRequest<'_> {
        ServiceRequest {
            service: "CloudFront",
            action: "CreateInvalidation",
            permission: "cloudfront:CreateInvalidation",
            resource: "distribution",
            name: &self.distribution,
            setting: "AFTERWRITE_CLOUDFRONT_DISTRIBUTION",
        }
    }

    async fn create_invalidation(&self, batch: InvalidationBatch) -> Result<(), DistributionError> {
        let call = self.client.create_invalidation().distribution_id(&self.distribution);
        let error = match Box::pin(call.invalidation_batch(batch).send()).await {
            Ok(_started) => return Ok(()),
            Err(error) => error,
        };
        let code = error.as_service_error().and_then(|error| error.meta().code());
        if code == Some("TooManyInvalidationsInProgress") {
            let busy = "too many earlier invalidations are in progress";
            return Err(DistributionError::Busy(
                self.request()
                    .new_error(ErrorKind::Unavailable, busy)
                    .hint("The records are redelivered; fewer, coarser paths complete sooner"),
            ));
        }
        Err(DistributionError::Failed(self.request().error(&error)))
    }
}

impl Distribution for CloudFront {
    async fn invalidate(
        &self,
        paths: &[String],
        reference: &str,
        limit: Duration,
    ) -> Result<(), DistributionError> {
        let batch = invalidation_batch(paths, reference).map_err(|error| {
            let error = Error::new(ErrorKind::Rejected, "a request could not be built").caused_by(error);
            DistributionError::Failed(error)
        })?;
        let timeout = |_| DistributionError::Failed(self.request().timeout());
        tokio::time::timeout(limit, self.create_invalidation(batch)).await.map_err(timeout)?
    }
}

fn invalidation_batch(paths: &[String], reference: &str) -> Result<InvalidationBatch, BuildError> {
    let quantity = i32::try_from(paths.len()).unwrap_or(i32::MAX);
    let paths = Paths::builder().quantity(quantity).set_items(Some(paths.to_vec())).build()?;
    InvalidationBatch::builder().paths(paths).caller_reference(reference).build()
}
