//! A proxy in front of the stand-ins for AWS that records the calls of each function, and injects faults.
//!
//! Each function has an endpoint of its own, so that its calls are known as its own; the service is that of the request's signature.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, StatusCode};
use serde_json::json;

use crate::aws_call::{AccountScope, AwsCall, RecordedRequest};
use crate::loopback::{HandlerResult, LoopbackServer, json_response};
use crate::upstream::UpstreamEndpoint;

/// The treatment of requests that a fault concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFault {
    /// No response ever.
    Stalled,
    /// Status 500.
    Unavailable,
    /// The caller has no permission.
    Denied,
    /// A transaction is cancelled, because another one writes the same item.
    Conflict,
    /// The item would be too large.
    TooLarge,
}

/// Which requests get a fault.
#[derive(Clone, Debug)]
pub struct FaultRule {
    /// The caller.
    pub principal: String,
    /// The beginning of the action, such as `s3:` or `dynamodb:Transact`; a transaction has its own name here.
    pub action: &'static str,
    /// A part of the resources' ARNs; empty for all.
    pub resource: String,
    /// The fault.
    pub fault: CallFault,
}

/// Records calls; see the module.
pub struct CallRecorder {
    shared: Arc<RecorderState>,
    servers: BTreeMap<String, LoopbackServer>,
}

struct RecorderState {
    scope: AccountScope,
    upstreams: Mutex<BTreeMap<&'static str, Arc<UpstreamEndpoint>>>,
    calls: Mutex<BTreeSet<AwsCall>>,
    rules: Mutex<Vec<FaultRule>>,
}

impl CallRecorder {
    /// Starts an endpoint for each of `principals`.
    ///
    /// # Errors
    /// No port of 127.0.0.1 can be bound.
    pub async fn start(scope: AccountScope, principals: &[&str]) -> io::Result<Self> {
        let shared = Arc::new(RecorderState {
            scope,
            upstreams: Mutex::default(),
            calls: Mutex::default(),
            rules: Mutex::default(),
        });
        let mut servers = BTreeMap::new();
        for principal in principals {
            let (name, state) = (Arc::<str>::from(*principal), Arc::clone(&shared));
            let serve = move |request| Arc::clone(&state).respond(Arc::clone(&name), request);
            servers.insert((*principal).to_owned(), LoopbackServer::serve(serve).await?);
        }
        Ok(Self { shared, servers })
    }

    /// Forwards the requests of a service, such as `dynamodb`, to this endpoint.
    pub fn serve(&self, service: &'static str, endpoint: &str) {
        lock(&self.shared.upstreams).insert(service, Arc::new(UpstreamEndpoint::new(endpoint)));
    }

    /// The endpoint of all services for a caller.
    ///
    /// # Panics
    /// If it is not one of the principals.
    #[must_use]
    pub fn endpoint(&self, principal: &str) -> String {
        let server = self.servers.get(principal).unwrap_or_else(|| panic!("{principal} has no endpoint"));
        format!("http://{}", server.address())
    }

    /// Adds a call that a service of AWS makes on behalf of a principal, and that no request represents here.
    pub fn note(&self, principal: &str, action: &str, resource: String) {
        let (principal, action) = (principal.to_owned(), action.to_owned());
        lock(&self.shared.calls).insert(AwsCall {
            principal,
            action,
            resource,
            leading_keys: BTreeSet::new(),
        });
    }

    /// Sets the faults of the next requests.
    pub fn set_faults(&self, rules: Vec<FaultRule>) {
        *lock(&self.shared.rules) = rules;
    }

    /// All calls so far, each once.
    #[must_use]
    pub fn calls(&self) -> BTreeSet<AwsCall> {
        lock(&self.shared.calls).clone()
    }
}

impl RecorderState {
    async fn respond(self: Arc<Self>, principal: Arc<str>, request: Request<Bytes>) -> HandlerResult {
        let (head, body) = request.into_parts();
        let recorded = RecordedRequest { principal: &principal, head: &head, body: &body };
        let service = recorded.service().to_owned();
        if let Some(fault) = self.fault_of(&recorded) {
            return faulty(fault, &recorded).await;
        }
        let upstream = lock(&self.upstreams).get(service.as_str()).cloned();
        let upstream =
            upstream.unwrap_or_else(|| panic!("{principal} calls {service}, which is not deployed"));
        let response = upstream.forward(Request::from_parts(head.clone(), body.clone())).await?;
        let recorded = RecordedRequest { principal: &principal, head: &head, body: &body };
        lock(&self.calls).extend(recorded.calls(&self.scope, response.status()));
        Ok(response)
    }

    fn fault_of(&self, request: &RecordedRequest<'_>) -> Option<CallFault> {
        let rules = lock(&self.rules);
        // Functions read secrets when they start, and a fault concerns functions that have started.
        if rules.is_empty() || request.service() == "secretsmanager" {
            return None;
        }
        let calls = request.calls(&self.scope, StatusCode::OK);
        let operation = format!("{}:{}", request.service(), request.operation());
        let concerns = |rule: &&FaultRule| {
            rule.principal == request.principal
                && calls.iter().any(|call| {
                    let is_action =
                        call.action.starts_with(rule.action) || operation.starts_with(rule.action);
                    is_action && call.resource.contains(&rule.resource)
                })
        };
        rules.iter().find(concerns).map(|rule| rule.fault)
    }
}

async fn faulty(fault: CallFault, request: &RecordedRequest<'_>) -> HandlerResult {
    match fault {
        CallFault::Stalled => std::future::pending().await,
        CallFault::Unavailable => {
            Ok(json_response(StatusCode::INTERNAL_SERVER_ERROR, &json!({ "__type": "InternalServerError" })))
        }
        CallFault::Denied => Ok(json_response(
            StatusCode::BAD_REQUEST,
            &json!({ "__type": "AccessDeniedException", "message": "denied" }),
        )),
        CallFault::Conflict => Ok(conflict(request.body)),
        CallFault::TooLarge => {
            let message = "Item size to update has exceeded the maximum allowed size";
            let kind = "com.amazon.coral.validate#ValidationException";
            Ok(json_response(StatusCode::BAD_REQUEST, &json!({ "__type": kind, "message": message })))
        }
    }
}

fn conflict(body: &[u8]) -> Response<Full<Bytes>> {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let actions = body["TransactItems"].as_array().map_or(0, Vec::len);
    let reason = json!({ "Code": "TransactionConflict", "Message": "Transaction is ongoing for the item" });
    json_response(
        StatusCode::BAD_REQUEST,
        &json!({
            "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
            "Message": "Transaction cancelled, please refer cancellation reasons for specific reasons [TransactionConflict]",
            "CancellationReasons": vec![reason; actions],
        }),
    )
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
