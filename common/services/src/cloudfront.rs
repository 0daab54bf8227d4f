//! CloudFront distributions.

use std::time::Duration;

use afterwrite_model::ErrorKind;
use aws_config::SdkConfig;
use aws_sdk_firehose::error::ProvideErrorMetadata as _;

use super::request::{NamedBy, ServiceRequest};
use super::service_api::{ApiRequest, AwsService, ServiceApi, path_segment};
use super::{Distribution, DistributionError};

/// CloudFront, which has one endpoint for all regions.
pub const CLOUDFRONT: AwsService = AwsService { id: "CloudFront", name: "cloudfront", is_global: true };
/// The version of the API: the first part of its paths, and the namespace of its XML.
const API_VERSION: &str = "2020-05-31";

/// A CloudFront distribution, through the AWS SDK.
#[derive(Clone, Debug)]
pub struct CloudFront {
    api: ServiceApi,
    distribution: String,
}

impl CloudFront {
    /// The distribution with this id.
    #[must_use]
    pub fn new(sdk: SdkConfig, distribution: impl Into<String>) -> Self {
        Self { api: ServiceApi::new(&CLOUDFRONT, sdk), distribution: distribution.into() }
    }

    fn request(&self) -> ServiceRequest<'_> {
        ServiceRequest {
            service: "CloudFront",
            action: "CreateInvalidation",
            permission: "cloudfront:CreateInvalidation",
            resource: "distribution",
            name: &self.distribution,
            named_by: NamedBy::Setting("AFTERWRITE_CLOUDFRONT_DISTRIBUTION"),
        }
    }

    async fn create_invalidation(&self, paths: &[String], reference: &str) -> Result<(), DistributionError> {
        let error = match self.api.send(self.invalidation(paths, reference)).await {
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

    /// The request for an invalidation. CloudFront starts nothing for a caller reference that it knows.
    fn invalidation(&self, paths: &[String], reference: &str) -> ApiRequest {
        let items: String = paths.iter().map(|path| format!("<Path>{}</Path>", xml_text(path))).collect();
        ApiRequest {
            action: "CreateInvalidation",
            method: "POST",
            path: format!("/{API_VERSION}/distribution/{}/invalidation", path_segment(&self.distribution)),
            headers: vec![("content-type", "application/xml".to_owned())],
            body: format!(
                "<InvalidationBatch xmlns=\"http://cloudfront.amazonaws.com/doc/{API_VERSION}/\">\
                 <Paths><Quantity>{}</Quantity><Items>{items}</Items></Paths>\
                 <CallerReference>{}</CallerReference></InvalidationBatch>",
                paths.len(),
                xml_text(reference)
            ),
        }
    }
}

impl Distribution for CloudFront {
    async fn invalidate(
        &self,
        paths: &[String],
        reference: &str,
        limit: Duration,
    ) -> Result<(), DistributionError> {
        let timeout = |_| DistributionError::Failed(self.request().timeout());
        tokio::time::timeout(limit, self.create_invalidation(paths, reference)).await.map_err(timeout)?
    }
}

/// A text as the content of an XML element.
fn xml_text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\r', "&#xD;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_a_distribution_stay_what_they_are() {
        let sdk = SdkConfig::builder().build();
        let request = CloudFront::new(sdk, "a/b?").invalidation(&["/a?b=1&c=<d>".to_owned()], "r&1");
        assert_eq!(request.path, "/2020-05-31/distribution/a%2Fb%3F/invalidation");
        assert!(request.body.contains("<Path>/a?b=1&amp;c=&lt;d&gt;</Path>"), "{}", request.body);
        assert!(request.body.contains("<CallerReference>r&amp;1</CallerReference>"), "{}", request.body);
    }
}
