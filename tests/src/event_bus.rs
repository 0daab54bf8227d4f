//! A stand-in for an EventBridge bus that throttles while the test wants it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use hyper::{Request, StatusCode};
use serde_json::{Value, json};

use crate::loopback::{LoopbackServer, json_response};

/// The ARN of its bus.
pub const BUS: &str = "arn:aws:events:us-east-1:123456789012:event-bus/orders";

#[derive(Default)]
struct BusState {
    is_throttling: AtomicBool,
    entries: Mutex<Vec<Value>>,
}

/// The stand-in, which serves until it is dropped.
pub struct FakeBus {
    server: LoopbackServer,
    state: Arc<BusState>,
}

impl FakeBus {
    /// Starts the server.
    ///
    /// # Panics
    /// If no port is available.
    pub async fn start() -> Self {
        let state = Arc::<BusState>::default();
        let shared = Arc::clone(&state);
        let server = LoopbackServer::serve(move |request: Request<Bytes>| {
            let response = if shared.is_throttling.load(Ordering::Relaxed) {
                let error = json!({ "__type": "ThrottlingException", "message": "m" });
                json_response(StatusCode::BAD_REQUEST, &error)
            } else {
                let body: Value = serde_json::from_slice(request.body()).expect("JSON");
                let entries = body["Entries"].as_array().expect("entries").clone();
                let results: Vec<Value> = entries.iter().map(|_| json!({ "EventId": "e" })).collect();
                shared.entries.lock().expect("a state").extend(entries);
                json_response(StatusCode::OK, &json!({ "FailedEntryCount": 0, "Entries": results }))
            };
            async move { Ok(response) }
        });
        Self { server: server.await.expect("a port"), state }
    }

    /// From now on, refuses every request, or none.
    pub fn throttle(&self, is_throttling: bool) {
        self.state.is_throttling.store(is_throttling, Ordering::Relaxed);
    }

    /// The entries that it took.
    ///
    /// # Panics
    /// If another thread panicked.
    #[must_use]
    pub fn entries(&self) -> Vec<Value> {
        self.state.entries.lock().expect("a state").clone()
    }

    /// Its endpoint, `http://host:port`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.server.endpoint()
    }
}
