//! SQS queues inside this process. AWS SDK clients send to them over loopback HTTP; [`EmbeddedSqs::receive`] takes messages as an event
//! source mapping does.
//!
//! Only `SendMessage` and `SendMessageBatch` are served: a mapping is the only reader.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use afterwrite_mapping::http::{HttpServer, service_response};
use afterwrite_model::Result;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::signature::{self, SignatureCheck};

/// The account of the queues' URLs.
const ACCOUNT: &str = "000000000000";

/// A message of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueMessage {
    /// Its id.
    pub id: String,
    /// Its body.
    pub body: String,
    /// How often it has been received.
    pub receives: u32,
}

impl QueueMessage {
    /// The event in which Lambda delivers messages of the queue with this ARN.
    #[must_use]
    pub fn event(queue_arn: &str, messages: &[Self]) -> Value {
        let record = |message: &Self| {
            json!({
                "messageId": message.id,
                "receiptHandle": message.id,
                "body": message.body,
                "attributes": { "ApproximateReceiveCount": message.receives.to_string() },
                "messageAttributes": {},
                "eventSource": "aws:sqs",
                "eventSourceARN": queue_arn,
                "awsRegion": "us-east-1",
            })
        };
        json!({ "Records": messages.iter().map(record).collect::<Vec<_>>() })
    }
}

/// Running queues.
#[derive(Clone, Debug)]
pub struct EmbeddedSqs {
    server: Arc<HttpServer>,
    queues: Arc<QueueSet>,
}

#[derive(Debug, Default)]
struct QueueSet {
    signatures: SignatureCheck,
    messages: Mutex<BTreeMap<String, VecDeque<QueueMessage>>>,
    arrived: Notify,
}

impl EmbeddedSqs {
    /// Starts a server with these queues on a port of 127.0.0.1; 0 is any free one.
    ///
    /// # Errors
    /// `Configuration` if the port is in use.
    pub async fn start(port: u16, names: &[&str]) -> Result<Self> {
        let queues = Arc::new(QueueSet::default());
        queues.lock().extend(names.iter().map(|name| ((*name).to_owned(), VecDeque::new())));
        let serving = Arc::clone(&queues);
        let service = service_fn(move |request| {
            let queues = Arc::clone(&serving);
            async move { Ok::<_, Infallible>(queues.respond(request).await) }
        });
        let server = Arc::new(HttpServer::start_at("embedded queues", port, service).await?);
        Ok(Self { server, queues })
    }

    /// The server's URL: `http://127.0.0.1:<port>`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.server.endpoint()
    }

    /// From now on, requests must be signed with the credentials of the embedded services.
    pub fn require_signatures(&self) {
        self.queues.signatures.require();
    }

    /// The URL of a queue.
    #[must_use]
    pub fn url(&self, name: &str) -> String {
        format!("{}/{ACCOUNT}/{name}", self.endpoint())
    }

    /// Sends a message; a queue that does not exist takes none.
    pub fn send(&self, name: &str, body: String) {
        self.queues.send(name, body);
    }

    /// Takes up to `most` messages; waits until there is one.
    pub async fn receive(&self, name: &str, most: usize) -> Vec<QueueMessage> {
        loop {
            let arrived = self.queues.arrived.notified();
            if let Some(queue) = self.queues.lock().get_mut(name).filter(|queue| !queue.is_empty()) {
                let taken = queue.drain(..most.min(queue.len()));
                return taken
                    .map(|message| QueueMessage { receives: message.receives + 1, ..message })
                    .collect();
            }
            arrived.await;
        }
    }

    /// Makes a received message visible again.
    pub fn put_back(&self, name: &str, message: QueueMessage) {
        if let Some(queue) = self.queues.lock().get_mut(name) {
            queue.push_back(message);
        }
        self.queues.arrived.notify_waiters();
    }
}

impl QueueSet {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, VecDeque<QueueMessage>>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The id of the message; `None` if there is no such queue.
    fn send(&self, name: &str, body: String) -> Option<String> {
        let id = Uuid::new_v4().to_string();
        self.lock().get_mut(name)?.push_back(QueueMessage { id: id.clone(), body, receives: 0 });
        self.arrived.notify_waiters();
        Some(id)
    }

    async fn respond(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let target = head.headers.get("x-amz-target").and_then(|target| target.to_str().ok());
        let operation = target.unwrap_or_default().trim_start_matches("AmazonSQS.").to_owned();
        let body = match body.collect().await.map(|body| body.to_bytes()) {
            Ok(body) if !self.signatures.accepts(&head, &body) => {
                return error("com.amazonaws.sqs#UnrecognizedClientException", signature::REFUSAL);
            }
            Ok(body) => serde_json::from_slice::<Value>(&body).unwrap_or_default(),
            Err(_) => Value::Null,
        };
        let url = body.get("QueueUrl").and_then(Value::as_str).unwrap_or_default();
        let name = url.rsplit('/').next().unwrap_or_default();
        let sent = match operation.as_str() {
            "SendMessage" => self.take(name, &body).map(|id| json!({ "MessageId": id })),
            "SendMessageBatch" => {
                let entries = body.get("Entries").and_then(Value::as_array).cloned().unwrap_or_default();
                let results = entries.iter().map(|entry| {
                    let id = self.take(name, entry)?;
                    Some(json!({ "Id": entry.get("Id"), "MessageId": id, "MD5OfMessageBody": "" }))
                });
                let successful: Option<Vec<Value>> = results.collect();
                successful.map(|successful| json!({ "Successful": successful, "Failed": [] }))
            }
            _ => return error("com.amazonaws.sqs#UnsupportedOperation", "Only messages can be sent."),
        };
        sent.map_or_else(
            || error("com.amazonaws.sqs#QueueDoesNotExist", "The queue does not exist."),
            |sent| response(StatusCode::OK, &sent),
        )
    }

    fn take(&self, name: &str, message: &Value) -> Option<String> {
        let body = message.get("MessageBody").and_then(Value::as_str).unwrap_or_default();
        self.send(name, body.to_owned())
    }
}

fn error(kind: &str, message: &str) -> Response<Full<Bytes>> {
    response(StatusCode::BAD_REQUEST, &json!({ "__type": kind, "message": message }))
}

/// Without a checksum of the message: clients verify it only if there is one.
fn response(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    service_response(status, "application/x-amz-json-1.0", body.to_string())
}
