//! The endpoint behind a proxy.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::loopback::{ConnectionClosed, HandlerResult};

/// An endpoint that a proxy forwards requests to.
pub(crate) struct UpstreamEndpoint {
    endpoint: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl UpstreamEndpoint {
    /// The endpoint at `http://host:port`.
    pub(crate) fn new(endpoint: &str) -> Self {
        Self {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            client: Client::builder(TokioExecutor::new()).build_http(),
        }
    }

    /// Forwards a request unchanged and returns the response unchanged.
    pub(crate) async fn forward(&self, request: Request<Bytes>) -> HandlerResult {
        let (mut head, body) = request.into_parts();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        head.uri = format!("{}{path}", self.endpoint).parse::<Uri>().map_err(|_| ConnectionClosed)?;
        remove_connection_headers(&mut head.headers);
        // The length is signed; without the header, a request without a body would be sent without a length.
        head.headers.insert(CONTENT_LENGTH, body.len().into());
        let response = self
            .client
            .request(Request::from_parts(head, Full::new(body)))
            .await
            .map_err(|_| ConnectionClosed)?;
        let (mut head, body) = response.into_parts();
        remove_connection_headers(&mut head.headers);
        let body = body.collect().await.map_err(|_| ConnectionClosed)?.to_bytes();
        Ok(Response::from_parts(head, Full::new(body)))
    }
}

/// Removes the headers that concern a single connection; the next one sets its own.
fn remove_connection_headers(headers: &mut HeaderMap) {
    for header in [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING] {
        headers.remove(header);
    }
}
