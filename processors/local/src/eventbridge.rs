//! An EventBridge inside this process that takes events of any bus and remembers them.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use afterwrite_mapping::http::{HttpServer, service_response};
use afterwrite_model::Result;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::signature::{self, SignatureCheck};

/// Events that are remembered.
const MAX_EVENTS: usize = 10_000;

/// An event that a bus took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusEvent {
    /// Its source, `afterwrite.<model>` for events of Afterwrite.
    pub source: String,
    /// Its name.
    pub detail_type: String,
    /// Its contents, JSON.
    pub detail: String,
}

/// A running EventBridge.
#[derive(Debug)]
pub struct EmbeddedEventBridge {
    server: HttpServer,
    signatures: SignatureCheck,
    events: Arc<Mutex<Vec<BusEvent>>>,
}

impl EmbeddedEventBridge {
    /// Starts a server on a port of 127.0.0.1; 0 is any free one.
    ///
    /// # Errors
    /// `Configuration` if the port is in use.
    pub async fn start(port: u16) -> Result<Self> {
        let events = Arc::new(Mutex::new(Vec::new()));
        let (noted, signatures) = (Arc::clone(&events), SignatureCheck::default());
        let checked = signatures.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let (noted, checked) = (Arc::clone(&noted), checked.clone());
            async move { Ok::<_, Infallible>(respond(request, &checked, &noted).await) }
        });
        let server = HttpServer::start_at("embedded EventBridge", port, service).await?;
        Ok(Self { server, signatures, events })
    }

    /// From now on, requests must be signed with the credentials of the embedded services.
    pub fn require_signatures(&self) {
        self.signatures.require();
    }

    /// The server's URL: `http://127.0.0.1:<port>`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.server.endpoint()
    }

    /// Takes the events that arrived since the last call.
    #[must_use]
    pub fn take_events(&self) -> Vec<BusEvent> {
        std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn respond(
    request: Request<Incoming>,
    signatures: &SignatureCheck,
    noted: &Mutex<Vec<BusEvent>>,
) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    if !signatures.accepts(&head, &body) {
        return response(
            StatusCode::BAD_REQUEST,
            &json!({ "__type": "UnrecognizedClientException", "message": signature::REFUSAL }),
        );
    }
    let target = head.headers.get("x-amz-target").and_then(|target| target.to_str().ok());
    if target != Some("AWSEvents.PutEvents") {
        let message = "Only events can be put.";
        let error = json!({ "__type": "UnsupportedOperation", "message": message });
        return response(StatusCode::BAD_REQUEST, &error);
    }
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let entries = body.get("Entries").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
    let room = MAX_EVENTS.saturating_sub(noted.len());
    noted.extend(entries.iter().take(room).map(bus_event));
    let results: Vec<Value> =
        entries.iter().map(|_| json!({ "EventId": Uuid::new_v4().to_string() })).collect();
    response(StatusCode::OK, &json!({ "FailedEntryCount": 0, "Entries": results }))
}

fn bus_event(entry: &Value) -> BusEvent {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    BusEvent { source: text("Source"), detail_type: text("DetailType"), detail: text("Detail") }
}

fn response(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    service_response(status, "application/x-amz-json-1.1", body.to_string())
}
