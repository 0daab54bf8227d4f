//! A CloudFront inside this process that takes invalidations and remembers their paths.

use afterwrite_mapping::http::service_response;
use afterwrite_model::Result;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};

use crate::noting_server::{NotedService, NotingServer};
use crate::signature;

const RESPONSE: &str = "<Invalidation><Id>I1</Id><Status>InProgress</Status><CreateTime>2026-01-01T00:00:00Z</CreateTime>\
     <InvalidationBatch><Paths><Quantity>0</Quantity></Paths><CallerReference>r</CallerReference></InvalidationBatch></Invalidation>";

/// A running CloudFront.
#[derive(Debug)]
pub struct EmbeddedCloudFront(NotingServer<String>);

impl EmbeddedCloudFront {
    /// Starts a server on a port of 127.0.0.1; 0 is any free one. It takes invalidations of any distribution.
    ///
    /// # Errors
    /// `Configuration` if the port is in use.
    pub async fn start(port: u16) -> Result<Self> {
        NotingServer::start::<Invalidations>(port).await.map(Self)
    }

    /// From now on, requests must be signed with the credentials of the embedded services.
    pub fn require_signatures(&self) {
        self.0.require_signatures();
    }

    /// The server's URL: `http://127.0.0.1:<port>`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.0.endpoint()
    }

    /// Takes the paths that were invalidated since the last call.
    #[must_use]
    pub fn take_paths(&self) -> Vec<String> {
        self.0.take()
    }
}

struct Invalidations;

impl NotedService for Invalidations {
    const NAME: &'static str = "embedded CloudFront";
    type Item = String;

    fn refuse() -> Response<Full<Bytes>> {
        let error = format!(
            "<ErrorResponse><Error><Code>UnrecognizedClientException</Code><Message>{}</Message></Error></ErrorResponse>",
            signature::REFUSAL
        );
        service_response(StatusCode::FORBIDDEN, "text/xml", error)
    }

    fn take(_head: &Parts, body: &[u8]) -> (Vec<String>, Response<Full<Bytes>>) {
        let paths = paths(&String::from_utf8_lossy(body)).map(str::to_owned).collect();
        (paths, service_response(StatusCode::CREATED, "text/xml", RESPONSE))
    }
}

/// The texts of the elements `Path`.
fn paths(body: &str) -> impl Iterator<Item = &str> {
    body.split("<Path>").skip(1).filter_map(|rest| rest.split("</Path>").next())
}
