//! A CloudFront inside this process that takes invalidations of one distribution and notes them.

use afterwrite_mapping::http::service_response;
use afterwrite_model::Result;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Response, StatusCode};

use crate::noting_server::{NotedRequest, NotedService, NotingServer};
use crate::signature;

const RESPONSE: &str = "<Invalidation><Id>I1</Id><Status>InProgress</Status><CreateTime>2026-01-01T00:00:00Z</CreateTime>\
     <InvalidationBatch><Paths><Quantity>0</Quantity></Paths><CallerReference>r</CallerReference></InvalidationBatch></Invalidation>";

/// A request for an invalidation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidationRequest {
    /// Its paths, in the order sent.
    pub paths: Vec<String>,
    /// Its caller reference.
    pub reference: String,
    /// Whether it started an invalidation. CloudFront accepts a repeated reference, and starts nothing.
    pub is_started: bool,
}

/// A running CloudFront.
#[derive(Debug)]
pub struct EmbeddedCloudFront(NotingServer<DistributionService>);

impl EmbeddedCloudFront {
    /// Starts a server on a port of 127.0.0.1; 0 is any free one. It has the distribution with this id.
    ///
    /// # Errors
    /// `Configuration` if the port is in use.
    pub async fn start(port: u16, distribution: &str) -> Result<Self> {
        let service = DistributionService { id: distribution.to_owned(), refused_path: None };
        NotingServer::start(port, service).await.map(Self)
    }

    /// From now on, requests must be signed with the credentials of the embedded services.
    pub fn require_signatures(&self) {
        self.0.require_signatures();
    }

    /// Refuses this many of the next requests, because too many invalidations are in progress; 0 ends it.
    pub fn busy_for(&self, requests: usize) {
        self.0.throttle(requests);
    }

    /// From now on, refuses every request with this path as invalid.
    pub fn refuse(&self, path: &str) {
        self.0.change(|service| service.refused_path = Some(path.to_owned()));
    }

    /// The server's URL: `http://127.0.0.1:<port>`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.0.endpoint()
    }

    /// The requests since they were last taken, also the refused ones.
    #[must_use]
    pub fn requests(&self) -> Vec<InvalidationRequest> {
        self.0.noted()
    }

    /// Takes the paths that were invalidated since the last call. A caller reference of an earlier request is new again.
    #[must_use]
    pub fn take_paths(&self) -> Vec<String> {
        let started = self.0.take().into_iter().filter(|request| request.is_started);
        started.flat_map(|request| request.paths).collect()
    }
}

#[derive(Debug)]
struct DistributionService {
    id: String,
    refused_path: Option<String>,
}

impl NotedService for DistributionService {
    const NAME: &'static str = "embedded CloudFront";
    type Item = InvalidationRequest;

    fn refuse() -> Response<Full<Bytes>> {
        error(StatusCode::FORBIDDEN, "UnrecognizedClientException", signature::REFUSAL)
    }

    fn take(
        &self,
        request: NotedRequest<'_, InvalidationRequest>,
    ) -> (Vec<InvalidationRequest>, Response<Full<Bytes>>) {
        if !request.head.uri.path().split('/').any(|part| part == self.id) {
            let message = "The distribution does not exist.";
            return (Vec::new(), error(StatusCode::NOT_FOUND, "NoSuchDistribution", message));
        }
        let body = String::from_utf8_lossy(request.body);
        let paths = elements(&body, "Path");
        let reference = elements(&body, "CallerReference").pop().unwrap_or_default();
        let is_refused = self.refused_path.as_ref().is_some_and(|refused| paths.contains(refused));
        let (is_accepted, response) = if request.is_throttled {
            let message = "Too many invalidations are in progress.";
            (false, error(StatusCode::BAD_REQUEST, "TooManyInvalidationsInProgress", message))
        } else if is_refused {
            (false, error(StatusCode::BAD_REQUEST, "InvalidArgument", "The path is invalid."))
        } else {
            (true, service_response(StatusCode::CREATED, "text/xml", RESPONSE))
        };
        let is_repeated =
            request.noted.iter().any(|earlier| earlier.is_started && earlier.reference == reference);
        let is_started = is_accepted && !is_repeated;
        (vec![InvalidationRequest { paths, reference, is_started }], response)
    }
}

fn error(status: StatusCode, code: &str, message: &str) -> Response<Full<Bytes>> {
    let error = format!(
        "<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"
    );
    service_response(status, "text/xml", error)
}

/// The texts of all elements with this name, of XML without attributes and CDATA.
#[must_use]
pub fn elements(xml: &str, name: &str) -> Vec<String> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    xml.split(&open).skip(1).filter_map(|rest| rest.split(&close).next()).map(str::to_owned).collect()
}
