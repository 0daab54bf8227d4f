//! Transaction conflicts on demand: a proxy in front of the embedded DynamoDB, which never has any itself.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use afterwrite_mapping::FaultSwitch;
use afterwrite_mapping::http::HttpServer;
use afterwrite_model::Result;
use fastrand::Rng;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use serde_json::{Value, json};

use crate::proxy::{ProxyResponse, ReceivedRequest, UpstreamProxy, json_response, unavailable};
use crate::signature::SignatureCheck;

/// A running proxy.
#[derive(Debug)]
pub struct ConflictProxy {
    server: HttpServer,
    signatures: SignatureCheck,
}

struct ProxyState {
    proxy: UpstreamProxy,
    signatures: SignatureCheck,
    faults: FaultSwitch,
    random: Mutex<Rng>,
}

impl ConflictProxy {
    /// Starts a proxy in front of `upstream` (`http://host:port`) that cancels the share of transactions which the plan has at that time,
    /// before they take effect. The same plan cancels the same requests of a sequence.
    ///
    /// # Errors
    /// `Configuration` if there is no free port.
    pub async fn start(upstream: &str, faults: &FaultSwitch) -> Result<Self> {
        let signatures = SignatureCheck::default();
        let state = Arc::new(ProxyState {
            proxy: UpstreamProxy::new(upstream),
            signatures: signatures.clone(),
            faults: faults.clone(),
            random: Mutex::new(Rng::with_seed(faults.current().seed)),
        });
        let service = service_fn(move |request| {
            let state = Arc::clone(&state);
            async move { Ok::<_, Infallible>(state.respond(request).await) }
        });
        Ok(Self { server: HttpServer::start("proxy of the embedded DynamoDB", service).await?, signatures })
    }

    /// From now on, requests must be signed with the credentials of the embedded services.
    pub fn require_signatures(&self) {
        self.signatures.require();
    }

    /// The proxy's URL: `http://127.0.0.1:<port>`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.server.endpoint()
    }
}

impl ProxyState {
    async fn respond(&self, request: Request<Incoming>) -> ProxyResponse {
        let Some(request) = ReceivedRequest::receive(request).await else { return unavailable() };
        if let Some(refusal) = request.refusal(&self.signatures) {
            return refusal;
        }
        if request.operation() == "TransactWriteItems" && self.draws_conflict() {
            return conflict(&request.body);
        }
        self.proxy.forward(request).await
    }

    fn draws_conflict(&self) -> bool {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).f64() < self.faults.current().conflict
    }
}

/// A cancelled transaction, all of whose actions conflict.
fn conflict(body: &[u8]) -> ProxyResponse {
    let request: Value = serde_json::from_slice(body).unwrap_or_default();
    let actions = request.get("TransactItems").and_then(Value::as_array).map_or(0, Vec::len);
    let reason = json!({ "Code": "TransactionConflict", "Message": "Transaction is ongoing for the item" });
    let codes = vec!["TransactionConflict"; actions].join(", ");
    let cancelled = json!({
        "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
        "Message": format!(
            "Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]"
        ),
        "CancellationReasons": vec![reason; actions],
    });
    json_response(StatusCode::BAD_REQUEST, &cancelled)
}
