//! The contract of `Distribution`: CloudFront against a stand-in, and against moto.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use afterwrite_local::cloudfront::EmbeddedCloudFront;
use afterwrite_model::{Error, ErrorKind};
use afterwrite_relay::{MAX_PATHS, MAX_WILDCARDS};
use afterwrite_services::cloudfront::CloudFront;
use afterwrite_services::{Distribution, DistributionError};
use afterwrite_tests::cloudfront::{distribution, start_cloudfront};
use afterwrite_tests::moto::MotoServer;
use afterwrite_tests::sdk::sdk_config;
use tokio::net::TcpListener;

const LIMIT: Duration = Duration::from_secs(30);

/// A distribution with what it holds.
trait DistributionUnderTest {
    fn distribution(&self) -> CloudFront;
    /// A distribution that does not exist, of the same service.
    fn missing_distribution(&self) -> CloudFront;
    /// The invalidations that were started: caller references with their paths.
    async fn started(&self) -> Vec<(String, BTreeSet<String>)>;
}

async fn suite(service: &impl DistributionUnderTest) {
    an_invalidation_has_the_given_paths_and_reference(service).await;
    the_largest_invalidation_is_accepted(service).await;
    a_missing_distribution_is_a_configuration_error(service).await;
}

#[tokio::test]
async fn stand_in() {
    let service = start_cloudfront().await;
    suite(&service).await;
    a_repeated_reference_starts_nothing(&service).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs moto: run tests/run"]
async fn moto() {
    let service = MotoDistribution::start().await;
    suite(&service).await;
    moto_starts_a_repeated_invalidation_again(&service).await;
}

async fn invalidate(distribution: &CloudFront, paths: &[String], reference: &str) -> Result<(), Error> {
    match distribution.invalidate(paths, reference, LIMIT).await {
        Ok(()) => Ok(()),
        Err(DistributionError::Busy(error) | DistributionError::Failed(error)) => Err(error),
    }
}

async fn started(service: &impl DistributionUnderTest, reference: &str) -> Vec<BTreeSet<String>> {
    let started = service.started().await.into_iter();
    started.filter(|(of, _)| of == reference).map(|(_, paths)| paths).collect()
}

async fn an_invalidation_has_the_given_paths_and_reference(service: &impl DistributionUnderTest) {
    let paths = ["/a", "/a/*", "/api/projects/%C3%BC%20b%2A", "/*"].map(str::to_owned);
    invalidate(&service.distribution(), &paths, "reference-1").await.unwrap();
    assert_eq!(started(service, "reference-1").await, [BTreeSet::from(paths)]);
}

async fn the_largest_invalidation_is_accepted(service: &impl DistributionUnderTest) {
    let path = |number: usize| format!("/{number}{}", if number < MAX_WILDCARDS { "/*" } else { "" });
    let paths: Vec<String> = (0..MAX_PATHS).map(path).collect();
    invalidate(&service.distribution(), &paths, "largest").await.unwrap();
    assert_eq!(started(service, "largest").await, [BTreeSet::from_iter(paths)]);
}

async fn a_missing_distribution_is_a_configuration_error(service: &impl DistributionUnderTest) {
    let error = invalidate(&service.missing_distribution(), &["/a".to_owned()], "missing").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(error.to_string().contains("AFTERWRITE_CLOUDFRONT_DISTRIBUTION"), "{error}");
    assert!(started(service, "missing").await.is_empty());
}

async fn a_repeated_reference_starts_nothing(service: &impl DistributionUnderTest) {
    let paths = ["/repeated".to_owned()];
    for _ in 0..3 {
        invalidate(&service.distribution(), &paths, "repeated").await.unwrap();
    }
    assert_eq!(started(service, "repeated").await.len(), 1);
}

/// moto does not compare caller references: on AWS a repeated request starts nothing.
async fn moto_starts_a_repeated_invalidation_again(service: &MotoDistribution) {
    let paths = ["/repeated".to_owned()];
    for _ in 0..2 {
        invalidate(&service.distribution(), &paths, "repeated").await.unwrap();
    }
    assert_eq!(started(service, "repeated").await.len(), 2);
}

#[tokio::test]
async fn too_many_invalidations_in_progress_are_reported_as_busy() {
    let service = start_cloudfront().await;
    service.busy_for(1);
    let distribution = distribution(&service);
    let paths = ["/a".to_owned()];
    let busy = distribution.invalidate(&paths, "busy", LIMIT).await;
    let Err(DistributionError::Busy(error)) = busy else { panic!("{busy:?}") };
    assert!(error.is_retryable(), "{error}");
    assert!(started(&service, "busy").await.is_empty());
    distribution.invalidate(&paths, "busy", LIMIT).await.unwrap();
    assert_eq!(started(&service, "busy").await.len(), 1);
}

#[tokio::test]
async fn a_refused_path_is_rejected() {
    let service = start_cloudfront().await;
    service.refuse("/refused");
    let refused = invalidate(&distribution(&service), &["/refused".to_owned()], "refused").await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Rejected);
}

#[tokio::test]
async fn a_service_that_does_not_respond_is_unavailable_within_the_limit() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let distribution = CloudFront::new(sdk_config(&endpoint), "EXAMPLE");
    let begun = Instant::now();
    let failed = distribution.invalidate(&["/a".to_owned()], "silent", Duration::from_millis(300)).await;
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    let Err(DistributionError::Failed(error)) = failed else { panic!("{failed:?}") };
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

impl DistributionUnderTest for EmbeddedCloudFront {
    fn distribution(&self) -> CloudFront {
        distribution(self)
    }

    fn missing_distribution(&self) -> CloudFront {
        CloudFront::new(sdk_config(&self.endpoint()), "NOSUCHDISTRIBUTION")
    }

    async fn started(&self) -> Vec<(String, BTreeSet<String>)> {
        let started = self.requests().into_iter().filter(|request| request.is_started);
        started.map(|request| (request.reference, request.paths.into_iter().collect())).collect()
    }
}

/// A distribution of moto.
struct MotoDistribution {
    moto: MotoServer,
    id: String,
}

impl MotoDistribution {
    async fn start() -> Self {
        let moto = MotoServer::start();
        let id = moto.create_distribution().await;
        Self { moto, id }
    }
}

impl DistributionUnderTest for MotoDistribution {
    fn distribution(&self) -> CloudFront {
        CloudFront::new(sdk_config(self.moto.endpoint()), &self.id)
    }

    fn missing_distribution(&self) -> CloudFront {
        CloudFront::new(sdk_config(self.moto.endpoint()), "NOSUCHDISTRIBUTION")
    }

    async fn started(&self) -> Vec<(String, BTreeSet<String>)> {
        let invalidations = self.moto.invalidations(&self.id).await.into_iter();
        invalidations.map(|(reference, paths)| (reference, paths.into_iter().collect())).collect()
    }
}
