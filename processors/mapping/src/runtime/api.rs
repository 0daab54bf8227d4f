//! The server side of the Lambda Runtime API, for one process.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use afterwrite_model::Result;
use afterwrite_model::clock::{Clock as _, SystemClock};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::HeaderValue;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot, watch};
use uuid::Uuid;

use crate::http::{HttpServer, service_response};

const PREFIX: &str = "/2018-06-01/runtime/";
/// Lambda's limit for a response.
const MAX_RESPONSE_BYTES: usize = 6 * 1024 * 1024;

/// How an invocation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvocationEnd {
    /// The function's response.
    Response(Bytes),
    /// The function failed the invocation, or reported that it cannot start.
    Failed(ReportedError),
}

/// The error that a function reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ReportedError {
    /// The type of the error.
    #[serde(rename = "errorType", default)]
    pub kind: String,
    /// The message of the error.
    #[serde(rename = "errorMessage", default)]
    pub message: String,
}

/// How far the start of a process has come.
#[derive(Clone, Debug)]
enum FunctionStart {
    /// The process has requested nothing.
    Begun,
    /// The process has requested an event.
    Ready,
    /// The process reported that it cannot start.
    Failed(ReportedError),
}

/// The Runtime API of one process, on 127.0.0.1; dropping it closes it.
pub struct RuntimeApi {
    server: HttpServer,
    state: Arc<ApiState>,
    queue: mpsc::UnboundedSender<QueuedInvocation>,
}

struct QueuedInvocation {
    event: Bytes,
    remaining: Duration,
    done: oneshot::Sender<InvocationEnd>,
}

struct ApiState {
    function_arn: String,
    queue: AsyncMutex<mpsc::UnboundedReceiver<QueuedInvocation>>,
    /// The invocation that the function has received and not finished, with its request id.
    running: Mutex<Option<(String, oneshot::Sender<InvocationEnd>)>>,
    start: watch::Sender<FunctionStart>,
}

impl RuntimeApi {
    /// Starts the Runtime API for a process of the function with this ARN.
    ///
    /// # Errors
    /// No port of 127.0.0.1 can be bound.
    pub async fn start(function_arn: String) -> Result<Self> {
        let (sender, queue) = mpsc::unbounded_channel();
        let state = Arc::new(ApiState {
            function_arn,
            queue: AsyncMutex::new(queue),
            running: Mutex::default(),
            start: watch::Sender::new(FunctionStart::Begun),
        });
        let serving = Arc::clone(&state);
        let service = service_fn(move |request| {
            let state = Arc::clone(&serving);
            async move { Ok::<_, Infallible>(state.respond(request).await) }
        });
        Ok(Self { server: HttpServer::start("Runtime API", service).await?, state, queue: sender })
    }

    /// The value of `AWS_LAMBDA_RUNTIME_API`.
    #[must_use]
    pub fn address(&self) -> String {
        self.server.address().to_string()
    }

    /// Passes an event to the process. The receiver ends without a value if the process is gone.
    pub fn invoke(&self, event: impl Into<Bytes>, remaining: Duration) -> oneshot::Receiver<InvocationEnd> {
        let (done, end) = oneshot::channel();
        // If the server is gone, `done` is dropped, and the receiver ends.
        let _ = self.queue.send(QueuedInvocation { event: event.into(), remaining, done });
        end
    }

    /// Waits until the process requests its first event.
    ///
    /// # Errors
    /// The process reported that it cannot start.
    pub async fn ready(&self) -> std::result::Result<(), ReportedError> {
        let mut start = self.state.start.subscribe();
        let start = start.wait_for(|start| !matches!(start, FunctionStart::Begun)).await;
        match start.as_deref() {
            Ok(FunctionStart::Failed(error)) => Err(error.clone()),
            Ok(FunctionStart::Begun | FunctionStart::Ready) | Err(_) => Ok(()),
        }
    }

    /// The error that the process reported when it could not start.
    #[must_use]
    pub fn start_error(&self) -> Option<ReportedError> {
        self.state.start_error()
    }
}

impl ApiState {
    async fn respond(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let path = head.uri.path().strip_prefix(PREFIX).unwrap_or_default().to_owned();
        let steps: Vec<&str> = path.split('/').collect();
        if (&head.method, steps.as_slice()) == (&Method::GET, &["invocation", "next"]) {
            return self.next().await;
        }
        let Ok(body) = body.collect().await.map(|body| body.to_bytes()) else {
            return refusal(StatusCode::BAD_REQUEST, "InvalidRequest", "The body is incomplete.");
        };
        match (&head.method, steps.as_slice()) {
            (&Method::POST, ["invocation", id, "response"]) if body.len() > MAX_RESPONSE_BYTES => {
                let too_large = ReportedError {
                    kind: "Function.ResponseSizeTooLarge".to_owned(),
                    message: format!("the response has {} bytes; Lambda's limit is 6 MB", body.len()),
                };
                self.finish(id, InvocationEnd::Failed(too_large));
                refusal(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", "The response exceeds 6 MB.")
            }
            (&Method::POST, ["invocation", id, "response"]) => self.finish(id, InvocationEnd::Response(body)),
            (&Method::POST, ["invocation", id, "error"]) => {
                self.finish(id, InvocationEnd::Failed(reported_error(&body)))
            }
            (&Method::POST, ["init", "error"]) => self.fail_start(reported_error(&body)),
            _ => refusal(StatusCode::NOT_FOUND, "InvalidRequest", "This is not a path of the Runtime API."),
        }
    }

    /// Waits for an invocation. If the function disconnects meanwhile, this is dropped at `recv` and no invocation is lost.
    async fn next(&self) -> Response<Full<Bytes>> {
        self.start.send_if_modified(|start| {
            let is_first = matches!(start, FunctionStart::Begun);
            if is_first {
                *start = FunctionStart::Ready;
            }
            is_first
        });
        let Some(invocation) = self.queue.lock().await.recv().await else {
            return refusal(StatusCode::INTERNAL_SERVER_ERROR, "ContainerError", "The mapping has ended.");
        };
        if let Some(error) = self.start_error() {
            let _ = invocation.done.send(InvocationEnd::Failed(error));
            return refusal(
                StatusCode::INTERNAL_SERVER_ERROR,
                "ContainerError",
                "The function did not start.",
            );
        }
        let id = Uuid::new_v4().to_string();
        let deadline = SystemClock.now().plus(invocation.remaining).epoch_ms();
        let mut response = Response::new(Full::new(invocation.event));
        for (name, value) in [
            ("content-type", "application/json".to_owned()),
            ("lambda-runtime-aws-request-id", id.clone()),
            ("lambda-runtime-deadline-ms", deadline.to_string()),
            ("lambda-runtime-invoked-function-arn", self.function_arn.clone()),
            ("lambda-runtime-trace-id", trace_id()),
        ] {
            if let Ok(value) = HeaderValue::from_str(&value) {
                response.headers_mut().insert(name, value);
            }
        }
        *lock(&self.running) = Some((id, invocation.done));
        response
    }

    /// Ends an invocation. As Lambda does, it refuses an invocation that is unknown or has ended.
    fn finish(&self, id: &str, end: InvocationEnd) -> Response<Full<Bytes>> {
        match lock(&self.running).take_if(|(running, _)| running == id) {
            Some((_, done)) => {
                // Nobody waits for an invocation that has timed out.
                let _ = done.send(end);
                accepted()
            }
            None => refusal(StatusCode::BAD_REQUEST, "InvalidRequestID", "Invalid request ID"),
        }
    }

    /// The function cannot start: the invocation that waits for it fails.
    fn fail_start(&self, error: ReportedError) -> Response<Full<Bytes>> {
        if let Ok(mut queue) = self.queue.try_lock() {
            while let Ok(invocation) = queue.try_recv() {
                let _ = invocation.done.send(InvocationEnd::Failed(error.clone()));
            }
        }
        self.start.send_replace(FunctionStart::Failed(error));
        accepted()
    }

    fn start_error(&self) -> Option<ReportedError> {
        match &*self.start.borrow() {
            FunctionStart::Failed(error) => Some(error.clone()),
            FunctionStart::Begun | FunctionStart::Ready => None,
        }
    }
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A trace that is not sampled.
fn trace_id() -> String {
    let random = Uuid::new_v4().simple().to_string();
    let (time, root) = random.split_at(8);
    format!("Root=1-{time}-{root};Parent={};Sampled=0", root.get(..16).unwrap_or(root))
}

/// The error in a function's report. The text of an unreadable report becomes the message.
fn reported_error(body: &[u8]) -> ReportedError {
    serde_json::from_slice(body).unwrap_or_else(|_| ReportedError {
        kind: "Unreadable".to_owned(),
        message: String::from_utf8_lossy(body).into_owned(),
    })
}

fn accepted() -> Response<Full<Bytes>> {
    json_response(StatusCode::ACCEPTED, &json!({ "status": "OK" }))
}

fn refusal(status: StatusCode, kind: &str, message: &str) -> Response<Full<Bytes>> {
    json_response(status, &json!({ "errorType": kind, "errorMessage": message }))
}

fn json_response(status: StatusCode, body: &serde_json::Value) -> Response<Full<Bytes>> {
    service_response(status, "application/json", body.to_string())
}
