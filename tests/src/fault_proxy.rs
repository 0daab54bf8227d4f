//! DynamoDB on a bad day: a proxy in front of an endpoint that refuses, fails, delays and loses answers, by a seed.
//!
//! Each request draws one fault. The draws follow the order in which requests arrive, so the same requests in the same order
//! meet the same faults.
//!
//! | fault | what the caller sees | what has happened |
//! |---|---|---|
//! | conflict | `TransactionCanceledException` with a reason per action, or `TransactionConflictException` | nothing |
//! | throttle | `ThrottlingException`, `ProvisionedThroughputExceededException`, or the same as cancellation reasons | nothing |
//! | unprocessed | a batch request all of whose items come back unprocessed | nothing |
//! | server error | `InternalServerError`, status 500 | nothing |
//! | lost answer | the connection closes | the request took effect |
//!
//! A request may be delayed on top. Only requests that write or read items are hindered, never those that manage tables or read
//! streams: what is under test is whoever writes.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use http_body_util::{BodyExt as _, Full};
use hyper::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use crate::loopback::{Answer, Loopback, NoAnswer};

/// How likely each fault is, from 0 to 1; together at most 1 (the delay apart).
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// What all draws follow from.
    pub seed: u64,
    /// Another request holds an item: transactions and single writes.
    pub conflict: f64,
    /// Too many requests: everything.
    pub throttle: f64,
    /// Nothing of a batch is done: `BatchGetItem`, `BatchWriteItem`.
    pub unprocessed: f64,
    /// The service fails: everything.
    pub server_error: f64,
    /// The answer is lost after the request took effect: everything.
    pub lost_answer: f64,
    /// The request waits before it is looked at: everything.
    pub delay: f64,
    /// For how long, at most.
    pub longest_delay: Duration,
}

/// How often each fault was injected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests received.
    pub requests: u64,
    /// Of them, those that reached DynamoDB.
    pub forwarded: u64,
    /// Answered with a conflict.
    pub conflicts: u64,
    /// Answered with a throttle.
    pub throttles: u64,
    /// Batches answered with nothing done.
    pub unprocessed: u64,
    /// Answered with a server error.
    pub server_errors: u64,
    /// Forwarded, and the answer thrown away.
    pub lost_answers: u64,
    /// Delayed, whatever became of them.
    pub delays: u64,
}

/// A running proxy; dropping it closes it.
pub struct FaultProxy {
    server: Loopback,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: String,
    client: Client<HttpConnector, Full<Bytes>>,
    faults: Faults,
    state: Mutex<State>,
}

struct State {
    rng: Rng,
    counts: Counts,
}

/// What becomes of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Forwarded,
    Conflict,
    Throttle,
    Unprocessed,
    ServerError,
    LostAnswer,
}

impl FaultProxy {
    /// Starts a proxy before the DynamoDB endpoint `upstream` (`http://host:port`).
    ///
    /// # Errors
    /// No port of 127.0.0.1 can be bound.
    pub async fn start(upstream: &str, faults: Faults) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            upstream: upstream.trim_end_matches('/').to_owned(),
            client: Client::builder(TokioExecutor::new()).build_http(),
            faults,
            state: Mutex::new(State { rng: Rng::with_seed(faults.seed), counts: Counts::default() }),
        });
        let serving = Arc::clone(&shared);
        let server = Loopback::serve(move |request| Arc::clone(&serving).answer(request)).await?;
        Ok(Self { server, shared })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// What goes into `AWS_ENDPOINT_URL_DYNAMODB`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address())
    }

    /// What has been injected so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).counts
    }
}

impl Shared {
    async fn answer(self: Arc<Self>, request: Request<Bytes>) -> Answer {
        let operation = operation(&request);
        let (fate, delay, mut rng) = self.draw(&operation);
        if let Some(delay) = delay {
            tokio::time::sleep(delay).await;
        }
        match fate {
            Fate::Forwarded => self.forward(request).await,
            Fate::LostAnswer => {
                // Whether it succeeded or not, the caller is not to know.
                let _lost = self.forward(request).await;
                Err(NoAnswer)
            }
            Fate::Conflict => Ok(conflict(&operation, request.body(), &mut rng)),
            Fate::Throttle => Ok(throttle(&operation, request.body(), &mut rng)),
            Fate::Unprocessed => Ok(unprocessed(&operation, request.body())),
            Fate::ServerError => Ok(exception(
                StatusCode::INTERNAL_SERVER_ERROR,
                "com.amazonaws.dynamodb.v20120810#InternalServerError",
                "Internal server error",
            )),
        }
    }

    /// Draws what becomes of a request, with a generator of its own for the details: how many draws they take must not
    /// change what the next request meets.
    fn draw(&self, operation: &str) -> (Fate, Option<Duration>, Rng) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rng = state.rng.fork();
        let fate = self.faults.fate(operation, rng.f64());
        let delayed = is_hindered(operation) && rng.f64() < self.faults.delay;
        let delay = delayed.then(|| self.faults.longest_delay.mul_f64(rng.f64()));
        state.counts.add(fate, delayed);
        (fate, delay, rng)
    }

    /// Sends the request on as it came and returns the answer as it comes.
    async fn forward(&self, request: Request<Bytes>) -> Answer {
        let (mut head, body) = request.into_parts();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        head.uri = format!("{}{path}", self.upstream).parse::<Uri>().map_err(|_| NoAnswer)?;
        for hop in [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING] {
            head.headers.remove(hop);
        }
        let answer =
            self.client.request(Request::from_parts(head, Full::new(body))).await.map_err(|_| NoAnswer)?;
        let (mut head, body) = answer.into_parts();
        for hop in [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING] {
            head.headers.remove(hop);
        }
        let body = body.collect().await.map_err(|_| NoAnswer)?.to_bytes();
        Ok(Response::from_parts(head, Full::new(body)))
    }
}

impl Faults {
    /// The fate that a draw between 0 and 1 means for this operation; a fault that it cannot meet leaves it alone.
    fn fate(&self, operation: &str, draw: f64) -> Fate {
        let mut upper = 0.0;
        for (rate, fate) in [
            (self.conflict, Fate::Conflict),
            (self.throttle, Fate::Throttle),
            (self.unprocessed, Fate::Unprocessed),
            (self.server_error, Fate::ServerError),
            (self.lost_answer, Fate::LostAnswer),
        ] {
            upper += rate;
            if draw < upper {
                return if can_meet(operation, fate) { fate } else { Fate::Forwarded };
            }
        }
        Fate::Forwarded
    }
}

impl Counts {
    fn add(&mut self, fate: Fate, delayed: bool) {
        self.requests += 1;
        self.delays += u64::from(delayed);
        self.forwarded += u64::from(matches!(fate, Fate::Forwarded | Fate::LostAnswer));
        match fate {
            Fate::Forwarded => {}
            Fate::Conflict => self.conflicts += 1,
            Fate::Throttle => self.throttles += 1,
            Fate::Unprocessed => self.unprocessed += 1,
            Fate::ServerError => self.server_errors += 1,
            Fate::LostAnswer => self.lost_answers += 1,
        }
    }
}

/// The operation's name: `DynamoDB_20120810.PutItem` is `PutItem`.
fn operation(request: &Request<Bytes>) -> String {
    let target =
        request.headers().get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
    target.strip_prefix("DynamoDB_20120810.").unwrap_or_default().to_owned()
}

fn is_single_write(operation: &str) -> bool {
    matches!(operation, "PutItem" | "UpdateItem" | "DeleteItem")
}

fn is_hindered(operation: &str) -> bool {
    is_single_write(operation)
        || matches!(
            operation,
            "TransactWriteItems"
                | "BatchWriteItem"
                | "GetItem"
                | "BatchGetItem"
                | "TransactGetItems"
                | "Query"
                | "Scan"
        )
}

fn can_meet(operation: &str, fate: Fate) -> bool {
    match fate {
        Fate::Conflict => operation == "TransactWriteItems" || is_single_write(operation),
        Fate::Unprocessed => matches!(operation, "BatchGetItem" | "BatchWriteItem"),
        Fate::Forwarded | Fate::Throttle | Fate::ServerError | Fate::LostAnswer => is_hindered(operation),
    }
}

fn conflict(operation: &str, body: &[u8], rng: &mut Rng) -> Response<Full<Bytes>> {
    if operation == "TransactWriteItems" {
        return cancelled(body, "TransactionConflict", "Transaction is ongoing for the item", rng);
    }
    exception(
        StatusCode::BAD_REQUEST,
        "com.amazonaws.dynamodb.v20120810#TransactionConflictException",
        "Transaction is ongoing for the item",
    )
}

fn throttle(operation: &str, body: &[u8], rng: &mut Rng) -> Response<Full<Bytes>> {
    let in_reasons = operation == "TransactWriteItems" && rng.bool();
    match (in_reasons, rng.bool()) {
        (true, true) => cancelled(body, "ThrottlingError", "Throughput exceeds the current capacity", rng),
        (true, false) => {
            let message = "The level of configured provisioned throughput for the table was exceeded";
            cancelled(body, "ProvisionedThroughputExceeded", message, rng)
        }
        (false, true) => exception(
            StatusCode::BAD_REQUEST,
            "com.amazon.coral.availability#ThrottlingException",
            "Rate of requests exceeds the allowed throughput",
        ),
        (false, false) => exception(
            StatusCode::BAD_REQUEST,
            "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
            "The level of configured provisioned throughput for the table was exceeded",
        ),
    }
}

/// A cancelled transaction: a reason per action, in order; one action has the reason `code`, and others may have it too.
fn cancelled(body: &[u8], code: &str, message: &str, rng: &mut Rng) -> Response<Full<Bytes>> {
    let request: Value = serde_json::from_slice(body).unwrap_or_default();
    let actions = request.get("TransactItems").and_then(Value::as_array).map_or(0, Vec::len);
    let first = rng.usize(..actions.max(1));
    let reasons: Vec<Value> = (0..actions)
        .map(|action| match action == first || rng.u8(..8) == 0 {
            true => json!({ "Code": code, "Message": message }),
            false => json!({ "Code": "None" }),
        })
        .collect();
    let codes: Vec<&str> = reasons.iter().filter_map(|reason| reason.get("Code")?.as_str()).collect();
    answer(
        StatusCode::BAD_REQUEST,
        &json!({
            "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
            "Message": format!(
                "Transaction cancelled, please refer cancellation reasons for specific reasons [{}]",
                codes.join(", ")
            ),
            "CancellationReasons": reasons,
        }),
    )
}

/// A batch of which nothing was done: everything that was asked for comes back.
fn unprocessed(operation: &str, body: &[u8]) -> Response<Full<Bytes>> {
    let request: Value = serde_json::from_slice(body).unwrap_or_default();
    let items = request.get("RequestItems").cloned().unwrap_or_default();
    answer(
        StatusCode::OK,
        &match operation {
            "BatchGetItem" => json!({ "Responses": {}, "UnprocessedKeys": items }),
            _ => json!({ "UnprocessedItems": items }),
        },
    )
}

fn exception(status: StatusCode, kind: &str, message: &str) -> Response<Full<Bytes>> {
    answer(status, &json!({ "__type": kind, "message": message }))
}

/// An answer as DynamoDB's, without the checksum header, which clients check only where it is given.
fn answer(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from(body.to_string())));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert("content-type", hyper::header::HeaderValue::from_static("application/x-amz-json-1.0"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An upstream that keeps what reaches it, and answers every request alike.
    async fn upstream() -> (Loopback, Arc<Mutex<Vec<Bytes>>>) {
        let reached = Arc::new(Mutex::new(Vec::new()));
        let keeping = Arc::clone(&reached);
        let server = Loopback::serve(move |request: Request<Bytes>| {
            keeping.lock().unwrap().push(request.body().clone());
            async { Ok(answer(StatusCode::OK, &json!({ "from": "upstream" }))) }
        });
        (server.await.unwrap(), reached)
    }

    /// Sends one request; none if the connection was closed without an answer.
    async fn send(proxy: &FaultProxy, operation: &str, body: Value) -> Option<(StatusCode, Value)> {
        let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
        let request = Request::post(proxy.endpoint())
            .header("x-amz-target", format!("DynamoDB_20120810.{operation}"))
            .body(Full::from(body.to_string()))
            .unwrap();
        let (head, body) = client.request(request).await.ok()?.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Some((head.status, serde_json::from_slice(&body).unwrap()))
    }

    fn transaction(actions: usize) -> Value {
        json!({ "TransactItems": vec![json!({ "Put": {} }); actions] })
    }

    #[tokio::test]
    async fn without_faults_everything_passes_unchanged() {
        let (upstream, reached) = upstream().await;
        let endpoint = format!("http://{}", upstream.address());
        let proxy = FaultProxy::start(&endpoint, Faults::default()).await.unwrap();
        let (status, body) = send(&proxy, "PutItem", json!({ "Item": {} })).await.unwrap();
        assert_eq!((status, body), (StatusCode::OK, json!({ "from": "upstream" })));
        assert_eq!(*reached.lock().unwrap(), [Bytes::from(r#"{"Item":{}}"#)]);
        assert_eq!(proxy.counts(), Counts { requests: 1, forwarded: 1, ..Counts::default() });
    }

    #[tokio::test]
    async fn a_conflict_gives_a_reason_for_each_action_and_has_no_effect() {
        let (upstream, reached) = upstream().await;
        let endpoint = format!("http://{}", upstream.address());
        let proxy =
            FaultProxy::start(&endpoint, Faults { conflict: 1.0, ..Faults::default() }).await.unwrap();
        for actions in 1..=20 {
            let (status, body) = send(&proxy, "TransactWriteItems", transaction(actions)).await.unwrap();
            assert_eq!(status, StatusCode::BAD_REQUEST);
            assert!(body["__type"].as_str().unwrap().ends_with("#TransactionCanceledException"));
            let reasons = body["CancellationReasons"].as_array().unwrap();
            assert_eq!(reasons.len(), actions);
            assert!(reasons.iter().any(|reason| reason["Code"] == "TransactionConflict"));
        }
        let (status, body) = send(&proxy, "UpdateItem", json!({})).await.unwrap();
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(body["__type"].as_str().unwrap().ends_with("#TransactionConflictException"));
        assert!(reached.lock().unwrap().is_empty());
        // Reads meet no conflicts, and tables are managed undisturbed.
        assert_eq!(send(&proxy, "GetItem", json!({})).await.unwrap().0, StatusCode::OK);
        assert_eq!(send(&proxy, "CreateTable", json!({})).await.unwrap().0, StatusCode::OK);
        assert_eq!(proxy.counts(), Counts { requests: 23, forwarded: 2, conflicts: 21, ..Counts::default() });
    }

    #[tokio::test]
    async fn a_lost_answer_has_taken_effect() {
        let (upstream, reached) = upstream().await;
        let endpoint = format!("http://{}", upstream.address());
        let proxy =
            FaultProxy::start(&endpoint, Faults { lost_answer: 1.0, ..Faults::default() }).await.unwrap();
        assert_eq!(send(&proxy, "TransactWriteItems", transaction(2)).await, None);
        assert_eq!(reached.lock().unwrap().len(), 1);
        assert_eq!(
            proxy.counts(),
            Counts { requests: 1, forwarded: 1, lost_answers: 1, ..Counts::default() }
        );
    }

    #[tokio::test]
    async fn an_unprocessed_batch_comes_back_whole() {
        let (upstream, _) = upstream().await;
        let endpoint = format!("http://{}", upstream.address());
        let proxy =
            FaultProxy::start(&endpoint, Faults { unprocessed: 1.0, ..Faults::default() }).await.unwrap();
        let (status, body) =
            send(&proxy, "BatchGetItem", json!({ "RequestItems": { "table": [] } })).await.unwrap();
        assert_eq!(status, StatusCode::OK);
        assert_eq!(body, json!({ "Responses": {}, "UnprocessedKeys": { "table": [] } }));
    }

    #[tokio::test]
    async fn the_same_requests_in_the_same_order_meet_the_same_faults() {
        let faults = Faults {
            seed: 7,
            conflict: 0.2,
            throttle: 0.2,
            server_error: 0.1,
            lost_answer: 0.2,
            ..Faults::default()
        };
        let mut runs = Vec::new();
        for seed in [7, 7, 8] {
            let (upstream, _) = upstream().await;
            let endpoint = format!("http://{}", upstream.address());
            let proxy = FaultProxy::start(&endpoint, Faults { seed, ..faults }).await.unwrap();
            let mut seen = Vec::new();
            for number in 0..60 {
                seen.push(send(&proxy, "TransactWriteItems", transaction(1 + number % 5)).await);
            }
            let counts = proxy.counts();
            assert!(counts.conflicts > 0 && counts.throttles > 0 && counts.lost_answers > 0, "{counts:?}");
            runs.push((seen, counts));
        }
        assert_eq!(runs[0], runs[1]);
        assert_ne!(runs[0], runs[2]);
    }
}
