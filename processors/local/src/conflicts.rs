//! Transaction conflicts on demand: a proxy in front of the embedded DynamoDB, which never has any itself.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use afterwrite::Result;
use afterwrite_mapping::http::HttpServer;
use fastrand::Rng;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

/// A running proxy.
#[derive(Debug)]
pub struct ConflictProxy {
    server: HttpServer,
}

struct ProxyState {
    upstream: String,
    client: Client<HttpConnector, Full<Bytes>>,
    share: f64,
    random: Mutex<Rng>,
}

impl ConflictProxy {
    /// Starts a proxy in front of `upstream` (`http://host:port`) that cancels this share of transactions, 0–1, before they take
    /// effect. The same seed cancels the same ones of a sequence of requests.
    ///
    /// # Errors
    /// `Configuration` if there is no free port.
    pub async fn start(upstream: &str, share: f64, seed: u64) -> Result<Self> {
        let state = Arc::new(ProxyState {
            upstream: upstream.to_owned(),
            client: Client::builder(TokioExecutor::new()).build_http(),
            share,
            random: Mutex::new(Rng::with_seed(seed)),
        });
        let service = service_fn(move |request| {
            let state = Arc::clone(&state);
            async move { Ok::<_, Infallible>(state.respond(request).await) }
        });
        Ok(Self { server: HttpServer::start("proxy of the embedded DynamoDB", service).await? })
    }

    /// The proxy's URL: `http://127.0.0.1:<port>`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.server.endpoint()
    }
}

impl ProxyState {
    async fn respond(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (mut head, body) = request.into_parts();
        let Ok(body) = body.collect().await.map(|body| body.to_bytes()) else { return unavailable() };
        let target = head.headers.get("x-amz-target").and_then(|target| target.to_str().ok());
        if target.is_some_and(|target| target.ends_with(".TransactWriteItems")) && self.draws_conflict() {
            return conflict(&body);
        }
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

    fn draws_conflict(&self) -> bool {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).f64() < self.share
    }
}

/// A cancelled transaction, all of whose actions conflict.
fn conflict(body: &[u8]) -> Response<Full<Bytes>> {
    let request: Value = serde_json::from_slice(body).unwrap_or_default();
    let actions = request.get("TransactItems").and_then(Value::as_array).map_or(0, Vec::len);
    let reason = json!({ "Code": "TransactionConflict", "Message": "Transaction is ongoing for the item" });
    let codes = vec!["TransactionConflict"; actions].join(", ");
    let cancelled = json!({
        "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
        "Message": format!(
            "Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]"
        ),
        "CancellationReasons": vec![reason; actions],
    });
    json_response(StatusCode::BAD_REQUEST, &cancelled)
}

fn unavailable() -> Response<Full<Bytes>> {
    let kind = "com.amazonaws.dynamodb.v20120810#InternalServerError";
    json_response(StatusCode::INTERNAL_SERVER_ERROR, &json!({ "__type": kind, "message": "Unavailable" }))
}

fn json_response(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-amz-json-1.0"));
    response
}

/// Removes the headers that concern a single connection; the next one sets its own.
fn remove_connection_headers(headers: &mut HeaderMap) {
    for header in [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING] {
        headers.remove(header);
    }
}
