//! Lambda's side of a function: its Runtime API and its process.
//!
//! ```text
//! test ──invoke(event)──▶ RuntimeApi ◀──GET …/invocation/next────── FunctionProcess (the deployed binary)
//!      ◀─InvocationResult──          ◀──POST …/response or …/error──
//! ```
//!
//! As in Lambda, one process is served at a time, and it handles one invocation at a time.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use afterwrite_mapping::runtime::{InvocationEnd, ReportedError, RuntimeApi as MappingApi};
use afterwrite_model::Result;
use bytes::Bytes;

const FUNCTION: &str = "arn:aws:lambda:eu-west-1:123456789012:function:test";
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
    Error(ReportedError),
    /// The function did not respond by its deadline.
    TimedOut,
}

/// The Runtime API of the mapping, with a time limit for each invocation.
pub struct RuntimeApi {
    api: MappingApi,
}

impl RuntimeApi {
    /// Starts a Runtime API for one function.
    ///
    /// # Errors
    /// No port of 127.0.0.1 can be bound.
    pub async fn start() -> Result<Self> {
        Ok(Self { api: MappingApi::start(FUNCTION.to_owned()).await? })
    }

    /// Invokes the function, which has `time` to respond once it has received the event.
    pub async fn invoke(&self, event: impl Into<Bytes>, time: Duration) -> InvocationResult {
        let end = self.api.invoke(event, time);
        let cannot_start = async {
            match self.api.ready().await {
                Ok(()) => std::future::pending().await,
                Err(error) => InvocationResult::Error(error),
            }
        };
        tokio::select! {
            end = end => match end {
                Ok(InvocationEnd::Response(response)) => InvocationResult::Response(response),
                Ok(InvocationEnd::Failed(error)) => InvocationResult::Error(error),
                Err(_) => InvocationResult::TimedOut,
            },
            error = cannot_start => error,
            () = tokio::time::sleep(time + GRACE) => InvocationResult::TimedOut,
        }
    }

    /// Waits until the function requests its first event, and returns when that was.
    ///
    /// # Errors
    /// The function reported that it cannot start.
    pub async fn ready(&self) -> std::result::Result<Instant, ReportedError> {
        self.api.ready().await.map(|()| Instant::now())
    }

    /// The error that the function reported when it could not start.
    #[must_use]
    pub fn start_error(&self) -> Option<ReportedError> {
        self.api.start_error()
    }
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
            .env("AWS_LAMBDA_RUNTIME_API", api.api.address())
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
    use http_body_util::{BodyExt as _, Full};
    use hyper::{Method, Request, Response, StatusCode};
    use hyper_util::client::legacy::Client;
    use hyper_util::rt::TokioExecutor;

    use super::*;

    const PREFIX: &str = "/2018-06-01/runtime/";
    const TIME: Duration = Duration::from_secs(60);

    /// Sends one of a function's requests.
    async fn call(api: &RuntimeApi, method: Method, path: &str, body: &'static str) -> (Response<()>, Bytes) {
        let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
        let uri = format!("http://{}{PREFIX}{path}", api.api.address());
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
        let error = ReportedError { kind: "Event".to_owned(), message: "not JSON".to_owned() };
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
        let error = ReportedError { kind: "Configuration".to_owned(), message: "no table".to_owned() };
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
