//! The endpoint behind a proxy.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::loopback::{Answer, NoAnswer};

/// An endpoint to which requests are sent on.
pub(crate) struct Upstream {
    endpoint: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Upstream {
    /// The endpoint at `http://host:port`.
    pub(crate) fn new(endpoint: &str) -> Self {
        Self {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            client: Client::builder(TokioExecutor::new()).build_http(),
        }
    }

    /// Sends the request on as it came and returns the answer as it comes.
    pub(crate) async fn forward(&self, request: Request<Bytes>) -> Answer {
        let (mut head, body) = request.into_parts();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        head.uri = format!("{}{path}", self.endpoint).parse::<Uri>().map_err(|_| NoAnswer)?;
        forget_hop(&mut head.headers);
        let answer =
            self.client.request(Request::from_parts(head, Full::new(body))).await.map_err(|_| NoAnswer)?;
        let (mut head, body) = answer.into_parts();
        forget_hop(&mut head.headers);
        let body = body.collect().await.map_err(|_| NoAnswer)?.to_bytes();
        Ok(Response::from_parts(head, Full::new(body)))
    }
}

/// Removes what concerns one connection only; the next one says it anew.
fn forget_hop(headers: &mut HeaderMap) {
    for header in [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING] {
        headers.remove(header);
    }
}
