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
use hyper::{Request, Response, StatusCode};
use serde_json::{Value, json};

use crate::faults::{FaultDraws, FaultRates, InjectedFaults};
use crate::loopback::{ConnectionClosed, HandlerResult, LoopbackServer, json_response};
use crate::random::SeededRandom;
use crate::request_kind::RequestKind;
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

/// The treatment of a request.
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
mod tests;
