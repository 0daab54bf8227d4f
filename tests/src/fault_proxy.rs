//! A proxy in front of a DynamoDB endpoint that refuses requests, fails, delays and loses responses, reproducibly by a seed.
//!
//! Requests draw their faults in order of arrival, so the same requests in the same order get the same faults.
//!
//! | rate | what the caller sees | what happened |
//! |---|---|---|
//! | `unavailable` | `InternalServerError`, status 500 | nothing |
//! | `conflict` | `TransactionCanceledException` with a reason per action, or `TransactionConflictException` | nothing |
//! | `throttle` | `ThrottlingException`, `ProvisionedThroughputExceededException`, the same as cancellation reasons, or a batch that is returned unprocessed | nothing |
//! | `index_throttle` | the same exceptions, for an index query | nothing |
//! | `index_lag` | an index query that finds nothing | nothing |
//! | `lost_answer` | the connection closes | the request took effect |
//! | `slow` | a response that others overtake | the request took effect, late |
//!
//! Only requests that write or read items get faults, not those that manage tables or read streams.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{HeaderMap, Request, Response, StatusCode};
use serde_json::{Value, json};

use crate::faults::{FaultDraws, FaultRates, InjectedFaults};
use crate::loopback::{ConnectionClosed, HandlerResult, LoopbackServer, json_response};
use crate::random::SeededRandom;
use crate::upstream::UpstreamEndpoint;

/// The longest delay of a slow request, in milliseconds.
const MAX_DELAY_MS: u64 = 20;

/// A running proxy; dropping it closes it.
pub struct FaultProxy {
    server: LoopbackServer,
    shared: Arc<FaultProxyState>,
}

struct FaultProxyState {
    upstream: UpstreamEndpoint,
    draws: Mutex<FaultDraws>,
}

/// The kind of a request, which decides the faults it can get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestKind {
    /// `TransactWriteItems`.
    Transaction,
    /// `PutItem`, `UpdateItem`, `DeleteItem`.
    Write,
    /// `BatchWriteItem`.
    BatchWrite,
    /// `BatchGetItem`.
    BatchRead,
    /// `Query`.
    Query,
    /// `GetItem`, `TransactGetItems`, `Scan`.
    Read,
    /// All others, which are forwarded.
    Other,
}

/// What happens to a request.
enum RequestFate {
    Forwarded,
    Unavailable,
    Conflict,
    Throttle,
    Lagging,
    ResponseLost,
}

impl FaultProxy {
    /// Starts a proxy in front of the DynamoDB endpoint `upstream` (`http://host:port`). The same seed and the same requests produce
    /// the same faults.
    ///
    /// # Errors
    /// No port of 127.0.0.1 can be bound.
    pub async fn start(upstream: &str, rates: FaultRates, seed: u64) -> io::Result<Self> {
        let shared = Arc::new(FaultProxyState {
            upstream: UpstreamEndpoint::new(upstream),
            draws: Mutex::new(FaultDraws::new(rates, seed)),
        });
        let serving = Arc::clone(&shared);
        let server = LoopbackServer::serve(move |request| Arc::clone(&serving).respond(request)).await?;
        Ok(Self { server, shared })
    }

    /// The address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Its endpoint, for `AWS_ENDPOINT_URL_DYNAMODB`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Changes the rates from the next request on.
    pub fn set_rates(&self, rates: FaultRates) {
        self.shared.lock().rates = rates;
    }

    /// The faults injected so far.
    #[must_use]
    pub fn injected(&self) -> InjectedFaults {
        self.shared.lock().injected
    }
}

impl FaultProxyState {
    async fn respond(self: Arc<Self>, request: Request<Bytes>) -> HandlerResult {
        let operation = RequestKind::of(request.headers());
        let (wait, fate, mut random) = self.draw(operation, is_index_query(operation, request.body()));
        if let Some(wait) = wait {
            tokio::time::sleep(wait).await;
        }
        match fate {
            RequestFate::Forwarded => self.upstream.forward(request).await,
            RequestFate::ResponseLost => {
                // The caller does not learn whether the request succeeded.
                let _lost = self.upstream.forward(request).await;
                Err(ConnectionClosed)
            }
            RequestFate::Conflict => Ok(conflict(operation, request.body(), &mut random)),
            RequestFate::Throttle => Ok(throttle(operation, request.body(), &mut random)),
            RequestFate::Lagging => {
                Ok(json_response(StatusCode::OK, &json!({ "Items": [], "Count": 0, "ScannedCount": 0 })))
            }
            RequestFate::Unavailable => Ok(exception(
                StatusCode::INTERNAL_SERVER_ERROR,
                "com.amazonaws.dynamodb.v20120810#InternalServerError",
                "Internal server error",
            )),
        }
    }

    /// Draws what happens to a request, and a separate generator for the details: the number of their draws must not change the
    /// faults of the next request.
    fn draw(
        &self,
        operation: RequestKind,
        is_index_query: bool,
    ) -> (Option<Duration>, RequestFate, SeededRandom) {
        let mut draws = self.lock();
        let mut random = draws.random.split();
        if operation == RequestKind::Other {
            return (None, RequestFate::Forwarded, random);
        }
        let is_slow = draws.occurs(|rates| rates.slow, |injected| &mut injected.slow);
        let wait = is_slow.then(|| Duration::from_millis(1 + random.below(MAX_DELAY_MS)));
        let fate = if draws.occurs(|rates| rates.unavailable, |injected| &mut injected.unavailable) {
            RequestFate::Unavailable
        } else if operation.conflicts()
            && draws.occurs(|rates| rates.conflict, |injected| &mut injected.conflicts)
        {
            RequestFate::Conflict
        } else if draws.occurs(|rates| rates.throttle, |injected| &mut injected.throttles)
            || is_index_query
                && draws.occurs(|rates| rates.index_throttle, |injected| &mut injected.index_throttles)
        {
            RequestFate::Throttle
        } else if is_index_query && draws.occurs(|rates| rates.index_lag, |injected| &mut injected.index_lags)
        {
            RequestFate::Lagging
        } else if draws.occurs(|rates| rates.lost_answer, |injected| &mut injected.lost_answers) {
            RequestFate::ResponseLost
        } else {
            RequestFate::Forwarded
        };
        (wait, fate, random)
    }

    fn lock(&self) -> MutexGuard<'_, FaultDraws> {
        self.draws.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestKind {
    /// From the header `X-Amz-Target`, for example `DynamoDB_20120810.PutItem`.
    fn of(headers: &HeaderMap) -> Self {
        let target = headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
        match target.strip_prefix("DynamoDB_20120810.").unwrap_or_default() {
            "TransactWriteItems" => Self::Transaction,
            "PutItem" | "UpdateItem" | "DeleteItem" => Self::Write,
            "BatchWriteItem" => Self::BatchWrite,
            "BatchGetItem" => Self::BatchRead,
            "Query" => Self::Query,
            "GetItem" | "TransactGetItems" | "Scan" => Self::Read,
            _ => Self::Other,
        }
    }

    fn conflicts(self) -> bool {
        matches!(self, Self::Transaction | Self::Write)
    }
}

fn is_index_query(operation: RequestKind, body: &[u8]) -> bool {
    operation == RequestKind::Query && parsed(body).get("IndexName").is_some()
}

/// A request's body; null if it is not JSON.
fn parsed(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_default()
}

fn conflict(operation: RequestKind, body: &[u8], random: &mut SeededRandom) -> Response<Full<Bytes>> {
    if operation == RequestKind::Transaction {
        return cancelled(body, "TransactionConflict", "Transaction is ongoing for the item", random);
    }
    exception(
        StatusCode::BAD_REQUEST,
        "com.amazonaws.dynamodb.v20120810#TransactionConflictException",
        "Transaction is ongoing for the item",
    )
}

/// One of the forms in which DynamoDB throttles this kind of request.
fn throttle(operation: RequestKind, body: &[u8], random: &mut SeededRandom) -> Response<Full<Bytes>> {
    const EXCEEDED: &str = "The level of configured provisioned throughput for the table was exceeded";
    let items = || parsed(body).get("RequestItems").cloned().unwrap_or_default();
    match (operation, random.below(4)) {
        (RequestKind::Transaction, 0) => {
            cancelled(body, "ThrottlingError", "Throughput exceeds the current capacity", random)
        }
        (RequestKind::Transaction, 1) => cancelled(body, "ProvisionedThroughputExceeded", EXCEEDED, random),
        (RequestKind::BatchRead, 0 | 1) => {
            json_response(StatusCode::OK, &json!({ "Responses": {}, "UnprocessedKeys": items() }))
        }
        (RequestKind::BatchWrite, 0 | 1) => {
            json_response(StatusCode::OK, &json!({ "UnprocessedItems": items() }))
        }
        (_, 2) => exception(
            StatusCode::BAD_REQUEST,
            "com.amazon.coral.availability#ThrottlingException",
            "Rate of requests exceeds the allowed throughput",
        ),
        _ => exception(
            StatusCode::BAD_REQUEST,
            "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
            EXCEEDED,
        ),
    }
}

/// A cancelled transaction with a reason for each action, in order; at least one action has the reason `code`.
fn cancelled(body: &[u8], code: &str, message: &str, random: &mut SeededRandom) -> Response<Full<Bytes>> {
    let actions = parsed(body).get("TransactItems").and_then(Value::as_array).map_or(0, Vec::len);
    let chosen = random.below(u64::try_from(actions).unwrap_or(u64::MAX));
    let codes: Vec<&str> = (0..)
        .take(actions)
        .map(|action| if action == chosen || random.chance(300) { code } else { "None" })
        .collect();
    let reason = |code: &&str| match *code {
        "None" => json!({ "Code": "None" }),
        code => json!({ "Code": code, "Message": message }),
    };
    json_response(
        StatusCode::BAD_REQUEST,
        &json!({
            "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
            "Message": format!(
                "Transaction cancelled, please refer cancellation reasons for specific reasons [{}]",
                codes.join(", ")
            ),
            "CancellationReasons": codes.iter().map(reason).collect::<Vec<_>>(),
        }),
    )
}

fn exception(status: StatusCode, kind: &str, message: &str) -> Response<Full<Bytes>> {
    json_response(status, &json!({ "__type": kind, "message": message }))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use hyper_util::client::legacy::Client;
    use hyper_util::rt::TokioExecutor;

    use super::*;

    /// A proxy and its upstream, which records requests and always returns the same response.
    struct ProxySetup {
        _upstream: LoopbackServer,
        reached: Arc<Mutex<Vec<Bytes>>>,
        proxy: FaultProxy,
    }

    impl ProxySetup {
        async fn new(rates: FaultRates, seed: u64) -> Self {
            let reached = Arc::new(Mutex::new(Vec::new()));
            let keeping = Arc::clone(&reached);
            let upstream = LoopbackServer::serve(move |request: Request<Bytes>| {
                keeping.lock().unwrap().push(request.body().clone());
                async { Ok(json_response(StatusCode::OK, &json!({ "from": "upstream" }))) }
            });
            let upstream = upstream.await.unwrap();
            let proxy =
                FaultProxy::start(&format!("http://{}", upstream.address()), rates, seed).await.unwrap();
            Self { _upstream: upstream, reached, proxy }
        }

        /// Sends a request; `None` if the connection was closed without a response.
        async fn send(&self, operation: &str, body: Value) -> Option<(StatusCode, Value)> {
            let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
            let request = Request::post(self.proxy.endpoint())
                .header("x-amz-target", format!("DynamoDB_20120810.{operation}"))
                .body(Full::from(body.to_string()))
                .unwrap();
            let (head, body) = client.request(request).await.ok()?.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            Some((head.status, serde_json::from_slice(&body).unwrap()))
        }

        fn reached(&self) -> usize {
            self.reached.lock().unwrap().len()
        }
    }

    fn transaction(actions: usize) -> Value {
        json!({ "TransactItems": vec![json!({ "Put": {} }); actions] })
    }

    fn kind(body: &Value) -> &str {
        body["__type"].as_str().unwrap().rsplit('#').next().unwrap()
    }

    #[tokio::test]
    async fn without_faults_requests_and_responses_pass_unchanged() {
        let setting = ProxySetup::new(FaultRates::NONE, 1).await;
        let (status, body) = setting.send("PutItem", json!({ "Item": {} })).await.unwrap();
        assert_eq!((status, body), (StatusCode::OK, json!({ "from": "upstream" })));
        assert_eq!(*setting.reached.lock().unwrap(), [Bytes::from(r#"{"Item":{}}"#)]);
        assert_eq!(setting.proxy.injected(), InjectedFaults::default());
    }

    #[tokio::test]
    async fn a_conflict_has_a_reason_for_each_action_and_no_effect() {
        let setting = ProxySetup::new(FaultRates { conflict: 1000, ..FaultRates::NONE }, 1).await;
        for actions in 1..=20 {
            let (status, body) = setting.send("TransactWriteItems", transaction(actions)).await.unwrap();
            assert_eq!((status, kind(&body)), (StatusCode::BAD_REQUEST, "TransactionCanceledException"));
            let reasons = body["CancellationReasons"].as_array().unwrap();
            assert_eq!(reasons.len(), actions);
            assert!(reasons.iter().any(|reason| reason["Code"] == "TransactionConflict"));
        }
        let (status, body) = setting.send("UpdateItem", json!({})).await.unwrap();
        assert_eq!((status, kind(&body)), (StatusCode::BAD_REQUEST, "TransactionConflictException"));
        assert_eq!(setting.reached(), 0);
        assert_eq!(setting.proxy.injected(), InjectedFaults { conflicts: 21, ..InjectedFaults::default() });
    }

    #[tokio::test]
    async fn reads_get_no_conflicts_and_table_management_gets_no_faults() {
        let all = FaultRates { conflict: 1000, ..FaultRates::NONE };
        let setting = ProxySetup::new(all, 1).await;
        assert_eq!(setting.send("GetItem", json!({})).await.unwrap().0, StatusCode::OK);
        setting.proxy.set_rates(FaultRates { unavailable: 1000, throttle: 1000, lost_answer: 1000, ..all });
        assert_eq!(setting.send("CreateTable", json!({})).await.unwrap().0, StatusCode::OK);
        assert_eq!(setting.send("GetItem", json!({})).await.unwrap().0, StatusCode::INTERNAL_SERVER_ERROR);
    }

    #[tokio::test]
    async fn a_request_with_a_lost_response_took_effect() {
        let setting = ProxySetup::new(FaultRates { lost_answer: 1000, ..FaultRates::NONE }, 1).await;
        assert_eq!(setting.send("TransactWriteItems", transaction(2)).await, None);
        assert_eq!(setting.reached(), 1);
        assert_eq!(setting.proxy.injected(), InjectedFaults { lost_answers: 1, ..InjectedFaults::default() });
    }

    #[tokio::test]
    async fn a_lagging_index_is_empty_and_a_table_never_lags() {
        let setting = ProxySetup::new(FaultRates { index_lag: 1000, ..FaultRates::NONE }, 1).await;
        let (_, body) = setting.send("Query", json!({ "IndexName": "GSI" })).await.unwrap();
        assert_eq!(body["Count"], 0);
        let (_, body) = setting.send("Query", json!({})).await.unwrap();
        assert_eq!(body["from"], "upstream");
    }

    #[tokio::test]
    async fn throttling_takes_every_form_of_dynamodb() {
        let setting = ProxySetup::new(FaultRates { throttle: 1000, ..FaultRates::NONE }, 1).await;
        let (mut kinds, mut codes, mut unprocessed) = (Vec::new(), Vec::new(), 0);
        for _ in 0..40 {
            let (_, body) = setting.send("TransactWriteItems", transaction(1)).await.unwrap();
            kinds.push(kind(&body).to_owned());
            codes.extend(body["CancellationReasons"][0]["Code"].as_str().map(str::to_owned));
            let (status, body) =
                setting.send("BatchGetItem", json!({ "RequestItems": { "t": [] } })).await.unwrap();
            if status == StatusCode::OK {
                assert_eq!(body, json!({ "Responses": {}, "UnprocessedKeys": { "t": [] } }));
                unprocessed += 1;
            }
        }
        for list in [&mut kinds, &mut codes] {
            list.sort();
            list.dedup();
        }
        assert_eq!(
            kinds,
            ["ProvisionedThroughputExceededException", "ThrottlingException", "TransactionCanceledException"]
        );
        assert_eq!(codes, ["ProvisionedThroughputExceeded", "ThrottlingError"]);
        assert!(unprocessed > 0);
        assert_eq!(setting.reached(), 0);
    }

    #[tokio::test]
    async fn the_same_requests_in_the_same_order_get_the_same_faults() {
        let rates = FaultRates {
            conflict: 200,
            throttle: 200,
            unavailable: 100,
            lost_answer: 200,
            ..FaultRates::NONE
        };
        let mut runs = Vec::new();
        for seed in [7, 7, 8] {
            let setting = ProxySetup::new(rates, seed).await;
            let mut seen = Vec::new();
            for number in 0..60 {
                seen.push(setting.send("TransactWriteItems", transaction(1 + number % 5)).await);
            }
            runs.push((seen, setting.proxy.injected()));
        }
        assert_eq!(runs[0], runs[1]);
        assert_ne!(runs[0], runs[2]);
    }
}
