//! Lambda's side of a function: its Runtime API, and the process that the function is.
//!
//! ```text
//! test ──invoke(event)──▶ RuntimeApi ◀──GET …/invocation/next────── Function (the deployed binary)
//!      ◀─InvocationResult──          ◀──POST …/response or …/error──
//! ```
//!
//! As in Lambda, one function process at a time is served and it handles one invocation at a time.

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
/// How long past its deadline an invocation may still be answered before it counts as timed out.
const GRACE: Duration = Duration::from_secs(30);
/// How often a process is asked whether it has ended.
const EXIT_POLL: Duration = Duration::from_millis(5);

/// How an invocation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvocationResult {
    /// The function's answer.
    Response(Bytes),
    /// The function failed the invocation, or reported that it cannot start.
    Error(FunctionError),
    /// The function did not answer by its deadline.
    TimedOut,
}

/// What a function reports when it fails.
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
    shared: Arc<Shared>,
    queue: mpsc::UnboundedSender<Invocation>,
}

struct Shared {
    waiting: AsyncMutex<mpsc::UnboundedReceiver<Invocation>>,
    running: Mutex<HashMap<String, oneshot::Sender<InvocationResult>>>,
    numbered: AtomicU64,
    asked: watch::Sender<Option<Instant>>,
    broken: watch::Sender<Option<FunctionError>>,
}

struct Invocation {
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
        let (queue, waiting) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            waiting: AsyncMutex::new(waiting),
            running: Mutex::default(),
            numbered: AtomicU64::new(1),
            asked: watch::Sender::new(None),
            broken: watch::Sender::new(None),
        });
        let serving = Arc::clone(&shared);
        let server = LoopbackServer::serve(move |request| Arc::clone(&serving).answer(request)).await?;
        Ok(Self { server, shared, queue })
    }

    /// What goes into `AWS_LAMBDA_RUNTIME_API`.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Hands an event to the function, which has `time` to answer from the moment it takes it.
    pub async fn invoke(&self, event: impl Into<Bytes>, time: Duration) -> InvocationResult {
        let (done, result) = oneshot::channel();
        let mut broken = self.shared.broken.subscribe();
        if self.queue.send(Invocation { event: event.into(), time, done }).is_err() {
            return InvocationResult::TimedOut;
        }
        tokio::select! {
            answered = result => answered.unwrap_or(InvocationResult::TimedOut),
            Ok(error) = broken.wait_for(Option::is_some) => {
                error.clone().map_or(InvocationResult::TimedOut, InvocationResult::Error)
            }
            () = tokio::time::sleep(time + GRACE) => InvocationResult::TimedOut,
        }
    }

    /// Waits until a function asks for its first event, and tells when that was.
    ///
    /// # Errors
    /// The function reported that it cannot start.
    pub async fn ready(&self) -> Result<Instant, FunctionError> {
        let (mut asked, mut broken) = (self.shared.asked.subscribe(), self.shared.broken.subscribe());
        tokio::select! {
            Ok(at) = asked.wait_for(Option::is_some) => Ok((*at).unwrap_or_else(Instant::now)),
            Ok(error) = broken.wait_for(Option::is_some) => Err(error.clone().unwrap_or_else(|| described(b""))),
        }
    }

    /// What the function said when it could not start, if it has said so.
    #[must_use]
    pub fn start_error(&self) -> Option<FunctionError> {
        self.shared.broken.borrow().clone()
    }
}

impl Shared {
    async fn answer(self: Arc<Self>, request: Request<Bytes>) -> HandlerResult {
        let path = request.uri().path().strip_prefix(PREFIX).unwrap_or_default();
        let steps: Vec<&str> = path.split('/').collect();
        match (request.method(), steps.as_slice()) {
            (&Method::GET, ["invocation", "next"]) => self.next().await,
            (&Method::POST, ["invocation", id, "response"]) => {
                Ok(self.finish(id, InvocationResult::Response(request.body().clone())))
            }
            (&Method::POST, ["invocation", id, "error"]) => {
                Ok(self.finish(id, InvocationResult::Error(described(request.body()))))
            }
            (&Method::POST, ["init", "error"]) => {
                self.broken.send_replace(Some(described(request.body())));
                Ok(status(StatusCode::ACCEPTED))
            }
            _ => Ok(status(StatusCode::NOT_FOUND)),
        }
    }

    /// Waits for an invocation. A function that goes away meanwhile takes none with it: this is then dropped at `recv`.
    async fn next(&self) -> HandlerResult {
        self.asked.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert_with(Instant::now);
            is_first
        });
        let invocation = self.waiting.lock().await.recv().await.ok_or(ConnectionClosed)?;
        let id = format!("00000000-0000-4000-8000-{:012}", self.numbered.fetch_add(1, Ordering::Relaxed));
        let deadline = SystemTime::now() + invocation.time;
        let deadline_ms = deadline.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let answer = Response::builder()
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
        Ok(answer)
    }

    /// Ends an invocation; one that is unknown, or ended already, is refused as Lambda does.
    fn finish(&self, id: &str, result: InvocationResult) -> Response<Full<Bytes>> {
        match self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(id) {
            Some(done) => {
                // Nobody waits any more for an invocation that timed out.
                let _late = done.send(result);
                status(StatusCode::ACCEPTED)
            }
            None => status(StatusCode::BAD_REQUEST),
        }
    }
}

fn status(status: StatusCode) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from_static(b"{}")));
    *answer.status_mut() = status;
    answer
}

/// The error that a function's report describes; a report that cannot be read is itself the message.
fn described(body: &[u8]) -> FunctionError {
    serde_json::from_slice(body).unwrap_or_else(|_| FunctionError {
        kind: "Unreadable".to_owned(),
        message: String::from_utf8_lossy(body).into_owned(),
    })
}

/// A running function process; dropping it kills it.
pub struct Function {
    child: Child,
    started: Instant,
    outputs: [Output; 2],
    readers: Vec<JoinHandle<()>>,
}

/// What one of a process's two output streams has brought so far.
type Output = Arc<Mutex<Vec<u8>>>;

impl Function {
    /// Starts the binary as Lambda would, with nothing in its environment but what Lambda sets for every function and
    /// `environment` (so a region or credentials only if they are in there).
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
        let outputs = [Output::default(), Output::default()];
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

    /// What the function has written so far: standard output, then standard error.
    #[must_use]
    pub fn output(&self) -> String {
        let text = |output: &Output| {
            String::from_utf8_lossy(&output.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
        };
        self.outputs.iter().map(text).collect()
    }

    /// Ends the process; gives all that it has written.
    #[must_use]
    pub fn stop(mut self) -> String {
        self.end();
        self.output()
    }

    fn end(&mut self) {
        // It may have ended already; then there is nothing to kill and only its status to take.
        let _gone = self.child.kill();
        let _status = self.child.wait();
        self.read_to_end();
    }

    fn read_to_end(&mut self) {
        for reader in self.readers.drain(..) {
            // A reader that panicked has nothing more to add.
            let _ended = reader.join();
        }
    }

    /// Waits until the process ends by itself and all its output has been read; none if it still runs after `patience`.
    ///
    /// # Errors
    /// The operating system does not tell.
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

impl Drop for Function {
    fn drop(&mut self) {
        self.end();
    }
}

/// Reads a stream to its end in a thread of its own.
fn capture(mut stream: impl Read + Send + 'static, output: Output) -> JoinHandle<()> {
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

    /// What a function does over the wire, reduced to its requests.
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
    async fn an_invocation_gets_the_answer_to_its_own_event() {
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
    async fn a_failed_invocation_tells_type_and_message() {
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
    async fn a_function_that_cannot_start_fails_what_waits_for_it() {
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
    async fn a_process_is_watched_to_its_end() {
        let api = RuntimeApi::start().await.unwrap();
        let binary = std::env::current_exe().unwrap();
        // Any program will do that ends by itself; this test binary lists its tests under this setting.
        let mut function = Function::start(&binary, &api, &[("RUST_TEST_THREADS", "nought")]).unwrap();
        let status = function.exited(TIME).await.unwrap();
        assert!(!status.unwrap().success());
        assert!(function.output().contains("RUST_TEST_THREADS"), "{}", function.output());
    }
}
