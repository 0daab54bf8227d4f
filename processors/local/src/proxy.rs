//! A proxy in front of the embedded DynamoDB: what its servers in front share.

use afterwrite_mapping::http::service_response;
use http_body_util::{BodyExt as _, Collected, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use crate::signature::{self, SignatureCheck};

/// The header with the CRC-32 of a response of DynamoDB.
const CHECKSUM: &str = "x-amz-crc32";

/// A response of a proxy.
pub(crate) type ProxyResponse = Response<Full<Bytes>>;

/// Passes requests on to a server.
#[derive(Debug)]
pub(crate) struct UpstreamProxy {
    upstream: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

/// A request whose body has arrived.
#[derive(Clone)]
pub(crate) struct ReceivedRequest {
    head: Parts,
    pub(crate) body: Bytes,
}

impl ReceivedRequest {
    /// Receives the body of a request; `None` if the client has gone.
    pub(crate) async fn receive(request: Request<Incoming>) -> Option<Self> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.ok()?.to_bytes();
        Some(Self { head, body })
    }

    /// The response to a request that is not signed as it must be; `None` if it is answered.
    pub(crate) fn refusal(&self, signatures: &SignatureCheck) -> Option<ProxyResponse> {
        let is_accepted = signatures.accepts(&self.head, &self.body);
        (!is_accepted)
            .then(|| failure(StatusCode::BAD_REQUEST, "UnrecognizedClientException", signature::REFUSAL))
    }

    /// The operation of DynamoDB, such as `PutItem`.
    pub(crate) fn operation(&self) -> &str {
        let target = self.head.headers.get("x-amz-target").and_then(|target| target.to_str().ok());
        target.and_then(|target| target.rsplit_once('.')).map_or("", |(_, operation)| operation)
    }
}

impl UpstreamProxy {
    /// A proxy in front of `http://host:port`.
    pub(crate) fn new(upstream: &str) -> Self {
        Self { upstream: upstream.to_owned(), client: Client::builder(TokioExecutor::new()).build_http() }
    }

    /// Passes a request on and returns the response.
    pub(crate) async fn forward(&self, request: ReceivedRequest) -> ProxyResponse {
        let ReceivedRequest { mut head, body } = request;
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let Ok(uri) = format!("{}{path}", self.upstream).parse::<Uri>() else { return unavailable() };
        head.uri = uri;
        remove_connection_headers(&mut head.headers);
        let Ok(response) = self.client.request(Request::from_parts(head, Full::new(body))).await else {
            return unavailable();
        };
        let (mut head, body) = response.into_parts();
        remove_connection_headers(&mut head.headers);
        match body.collect().await {
            Ok(body) => Response::from_parts(head, Full::new(body.to_bytes())),
            Err(_) => unavailable(),
        }
    }
}

/// A response whose JSON body is corrected; a body that is not JSON stays.
pub(crate) async fn replace_body(response: ProxyResponse, correct: impl FnOnce(&mut Value)) -> ProxyResponse {
    let (mut head, body) = response.into_parts();
    let Ok(body) = body.collect().await.map(Collected::to_bytes);
    let Ok(mut json) = serde_json::from_slice(&body) else {
        return Response::from_parts(head, Full::new(body));
    };
    correct(&mut json);
    // DynamoDB's checksum is of the uncorrected body.
    head.headers.remove(CHECKSUM);
    Response::from_parts(head, Full::new(Bytes::from(json.to_string())))
}

/// The response of a server that cannot be reached.
pub(crate) fn unavailable() -> ProxyResponse {
    failure(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError", "Unavailable")
}

/// An error of DynamoDB.
pub(crate) fn failure(status: StatusCode, kind: &str, message: &str) -> ProxyResponse {
    let kind = format!("com.amazonaws.dynamodb.v20120810#{kind}");
    json_response(status, &json!({ "__type": kind, "message": message }))
}

/// A response with a JSON body.
pub(crate) fn json_response(status: StatusCode, body: &Value) -> ProxyResponse {
    service_response(status, "application/x-amz-json-1.0", body.to_string())
}

/// Removes the headers that concern a single connection; the next one sets its own.
fn remove_connection_headers(headers: &mut HeaderMap) {
    for header in [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING] {
        headers.remove(header);
    }
}
