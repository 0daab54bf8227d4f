//! A stand-in for CloudFront's `CreateInvalidation` that records requests and refuses those that the test chooses.

use std::sync::{Arc, Mutex};

use afterwrite_services::cloudfront::CloudFront;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response};

use crate::loopback::LoopbackServer;

/// The id of the stand-in's distribution.
pub const DISTRIBUTION: &str = "EDFDVBD6EXAMPLE";

/// A request for an invalidation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidationRequest {
    /// Its paths, in the order sent.
    pub paths: Vec<String>,
    /// Its caller reference.
    pub reference: String,
    /// Whether the request was accepted. CloudFront also accepts a repeated reference, and then starts nothing.
    pub is_accepted: bool,
    /// Whether it started an invalidation.
    pub is_started: bool,
}

#[derive(Default)]
struct FakeState {
    requests: Vec<InvalidationRequest>,
    busy_requests: usize,
    refused_path: Option<String>,
}

/// The stand-in, which serves until it is dropped.
pub struct FakeCloudFront {
    server: LoopbackServer,
    state: Arc<Mutex<FakeState>>,
}

impl FakeCloudFront {
    /// Starts the server.
    ///
    /// # Panics
    /// If no port is available.
    pub async fn start() -> Self {
        let state = Arc::new(Mutex::new(FakeState::default()));
        let shared = Arc::clone(&state);
        let server = LoopbackServer::serve(move |request: Request<Bytes>| {
            let response = respond(&mut shared.lock().expect("a state"), &request);
            async move { Ok(response) }
        });
        Self { server: server.await.expect("a port"), state }
    }

    /// Refuses the next requests because too many invalidations are in progress.
    ///
    /// # Panics
    /// If another thread panicked.
    pub fn busy_for(&self, requests: usize) {
        self.state.lock().expect("a state").busy_requests = requests;
    }

    /// Refuses every request with this path as invalid.
    ///
    /// # Panics
    /// If another thread panicked.
    pub fn refuse(&self, path: &str) {
        self.state.lock().expect("a state").refused_path = Some(path.to_owned());
    }

    /// The requests so far.
    ///
    /// # Panics
    /// If another thread panicked.
    #[must_use]
    pub fn requests(&self) -> Vec<InvalidationRequest> {
        self.state.lock().expect("a state").requests.clone()
    }

    /// Its endpoint, `http://host:port`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.server.endpoint()
    }

    /// Its distribution.
    #[must_use]
    pub fn distribution(&self) -> CloudFront {
        self.distribution_with_id(DISTRIBUTION)
    }

    /// A distribution with this id, which may not exist.
    #[must_use]
    pub fn distribution_with_id(&self, id: &str) -> CloudFront {
        CloudFront::new(sdk_config(&self.endpoint()), id)
    }
}

/// The configuration of requests to an endpoint.
#[must_use]
pub fn sdk_config(endpoint: &str) -> SdkConfig {
    let credentials = Credentials::new("test", "test", None, None, "test");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(afterwrite_services::http_client())
        .region(Region::from_static("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .endpoint_url(endpoint)
        .build()
}

fn respond(state: &mut FakeState, request: &Request<Bytes>) -> Response<Full<Bytes>> {
    if !request.uri().path().contains(DISTRIBUTION) {
        return response(404, error("NoSuchDistribution"));
    }
    let body = String::from_utf8_lossy(request.body());
    let paths: Vec<String> = elements(&body, "Path");
    let reference = elements(&body, "CallerReference").pop().unwrap_or_default();
    let is_busy = state.busy_requests > 0;
    state.busy_requests = state.busy_requests.saturating_sub(1);
    let is_refused = state.refused_path.as_ref().is_some_and(|refused| paths.contains(refused));
    let is_accepted = !is_busy && !is_refused;
    let is_repeated =
        state.requests.iter().any(|earlier| earlier.is_started && earlier.reference == reference);
    let is_started = is_accepted && !is_repeated;
    state.requests.push(InvalidationRequest { paths, reference, is_accepted, is_started });
    if is_busy {
        response(400, error("TooManyInvalidationsInProgress"))
    } else if is_refused {
        response(400, error("InvalidArgument"))
    } else {
        let invalidation = "<Invalidation><Id>I1</Id><Status>InProgress</Status><CreateTime>2026-02-06T10:00:00Z</CreateTime>\
             <InvalidationBatch><Paths><Quantity>0</Quantity></Paths><CallerReference>r</CallerReference></InvalidationBatch></Invalidation>";
        response(201, invalidation.to_owned())
    }
}

fn response(status: u16, text: String) -> Response<Full<Bytes>> {
    let response = Response::builder().status(status).header("content-type", "text/xml");
    response.body(Full::from(text)).expect("a response")
}

fn error(code: &str) -> String {
    format!(
        "<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>m</Message></Error><RequestId>r</RequestId></ErrorResponse>"
    )
}

/// The texts of all elements with this name.
pub(crate) fn elements(xml: &str, name: &str) -> Vec<String> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    xml.split(&open).skip(1).filter_map(|rest| rest.split(&close).next()).map(str::to_owned).collect()
}
