//! Lambda's side of a function: its Runtime API and its process.
//!
//! ```text
//! test ──invoke(event)──▶ RuntimeApi ◀──GET …/invocation/next────── FunctionProcess (the deployed binary)
//!      ◀─InvocationResult──          ◀──POST …/response or …/error──
//! ```
//!
//! As in Lambda, one process is served at a time, and it handles one invocation at a time.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Method, Request, Response, StatusCode};
use serde::Deserialize;
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot, watch};

use crate::loopback::{ConnectionClosed, HandlerResult, LoopbackServer};

const PREFIX: &str = "/2018-06-01/runtime/";
/// How long after its deadline an invocation may still end before it counts as timed out.
const GRACE: Duration = Duration::from_secs(30);
/// How often a process is polled for its end.
const EXIT_POLL: Duration = Duration::from_millis(5);

/// How an invocation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvocationResult {
    /// The function's response.
    Response(Bytes),
    /// The function failed the invocation, or reported that it cannot start.
    Error(FunctionError),
    /// The function did not respond by its deadline.
    TimedOut,
}

/// The error that a function reports when it fails.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct FunctionError {
    /// The error's type.
    #[serde(rename = "errorType", default)]
    pub kind: String,
    /// Its message.
    #[serde(rename = "errorMessage", default)]
    pub message: String,
}

/// A Runtime API on 127.0.0.1; dropping it closes it.
pub struct RuntimeApi {
    server: LoopbackServer,
    state: Arc<ApiState>,
    sender: mpsc::UnboundedSender<QueuedInvocation>,
}

struct ApiState {
    queue: AsyncMutex<mpsc::UnboundedReceiver<QueuedInvocation>>,
    /// The invocations that the function has received and not finished, by request id.
    running: Mutex<HashMap<String, oneshot::Sender<InvocationResult>>>,
    last_number: AtomicU64,
    /// When the function requested its first event.
    first_request: watch::Sender<Option<Instant>>,
    /// The error that the function reported when it could not start.
    start_error: watch::Sender<Option<FunctionError>>,
}

struct QueuedInvocation {
    event: Bytes,
    time: Duration,
    done: oneshot::Sender<InvocationResult>,
}

impl RuntimeApi {
    /// Starts a Runtime API for one function.
    ///
    /// # Errors
    /// No port of 127.0.0.1 can be bound.
    pub async fn start() -> io::Result<Self> {
        let (sender, queue) = mpsc::unbounded_channel();
        let state = Arc::new(ApiState {
            queue: AsyncMutex::new(queue),
            running: Mutex::default(),
            last_number: AtomicU64::new(1),
            first_request: watch::Sender::new(None),
            start_error: watch::Sender::new(None),
        });
        let serving = Arc::clone(&state);
        let server = LoopbackServer::serve(move |request| Arc::clone(&serving).respond(request)).await?;
        Ok(Self { server, state, sender })
    }

    /// The value of `AWS_LAMBDA_RUNTIME_API`.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Invokes the function, which has `time` to respond once it has received the event.
    pub async fn invoke(&self, event: impl Into<Bytes>, time: Duration) -> InvocationResult {
        let (done, result) = oneshot::channel();
        let mut start_error = self.state.start_error.subscribe();
        if self.sender.send(QueuedInvocation { event: event.into(), time, done }).is_err() {
            return InvocationResult::TimedOut;
        }
        tokio::select! {
            result = result => result.unwrap_or(InvocationResult::TimedOut),
            Ok(error) = start_error.wait_for(Option::is_some) => {
                error.clone().map_or(InvocationResult::TimedOut, InvocationResult::Error)
            }
            () = tokio::time::sleep(time + GRACE) => InvocationResult::TimedOut,
        }
    }

    /// Waits until the function requests its first event, and returns when that was.
    ///
    /// # Errors
    /// The function reported that it cannot start.
    pub async fn ready(&self) -> Result<Instant, FunctionError> {
        let mut first_request = self.state.first_request.subscribe();
        let mut start_error = self.state.start_error.subscribe();
        tokio::select! {
            Ok(at) = first_request.wait_for(Option::is_some) => Ok((*at).unwrap_or_else(Instant::now)),
            Ok(error) = start_error.wait_for(Option::is_some) => Err(error.clone().unwrap_or_else(|| parse_error(b""))),
        }
    }

    /// The error that the function reported when it could not start.
    #[must_use]
    pub fn start_error(&self) -> Option<FunctionError> {
        self.state.start_error.borrow().clone()
    }
}

impl ApiState {
    async fn respond(self: Arc<Self>, request: Request<Bytes>) -> HandlerResult {
        let path = request.uri().path().strip_prefix(PREFIX).unwrap_or_default();
        let steps: Vec<&str> = path.split('/').collect();
        match (request.method(), steps.as_slice()) {
            (&Method::GET, ["invocation", "next"]) => self.next().await,
            (&Method::POST, ["invocation", id, "response"]) => {
                Ok(self.finish(id, InvocationResult::Response(request.body().clone())))
            }
            (&Method::POST, ["invocation", id, "error"]) => {
                Ok(self.finish(id, InvocationResult::Error(parse_error(request.body()))))
            }
            (&Method::POST, ["init", "error"]) => {
                self.start_error.send_replace(Some(parse_error(request.body())));
                Ok(status(StatusCode::ACCEPTED))
            }
            _ => Ok(status(StatusCode::NOT_FOUND)),
        }
    }

    /// Waits for an invocation. If the function disconnects meanwhile, this is dropped at `recv` and no invocation is lost.
    async fn next(&self) -> HandlerResult {
        self.first_request.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert_with(Instant::now);
            is_first
        });
        let invocation = self.queue.lock().await.recv().await.ok_or(ConnectionClosed)?;
        let id = format!("00000000-0000-4000-8000-{:012}", self.last_number.fetch_add(1, Ordering::Relaxed));
        let deadline = SystemTime::now() + invocation.time;
        let deadline_ms = deadline.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let response = Response::builder()
            .header("content-type", "application/json")
            .header("lambda-runtime-aws-request-id", &id)
            .header("lambda-runtime-deadline-ms", deadline_ms.to_string())
            .header(
                "lambda-runtime-invoked-function-arn",
                "arn:aws:lambda:eu-west-1:123456789012:function:test",
            )
            .header("lambda-runtime-trace-id", "Root=1-00000000-000000000000000000000000;Sampled=0")
            .body(Full::new(invocation.event))
            .map_err(|_| ConnectionClosed)?;
        self.running.lock().unwrap_or_else(PoisonError::into_inner).insert(id, invocation.done);
        Ok(response)
    }

    /// Ends an invocation. Like Lambda, it refuses one that is unknown or has ended.
    fn finish(&self, id: &str, result: InvocationResult) -> Response<Full<Bytes>> {
        match self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(id) {
            Some(done) => {
                // Nobody waits for an invocation that has timed out.
                let _late = done.send(result);
                status(StatusCode::ACCEPTED)
            }
            None => status(StatusCode::BAD_REQUEST),
        }
    }
}

fn status(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(b"{}")));
    *response.status_mut() = status;
    response
}

/// The error in a function's report. The text of an unreadable report becomes the message.
fn parse_error(body: &[u8]) -> FunctionError {
    serde_json::from_slice(body).unwrap_or_else(|_| FunctionError {
        kind: "Unreadable".to_owned(),
        message: String::from_utf8_lossy(body).into_owned(),
    })
}

/// A running function process; dropping it kills it.
pub struct FunctionProcess {
    child: Child,
    started: Instant,
    outputs: [CapturedOutput; 2],
    readers: Vec<JoinHandle<()>>,
}

/// The output of a process to one of its two output streams so far.
type CapturedOutput = Arc<Mutex<Vec<u8>>>;

impl FunctionProcess {
    /// Starts the binary as Lambda does. Its environment holds what Lambda sets for every function and `environment`: a region or
    /// credentials only if they are in it.
    ///
    /// # Errors
    /// The binary cannot be started.
    pub fn start(binary: &Path, api: &RuntimeApi, environment: &[(&str, &str)]) -> io::Result<Self> {
        let mut command = Command::new(binary);
        command
            .env_clear()
            .env("AWS_LAMBDA_RUNTIME_API", api.address().to_string())
            .env("AWS_LAMBDA_FUNCTION_NAME", binary.file_stem().unwrap_or(OsStr::new("function")))
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "512")
            .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let started = Instant::now();
        let mut child = command.spawn()?;
        let outputs = [CapturedOutput::default(), CapturedOutput::default()];
        let [stdout, stderr] = outputs.clone();
        let mut readers = Vec::new();
        readers.extend(child.stdout.take().map(|stream| capture(stream, stdout)));
        readers.extend(child.stderr.take().map(|stream| capture(stream, stderr)));
        Ok(Self { child, started, outputs, readers })
    }

    /// When the process was started.
    #[must_use]
    pub fn started(&self) -> Instant {
        self.started
    }

    /// The process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The function's output so far: standard output, then standard error.
    #[must_use]
    pub fn output(&self) -> String {
        let text = |output: &CapturedOutput| {
            String::from_utf8_lossy(&output.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
        };
        self.outputs.iter().map(text).collect()
    }

    /// Ends the process and returns everything that it has written.
    #[must_use]
    pub fn stop(mut self) -> String {
        self.end();
        self.output()
    }

    fn end(&mut self) {
        // A process that has ended cannot be killed, but its status must be collected.
        let _gone = self.child.kill();
        let _status = self.child.wait();
        self.read_to_end();
    }

    fn read_to_end(&mut self) {
        for reader in self.readers.drain(..) {
            // A reader that panicked has no more output.
            let _ended = reader.join();
        }
    }

    /// Waits until the process has ended by itself and all its output is read; `None` if it still runs after `patience`.
    ///
    /// # Errors
    /// The operating system cannot return the status.
    pub async fn exited(&mut self, patience: Duration) -> io::Result<Option<ExitStatus>> {
        let give_up = Instant::now() + patience;
        loop {
            if let Some(status) = self.child.try_wait()? {
                self.read_to_end();
                return Ok(Some(status));
            }
            if Instant::now() >= give_up {
                return Ok(None);
            }
            tokio::time::sleep(EXIT_POLL).await;
        }
    }
}

impl Drop for FunctionProcess {
    fn drop(&mut self) {
        self.end();
    }
}

/// Reads a stream to its end in a separate thread.
fn capture(mut stream: impl Read + Send + 'static, output: CapturedOutput) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut chunk = [0; 8192];
        while let Ok(length @ 1..) = stream.read(&mut chunk) {
            let new = chunk.get(..length).unwrap_or_default();
            output.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(new);
        }
    })
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use hyper_util::client::legacy::Client;
    use hyper_util::rt::TokioExecutor;

    use super::*;

    const TIME: Duration = Duration::from_secs(60);

    /// Sends one of a function's requests.
    async fn call(api: &RuntimeApi, method: Method, path: &str, body: &'static str) -> (Response<()>, Bytes) {
        let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
        let uri = format!("http://{}{PREFIX}{path}", api.address());
        let request = Request::builder().method(method).uri(uri).body(Full::from(body)).unwrap();
        let (head, body) = client.request(request).await.unwrap().into_parts();
        (Response::from_parts(head, ()), body.collect().await.unwrap().to_bytes())
    }

    async fn next(api: &RuntimeApi) -> (String, Bytes) {
        let (head, event) = call(api, Method::GET, "invocation/next", "").await;
        (head.headers()["lambda-runtime-aws-request-id"].to_str().unwrap().to_owned(), event)
    }

    #[tokio::test]
    async fn an_invocation_receives_the_response_to_its_own_event() {
        let api = RuntimeApi::start().await.unwrap();
        for event in ["first", "second"] {
            let (result, ()) = tokio::join!(api.invoke(event, TIME), async {
                let (id, taken) = next(&api).await;
                assert_eq!(taken, event);
                let path = format!("invocation/{id}/response");
                assert_eq!(call(&api, Method::POST, &path, "done").await.0.status(), StatusCode::ACCEPTED);
                assert_eq!(
                    call(&api, Method::POST, &path, "again").await.0.status(),
                    StatusCode::BAD_REQUEST
                );
            });
            assert_eq!(result, InvocationResult::Response(Bytes::from("done")));
        }
        assert!(api.ready().await.is_ok());
    }

    #[tokio::test]
    async fn a_failed_invocation_reports_type_and_message() {
        let api = RuntimeApi::start().await.unwrap();
        let (result, ()) = tokio::join!(api.invoke("event", TIME), async {
            let (id, _) = next(&api).await;
            let report = r#"{"errorType":"Event","errorMessage":"not JSON"}"#;
            call(&api, Method::POST, &format!("invocation/{id}/error"), report).await;
        });
        let error = FunctionError { kind: "Event".to_owned(), message: "not JSON".to_owned() };
        assert_eq!(result, InvocationResult::Error(error));
    }

    #[tokio::test]
    async fn a_function_that_cannot_start_fails_the_waiting_invocation() {
        let api = RuntimeApi::start().await.unwrap();
        let (result, _) = tokio::join!(
            api.invoke("event", TIME),
            call(
                &api,
                Method::POST,
                "init/error",
                r#"{"errorType":"Configuration","errorMessage":"no table"}"#
            ),
        );
        let error = FunctionError { kind: "Configuration".to_owned(), message: "no table".to_owned() };
        assert_eq!(result, InvocationResult::Error(error.clone()));
        assert_eq!(api.ready().await, Err(error));
    }

    #[tokio::test]
    async fn the_output_of_a_process_is_captured_to_its_end() {
        let api = RuntimeApi::start().await.unwrap();
        let binary = std::env::current_exe().unwrap();
        // Any program that ends by itself: this test binary refuses this setting.
        let mut function = FunctionProcess::start(&binary, &api, &[("RUST_TEST_THREADS", "zero")]).unwrap();
        let status = function.exited(TIME).await.unwrap();
        assert!(!status.unwrap().success());
        assert!(function.output().contains("RUST_TEST_THREADS"), "{}", function.output());
    }
}
