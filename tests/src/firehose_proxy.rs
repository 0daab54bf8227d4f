//! A proxy in front of a Firehose endpoint that refuses some records of a `PutRecordBatch` and forwards the others.
//!
//! ```text
//! request ──▶ throttled?     ──yes──▶ ServiceUnavailableException, nothing is taken
//!         ──▶ refused records are removed ──▶ the others are forwarded
//!         ──▶ response lost? ──yes──▶ the connection closes, although they were taken
//!         ──▶ the endpoint's response, with an error for each removed record
//! ```
//!
//! Requests and records are counted as they arrive, retries included, so the same requests in the same order get the same faults.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use afterwrite_services::firehose::Firehose;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::http::request::Parts;
use hyper::{Request, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::archive::{STREAM, StreamFaults};
use crate::loopback::{ConnectionClosed, HandlerResult, LoopbackServer, json_response};
use crate::moto::firehose_client;
use crate::upstream::UpstreamEndpoint;

/// A running proxy; dropping it stops it.
pub struct FirehoseProxy {
    server: LoopbackServer,
    shared: Arc<FirehoseProxyState>,
}

/// Counts of what passed through a proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxyTotals {
    /// Requests that arrived.
    pub requests: u64,
    /// Records that arrived, without those of throttled requests.
    pub records: u64,
    /// Records that were reported to the caller as refused.
    pub refused: u64,
    /// Responses that reported some records as taken and others as refused.
    pub partial_responses: u64,
}

struct FirehoseProxyState {
    upstream: UpstreamEndpoint,
    faults: StreamFaults,
    totals: Mutex<ProxyTotals>,
}

/// The body of a `PutRecordBatch`.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
struct PutRecordBatch {
    delivery_stream_name: String,
    records: Vec<Value>,
}

/// The part of its response that the proxy needs.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct UpstreamResponse {
    failed_put_count: u64,
    request_responses: Vec<Value>,
}

impl FirehoseProxy {
    /// Starts a proxy in front of the Firehose endpoint `upstream` (`http://host:port`).
    ///
    /// # Errors
    /// No port of 127.0.0.1 can be bound.
    pub async fn start(upstream: &str, faults: StreamFaults) -> io::Result<Self> {
        let shared = Arc::new(FirehoseProxyState {
            upstream: UpstreamEndpoint::new(upstream),
            faults,
            totals: Mutex::default(),
        });
        let serving = Arc::clone(&shared);
        let server = LoopbackServer::serve(move |request| Arc::clone(&serving).respond(request)).await?;
        Ok(Self { server, shared })
    }

    /// The delivery stream behind the proxy, through the AWS SDK.
    #[must_use]
    pub fn stream(&self) -> Firehose {
        let client = firehose_client(&self.server.endpoint());
        Firehose::new(&client, Arc::from(STREAM))
    }

    /// The counts so far.
    #[must_use]
    pub fn totals(&self) -> ProxyTotals {
        *self.shared.lock()
    }
}

impl FirehoseProxyState {
    async fn respond(self: Arc<Self>, request: Request<Bytes>) -> HandlerResult {
        let (head, body) = request.into_parts();
        let mut put: PutRecordBatch = serde_json::from_slice(&body).map_err(|_| ConnectionClosed)?;
        let number = self.count_request();
        if number.is_multiple_of(self.faults.throttle) {
            let error = json!({ "__type": "ServiceUnavailableException", "message": "Slow down." });
            return Ok(json_response(StatusCode::SERVICE_UNAVAILABLE, &error));
        }
        let are_refused: Vec<bool> = put.records.iter().map(|_| self.refuses_next_record()).collect();
        let mut each = are_refused.iter();
        put.records.retain(|_| each.next() == Some(&false));
        let taken = self.forward(head, &put).await?;
        if number.is_multiple_of(self.faults.lost_response) {
            return Err(ConnectionClosed);
        }
        self.count_response(are_refused.len() - taken.len(), taken.len());
        Ok(json_response(StatusCode::OK, &merged_response(&are_refused, taken)))
    }

    /// Forwards the remaining records of a request; returns the endpoint's result for each, all of them taken.
    async fn forward(&self, head: Parts, put: &PutRecordBatch) -> Result<Vec<Value>, ConnectionClosed> {
        if put.records.is_empty() {
            // The service refuses a request without records.
            return Ok(Vec::new());
        }
        let body = serde_json::to_vec(put).map_err(|_| ConnectionClosed)?;
        let request = Request::from_parts(head, Bytes::from(body));
        let (head, body) = self.upstream.forward(request).await?.into_parts();
        let body = body.collect().await.map_err(|_| ConnectionClosed)?.to_bytes();
        let taken: UpstreamResponse = serde_json::from_slice(&body).map_err(|_| ConnectionClosed)?;
        let are_all_taken = head.status == StatusCode::OK
            && taken.failed_put_count == 0
            && taken.request_responses.len() == put.records.len();
        are_all_taken.then_some(taken.request_responses).ok_or(ConnectionClosed)
    }

    /// Counts a request; the first has the number 1.
    fn count_request(&self) -> u64 {
        let mut totals = self.lock();
        totals.requests += 1;
        totals.requests
    }

    fn refuses_next_record(&self) -> bool {
        let mut totals = self.lock();
        totals.records += 1;
        totals.records.is_multiple_of(self.faults.refused_record)
    }

    fn count_response(&self, refused: usize, taken: usize) {
        let mut totals = self.lock();
        totals.refused += refused as u64;
        totals.partial_responses += u64::from(refused > 0 && taken > 0);
    }

    fn lock(&self) -> MutexGuard<'_, ProxyTotals> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The response to a request: the endpoint's results for forwarded records, and an error for each refused one.
fn merged_response(are_refused: &[bool], taken: Vec<Value>) -> Value {
    let refusal = json!({ "ErrorCode": "ServiceUnavailableException", "ErrorMessage": "Slow down." });
    let mut taken = taken.into_iter();
    let mut entry = |is_refused| if is_refused { Some(refusal.clone()) } else { taken.next() };
    let entries: Vec<Value> =
        are_refused.iter().map(|is_refused| entry(*is_refused).unwrap_or_default()).collect();
    let failed = are_refused.iter().filter(|is_refused| **is_refused).count();
    json!({ "FailedPutCount": failed, "Encrypted": false, "RequestResponses": entries })
}
