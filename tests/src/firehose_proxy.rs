//! Firehose on a bad day: a proxy before an endpoint that refuses some records of a `PutRecordBatch` and lets the others through.
//!
//! ```text
//! request ──▶ throttled?   ──yes──▶ ServiceUnavailableException, nothing was taken
//!         ──▶ the refused records are taken out ──▶ the others to the endpoint
//!         ──▶ answer lost? ──yes──▶ the connection closes, though they were taken
//!         ──▶ the endpoint's answer, with an error in the place of each record that was taken out
//! ```
//!
//! Requests and records are counted as they arrive, those that come again too, so the same requests in the same order meet the
//! same faults.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use afterwrite::sink::firehose::Firehose;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::http::request::Parts;
use hyper::{Request, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::archive::{STREAM, StreamFaults};
use crate::loopback::{Answer, Loopback, NoAnswer, json_answer};
use crate::moto::firehose_client;
use crate::upstream::Upstream;

/// A running proxy; dropping it closes it.
pub struct FirehoseProxy {
    server: Loopback,
    shared: Arc<Shared>,
}

/// What passed through it so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Requests that arrived.
    pub requests: u64,
    /// Records that arrived, but for those of requests that were throttled.
    pub records: u64,
    /// Records of which the caller was told that they were refused.
    pub refused: u64,
    /// Answers that told of records that were taken and of others that were refused.
    pub answers_in_part: u64,
}

struct Shared {
    upstream: Upstream,
    faults: StreamFaults,
    passed: Mutex<Passed>,
}

/// The body of a `PutRecordBatch`.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
struct PutRecordBatch {
    delivery_stream_name: String,
    records: Vec<Value>,
}

/// The body of its answer, as far as it is needed here.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Taken {
    failed_put_count: u64,
    request_responses: Vec<Value>,
}

impl FirehoseProxy {
    /// Starts a proxy before the Firehose endpoint `upstream` (`http://host:port`).
    ///
    /// # Errors
    /// No port of 127.0.0.1 can be bound.
    pub async fn start(upstream: &str, faults: StreamFaults) -> io::Result<Self> {
        let shared = Arc::new(Shared { upstream: Upstream::new(upstream), faults, passed: Mutex::default() });
        let serving = Arc::clone(&shared);
        let server = Loopback::serve(move |request| Arc::clone(&serving).answer(request)).await?;
        Ok(Self { server, shared })
    }

    /// The delivery stream behind it, through the AWS SDK.
    #[must_use]
    pub fn stream(&self) -> Firehose {
        let client = firehose_client(&format!("http://{}", self.server.address()));
        Firehose::new(&client, Arc::from(STREAM))
    }

    /// What passed through it so far.
    #[must_use]
    pub fn passed(&self) -> Passed {
        *self.shared.lock()
    }
}

impl Shared {
    async fn answer(self: Arc<Self>, request: Request<Bytes>) -> Answer {
        let (head, body) = request.into_parts();
        let mut put: PutRecordBatch = serde_json::from_slice(&body).map_err(|_| NoAnswer)?;
        let number = self.count_request();
        if number.is_multiple_of(self.faults.throttle) {
            let error = json!({ "__type": "ServiceUnavailableException", "message": "Slow down." });
            return Ok(json_answer(StatusCode::SERVICE_UNAVAILABLE, &error));
        }
        let are_refused: Vec<bool> = put.records.iter().map(|_| self.refuses_next_record()).collect();
        let mut each = are_refused.iter();
        put.records.retain(|_| each.next() == Some(&false));
        let taken = self.forward(head, &put).await?;
        if number.is_multiple_of(self.faults.lost_response) {
            return Err(NoAnswer);
        }
        self.count_answer(are_refused.len() - taken.len(), taken.len());
        Ok(json_answer(StatusCode::OK, &answered(&are_refused, taken)))
    }

    /// Sends what is left of a request on; what became of each of its records, all of them taken.
    async fn forward(&self, head: Parts, put: &PutRecordBatch) -> Result<Vec<Value>, NoAnswer> {
        if put.records.is_empty() {
            // The service takes no request without a record.
            return Ok(Vec::new());
        }
        let body = serde_json::to_vec(put).map_err(|_| NoAnswer)?;
        let request = Request::from_parts(head, Bytes::from(body));
        let (head, body) = self.upstream.forward(request).await?.into_parts();
        let body = body.collect().await.map_err(|_| NoAnswer)?.to_bytes();
        let taken: Taken = serde_json::from_slice(&body).map_err(|_| NoAnswer)?;
        let are_all_taken = head.status == StatusCode::OK
            && taken.failed_put_count == 0
            && taken.request_responses.len() == put.records.len();
        are_all_taken.then_some(taken.request_responses).ok_or(NoAnswer)
    }

    /// The number of the request that has arrived; the first is 1.
    fn count_request(&self) -> u64 {
        let mut passed = self.lock();
        passed.requests += 1;
        passed.requests
    }

    fn refuses_next_record(&self) -> bool {
        let mut passed = self.lock();
        passed.records += 1;
        passed.records.is_multiple_of(self.faults.refused_record)
    }

    fn count_answer(&self, refused: usize, taken: usize) {
        let mut passed = self.lock();
        passed.refused += refused as u64;
        passed.answers_in_part += u64::from(refused > 0 && taken > 0);
    }

    fn lock(&self) -> MutexGuard<'_, Passed> {
        self.passed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer to a request: what the endpoint said of the records that reached it, and an error for each that did not.
fn answered(are_refused: &[bool], taken: Vec<Value>) -> Value {
    let mut taken = taken.into_iter();
    let entry = |is_refused: &bool| {
        if *is_refused {
            json!({ "ErrorCode": "ServiceUnavailableException", "ErrorMessage": "Slow down." })
        } else {
            taken.next().unwrap_or_default()
        }
    };
    let entries: Vec<Value> = are_refused.iter().map(entry).collect();
    let failed = are_refused.iter().filter(|is_refused| **is_refused).count();
    json!({ "FailedPutCount": failed, "Encrypted": false, "RequestResponses": entries })
}
