//! An EventBridge inside this process that takes events of any bus and notes them.

use afterwrite_mapping::http::service_response;
use afterwrite_model::Result;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::noting_server::{NotedRequest, NotedService, NotingServer};
use crate::signature;

/// An event that a bus took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BusEvent {
    /// The name or ARN of the bus.
    pub bus: String,
    /// Its source, `afterwrite.<model>` for events of Afterwrite.
    pub source: String,
    /// Its name.
    pub detail_type: String,
    /// Its contents, JSON.
    pub detail: String,
    /// Its time in epoch seconds, if it has one.
    pub time: Option<u64>,
}

/// A running EventBridge.
#[derive(Debug)]
pub struct EmbeddedEventBridge(NotingServer<Buses>);

impl EmbeddedEventBridge {
    /// Starts a server on a port of 127.0.0.1; 0 is any free one.
    ///
    /// # Errors
    /// `Configuration` if the port is in use.
    pub async fn start(port: u16) -> Result<Self> {
        NotingServer::start(port, Buses).await.map(Self)
    }

    /// From now on, requests must be signed with the credentials of the embedded services.
    pub fn require_signatures(&self) {
        self.0.require_signatures();
    }

    /// Throttles this many of the next requests; 0 ends it.
    pub fn busy_for(&self, requests: usize) {
        self.0.throttle(requests);
    }

    /// The server's URL: `http://127.0.0.1:<port>`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.0.endpoint()
    }

    /// Takes the events that arrived since the last call.
    #[must_use]
    pub fn take_events(&self) -> Vec<BusEvent> {
        self.0.take()
    }
}

#[derive(Debug)]
struct Buses;

impl NotedService for Buses {
    const NAME: &'static str = "embedded EventBridge";
    type Item = BusEvent;

    fn refuse() -> Response<Full<Bytes>> {
        error("UnrecognizedClientException", signature::REFUSAL)
    }

    fn take(&self, request: NotedRequest<'_, BusEvent>) -> (Vec<BusEvent>, Response<Full<Bytes>>) {
        let target = request.head.headers.get("x-amz-target").and_then(|target| target.to_str().ok());
        if target != Some("AWSEvents.PutEvents") {
            return (Vec::new(), error("UnsupportedOperation", "Only events can be put."));
        }
        if request.is_throttled {
            return (Vec::new(), error("ThrottlingException", "There are too many requests."));
        }
        let body: Value = serde_json::from_slice(request.body).unwrap_or_default();
        let entries = body.get("Entries").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let results: Vec<Value> =
            entries.iter().map(|_| json!({ "EventId": Uuid::new_v4().to_string() })).collect();
        let taken = json!({ "FailedEntryCount": 0, "Entries": results });
        (entries.iter().map(bus_event).collect(), response(StatusCode::OK, &taken))
    }
}

fn error(code: &str, message: &str) -> Response<Full<Bytes>> {
    response(StatusCode::BAD_REQUEST, &json!({ "__type": code, "message": message }))
}

fn bus_event(entry: &Value) -> BusEvent {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    BusEvent {
        bus: text("EventBusName"),
        source: text("Source"),
        detail_type: text("DetailType"),
        detail: text("Detail"),
        time: entry.get("Time").and_then(Value::as_u64),
    }
}

fn response(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    service_response(status, "application/x-amz-json-1.1", body.to_string())
}
