//! A stand-in for `SendMessageBatch` of SQS that keeps messages and refuses those that the test chooses.

use std::sync::{Arc, Mutex};

use afterwrite_services::sqs::SqsQueue;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, StatusCode};
use serde_json::{Value, json};

use crate::loopback::{LoopbackServer, json_response};

/// The path of the stand-in's queue in its URL.
const QUEUE: &str = "/123456789012/stale-paths";

#[derive(Default)]
struct QueueState {
    messages: Vec<String>,
    /// Messages of the next requests to refuse, by index in their request.
    refused: Vec<Vec<usize>>,
}

/// The stand-in, which serves until it is dropped.
pub struct FakeSqs {
    server: LoopbackServer,
    state: Arc<Mutex<QueueState>>,
}

impl FakeSqs {
    /// Starts the server.
    ///
    /// # Panics
    /// If no port is available.
    pub async fn start() -> Self {
        let state = Arc::new(Mutex::new(QueueState::default()));
        let shared = Arc::clone(&state);
        let server = LoopbackServer::serve(move |request: Request<Bytes>| {
            let response = respond(&mut shared.lock().expect("a state"), &request);
            async move { Ok(response) }
        });
        Self { server: server.await.expect("a port"), state }
    }

    /// Refuses these messages of the next request (by index) as an internal error; the others are taken.
    ///
    /// # Panics
    /// If another thread panicked.
    pub fn refuse_once(&self, messages: &[usize]) {
        self.state.lock().expect("a state").refused.push(messages.to_vec());
    }

    /// The messages so far.
    ///
    /// # Panics
    /// If another thread panicked.
    #[must_use]
    pub fn messages(&self) -> Vec<String> {
        self.state.lock().expect("a state").messages.clone()
    }

    /// Its endpoint, `http://host:port`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.server.endpoint()
    }

    /// The URL of its queue.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}{QUEUE}", self.endpoint())
    }

    /// Its queue.
    #[must_use]
    pub fn queue(&self) -> SqsQueue {
        SqsQueue::new(&client(&self.endpoint()), Arc::from(self.url()))
    }

    /// The event in which Lambda delivers these messages.
    #[must_use]
    pub fn event(messages: &[String]) -> String {
        let record = |(index, body)| json!({ "messageId": format!("m{index}"), "body": body, "eventSource": "aws:sqs" });
        let records: Vec<Value> = messages.iter().enumerate().map(record).collect();
        json!({ "Records": records }).to_string()
    }
}

/// A client of an endpoint.
#[must_use]
pub fn client(endpoint: &str) -> Client {
    let configuration = aws_sdk_sqs::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(afterwrite_services::http_client())
        .region(Region::from_static("us-east-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .endpoint_url(endpoint);
    Client::from_conf(configuration.build())
}

fn respond(state: &mut QueueState, request: &Request<Bytes>) -> Response<Full<Bytes>> {
    let body: Value = serde_json::from_slice(request.body()).expect("JSON");
    if !body["QueueUrl"].as_str().is_some_and(|url| url.ends_with(QUEUE)) {
        let error = json!({ "__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "m" });
        return json_response(StatusCode::BAD_REQUEST, &error);
    }
    let refused = if state.refused.is_empty() { Vec::new() } else { state.refused.remove(0) };
    let (mut successful, mut failed) = (Vec::new(), Vec::new());
    for (index, entry) in body["Entries"].as_array().expect("entries").iter().enumerate() {
        if refused.contains(&index) {
            failed.push(json!({ "Id": entry["Id"], "Code": "InternalError", "SenderFault": false }));
        } else {
            state.messages.push(entry["MessageBody"].as_str().expect("a body").to_owned());
            successful.push(json!({ "Id": entry["Id"], "MessageId": "m", "MD5OfMessageBody": "d" }));
        }
    }
    json_response(StatusCode::OK, &json!({ "Successful": successful, "Failed": failed }))
}
