//! DynamoDB on a bad day: a proxy in front of an endpoint that refuses, fails, delays and loses answers, by a seed.
//!
//! Each request draws its faults in the order in which requests arrive, so the same requests in the same order meet the same.
//!
//! | rate | what the caller sees | what has happened |
//! |---|---|---|
//! | `unavailable` | `InternalServerError`, status 500 | nothing |
//! | `conflict` | `TransactionCanceledException` with a reason per action, or `TransactionConflictException` | nothing |
//! | `throttle` | `ThrottlingException`, `ProvisionedThroughputExceededException`, the same as cancellation reasons, or a batch that comes back unprocessed | nothing |
//! | `index_throttle` | the same exceptions, of a query of an index | nothing |
//! | `index_lag` | a query of an index that finds nothing | nothing |
//! | `lost_answer` | the connection closes | the request took effect |
//! | `slow` | an answer that others overtake | the request took effect, late |
//!
//! Only requests that write or read items are hindered, never those that manage tables or read streams: what is under test
//! is whoever writes.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{HeaderMap, Request, Response, StatusCode};
use serde_json::{Value, json};

use crate::faults::{Draws, Injected, Rates};
use crate::loopback::{Answer, Loopback, NoAnswer, json_answer};
use crate::random::SeededRandom;
use crate::upstream::Upstream;

/// How long a slow request waits, at most, in milliseconds.
const LONGEST_WAIT_MS: u64 = 20;

/// A running proxy; dropping it closes it.
pub struct FaultProxy {
    server: Loopback,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: Upstream,
    draws: Mutex<Draws>,
}

/// What a request is to DynamoDB, as far as it decides which faults it can meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
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
    /// Everything else: let through.
    Other,
}

/// What becomes of one request.
enum Fate {
    Answered,
    Unavailable,
    Conflict,
    Throttle,
    Lagging,
    AnswerLost,
}

impl FaultProxy {
    /// Starts a proxy before the DynamoDB endpoint `upstream` (`http://host:port`); equal seeds and equal requests give
    /// equal faults.
    ///
    /// # Errors
    /// No port of 127.0.0.1 can be bound.
    pub async fn start(upstream: &str, rates: Rates, seed: u64) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            upstream: Upstream::new(upstream),
            draws: Mutex::new(Draws::new(rates, seed)),
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

    /// Changes the rates from the next request on.
    pub fn set_rates(&self, rates: Rates) {
        self.shared.lock().rates = rates;
    }

    /// What was injected so far.
    #[must_use]
    pub fn injected(&self) -> Injected {
        self.shared.lock().injected
    }
}

impl Shared {
    async fn answer(self: Arc<Self>, request: Request<Bytes>) -> Answer {
        let operation = Operation::of(request.headers());
        let (wait, fate, mut random) = self.draw(operation, is_index_query(operation, request.body()));
        if let Some(wait) = wait {
            tokio::time::sleep(wait).await;
        }
        match fate {
            Fate::Answered => self.upstream.forward(request).await,
            Fate::AnswerLost => {
                // Whether it succeeded or not, the caller is not to know.
                let _lost = self.upstream.forward(request).await;
                Err(NoAnswer)
            }
            Fate::Conflict => Ok(conflict(operation, request.body(), &mut random)),
            Fate::Throttle => Ok(throttle(operation, request.body(), &mut random)),
            Fate::Lagging => {
                Ok(json_answer(StatusCode::OK, &json!({ "Items": [], "Count": 0, "ScannedCount": 0 })))
            }
            Fate::Unavailable => Ok(exception(
                StatusCode::INTERNAL_SERVER_ERROR,
                "com.amazonaws.dynamodb.v20120810#InternalServerError",
                "Internal server error",
            )),
        }
    }

    /// Draws what becomes of a request, and a generator of its own for the details: how many draws they take must not
    /// change what the next request meets.
    fn draw(&self, operation: Operation, is_index_query: bool) -> (Option<Duration>, Fate, SeededRandom) {
        let mut draws = self.lock();
        let mut random = draws.random.split();
        if operation == Operation::Other {
            return (None, Fate::Answered, random);
        }
        let is_slow = draws.occurs(|rates| rates.slow, |injected| &mut injected.slow);
        let wait = is_slow.then(|| Duration::from_millis(1 + random.below(LONGEST_WAIT_MS)));
        let fate = if draws.occurs(|rates| rates.unavailable, |injected| &mut injected.unavailable) {
            Fate::Unavailable
        } else if operation.conflicts()
            && draws.occurs(|rates| rates.conflict, |injected| &mut injected.conflicts)
        {
            Fate::Conflict
        } else if draws.occurs(|rates| rates.throttle, |injected| &mut injected.throttles)
            || is_index_query
                && draws.occurs(|rates| rates.index_throttle, |injected| &mut injected.index_throttles)
        {
            Fate::Throttle
        } else if is_index_query && draws.occurs(|rates| rates.index_lag, |injected| &mut injected.index_lags)
        {
            Fate::Lagging
        } else if draws.occurs(|rates| rates.lost_answer, |injected| &mut injected.lost_answers) {
            Fate::AnswerLost
        } else {
            Fate::Answered
        };
        (wait, fate, random)
    }

    fn lock(&self) -> MutexGuard<'_, Draws> {
        self.draws.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Operation {
    /// By the header `X-Amz-Target`, which reads `DynamoDB_20120810.PutItem`.
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

fn is_index_query(operation: Operation, body: &[u8]) -> bool {
    operation == Operation::Query && parsed(body).get("IndexName").is_some()
}

/// A request's body; a body that is no JSON has nothing in it.
fn parsed(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_default()
}

fn conflict(operation: Operation, body: &[u8], random: &mut SeededRandom) -> Response<Full<Bytes>> {
    if operation == Operation::Transaction {
        return cancelled(body, "TransactionConflict", "Transaction is ongoing for the item", random);
    }
    exception(
        StatusCode::BAD_REQUEST,
        "com.amazonaws.dynamodb.v20120810#TransactionConflictException",
        "Transaction is ongoing for the item",
    )
}

/// One of the ways in which DynamoDB throttles such a request.
fn throttle(operation: Operation, body: &[u8], random: &mut SeededRandom) -> Response<Full<Bytes>> {
    const EXCEEDED: &str = "The level of configured provisioned throughput for the table was exceeded";
    let items = || parsed(body).get("RequestItems").cloned().unwrap_or_default();
    match (operation, random.below(4)) {
        (Operation::Transaction, 0) => {
            cancelled(body, "ThrottlingError", "Throughput exceeds the current capacity", random)
        }
        (Operation::Transaction, 1) => cancelled(body, "ProvisionedThroughputExceeded", EXCEEDED, random),
        (Operation::BatchRead, 0 | 1) => {
            json_answer(StatusCode::OK, &json!({ "Responses": {}, "UnprocessedKeys": items() }))
        }
        (Operation::BatchWrite, 0 | 1) => {
            json_answer(StatusCode::OK, &json!({ "UnprocessedItems": items() }))
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

/// A cancelled transaction: a reason per action, in order; at least one action has the reason `code`.
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
    json_answer(
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
    json_answer(status, &json!({ "__type": kind, "message": message }))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use hyper_util::client::legacy::Client;
    use hyper_util::rt::TokioExecutor;

    use super::*;

    /// An upstream that keeps what reaches it, and answers every request alike; a proxy before it.
    struct Setting {
        _upstream: Loopback,
        reached: Arc<Mutex<Vec<Bytes>>>,
        proxy: FaultProxy,
    }

    impl Setting {
        async fn new(rates: Rates, seed: u64) -> Self {
            let reached = Arc::new(Mutex::new(Vec::new()));
            let keeping = Arc::clone(&reached);
            let upstream = Loopback::serve(move |request: Request<Bytes>| {
                keeping.lock().unwrap().push(request.body().clone());
                async { Ok(json_answer(StatusCode::OK, &json!({ "from": "upstream" }))) }
            });
            let upstream = upstream.await.unwrap();
            let proxy =
                FaultProxy::start(&format!("http://{}", upstream.address()), rates, seed).await.unwrap();
            Self { _upstream: upstream, reached, proxy }
        }

        /// Sends one request; none if the connection was closed without an answer.
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
    async fn without_faults_everything_passes_unchanged() {
        let setting = Setting::new(Rates::NONE, 1).await;
        let (status, body) = setting.send("PutItem", json!({ "Item": {} })).await.unwrap();
        assert_eq!((status, body), (StatusCode::OK, json!({ "from": "upstream" })));
        assert_eq!(*setting.reached.lock().unwrap(), [Bytes::from(r#"{"Item":{}}"#)]);
        assert_eq!(setting.proxy.injected(), Injected::default());
    }

    #[tokio::test]
    async fn a_conflict_gives_a_reason_for_each_action_and_has_no_effect() {
        let setting = Setting::new(Rates { conflict: 1000, ..Rates::NONE }, 1).await;
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
        assert_eq!(setting.proxy.injected(), Injected { conflicts: 21, ..Injected::default() });
    }

    #[tokio::test]
    async fn reads_meet_no_conflicts_and_tables_are_managed_undisturbed() {
        let all = Rates { conflict: 1000, ..Rates::NONE };
        let setting = Setting::new(all, 1).await;
        assert_eq!(setting.send("GetItem", json!({})).await.unwrap().0, StatusCode::OK);
        setting.proxy.set_rates(Rates { unavailable: 1000, throttle: 1000, lost_answer: 1000, ..all });
        assert_eq!(setting.send("CreateTable", json!({})).await.unwrap().0, StatusCode::OK);
        assert_eq!(setting.send("GetItem", json!({})).await.unwrap().0, StatusCode::INTERNAL_SERVER_ERROR);
    }

    #[tokio::test]
    async fn a_lost_answer_has_taken_effect() {
        let setting = Setting::new(Rates { lost_answer: 1000, ..Rates::NONE }, 1).await;
        assert_eq!(setting.send("TransactWriteItems", transaction(2)).await, None);
        assert_eq!(setting.reached(), 1);
        assert_eq!(setting.proxy.injected(), Injected { lost_answers: 1, ..Injected::default() });
    }

    #[tokio::test]
    async fn an_index_that_lags_is_empty_and_a_table_never_lags() {
        let setting = Setting::new(Rates { index_lag: 1000, ..Rates::NONE }, 1).await;
        let (_, body) = setting.send("Query", json!({ "IndexName": "GSI" })).await.unwrap();
        assert_eq!(body["Count"], 0);
        let (_, body) = setting.send("Query", json!({})).await.unwrap();
        assert_eq!(body["from"], "upstream");
    }

    #[tokio::test]
    async fn throttling_takes_every_form_that_dynamodb_gives_it() {
        let setting = Setting::new(Rates { throttle: 1000, ..Rates::NONE }, 1).await;
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
    async fn the_same_requests_in_the_same_order_meet_the_same_faults() {
        let rates = Rates { conflict: 200, throttle: 200, unavailable: 100, lost_answer: 200, ..Rates::NONE };
        let mut runs = Vec::new();
        for seed in [7, 7, 8] {
            let setting = Setting::new(rates, seed).await;
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
