//! A proxy in front of a DynamoDB endpoint that answers as late as a region does.
//!
//! An embedded DynamoDB answers within a fraction of a millisecond, so that it hides what calls one after another cost. Calls that
//! are sent concurrently wait concurrently.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::Request;
use tokio::time::{Instant, sleep_until};

use crate::loopback::{HandlerResult, LoopbackServer};
use crate::request_kind::RequestKind;
use crate::upstream::UpstreamEndpoint;

/// The time from a request to its response, unless the endpoint takes longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLatencies {
    /// Of `GetItem`, `BatchGetItem` and `Query`.
    pub read: Duration,
    /// Of `PutItem`, `UpdateItem`, `DeleteItem` and `BatchWriteItem`.
    pub write: Duration,
    /// Of `TransactWriteItems`.
    pub transaction: Duration,
}

impl CallLatencies {
    /// As a function measures them within its region.
    pub const REGION: Self = Self {
        read: Duration::from_millis(6),
        write: Duration::from_millis(5),
        transaction: Duration::from_millis(15),
    };

    fn of(self, kind: RequestKind) -> Duration {
        match kind {
            RequestKind::BatchRead | RequestKind::Query | RequestKind::Read => self.read,
            RequestKind::Write | RequestKind::BatchWrite => self.write,
            RequestKind::Transaction => self.transaction,
            RequestKind::Other => Duration::ZERO,
        }
    }
}

/// A running proxy; dropping it closes it.
pub struct LatencyProxy {
    server: LoopbackServer,
}

impl LatencyProxy {
    /// Starts a proxy in front of the DynamoDB endpoint `upstream` (`http://host:port`).
    ///
    /// # Errors
    /// No port of 127.0.0.1 can be bound.
    pub async fn start(upstream: &str, latencies: CallLatencies) -> io::Result<Self> {
        let upstream = Arc::new(UpstreamEndpoint::new(upstream));
        let server =
            LoopbackServer::serve(move |request| respond(Arc::clone(&upstream), latencies, request)).await?;
        Ok(Self { server })
    }

    /// Its endpoint, for `AWS_ENDPOINT_URL_DYNAMODB`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.server.endpoint()
    }
}

async fn respond(
    upstream: Arc<UpstreamEndpoint>,
    latencies: CallLatencies,
    request: Request<Bytes>,
) -> HandlerResult {
    let due = Instant::now() + latencies.of(RequestKind::of(request.headers()));
    let response = upstream.forward(request).await;
    sleep_until(due).await;
    response
}
