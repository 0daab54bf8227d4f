//! SQS queues inside this process. AWS SDK clients send to them over loopback HTTP; [`EmbeddedSqs::receive`] takes messages as an event
//! source mapping does, and clients with `ReceiveMessage`.
//!
//! `SendMessage`, `SendMessageBatch`, `ReceiveMessage`, `DeleteMessage` and `DeleteMessageBatch` are served, for standard queues.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use afterwrite_mapping::http::{HttpServer, service_response};
use afterwrite_model::Result;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use md5::{Digest as _, Md5};
use serde_json::{Value, json};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::signature::{self, SignatureCheck};

/// The account of the queues' URLs.
const ACCOUNT: &str = "000000000000";
/// How long a received message is hidden from other readers.
const VISIBILITY_TIMEOUT: Duration = Duration::from_secs(30);

/// A message of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueMessage {
    /// Its id.
    pub id: String,
    /// Its body.
    pub body: String,
    /// Its attributes, as they were sent.
    pub attributes: Value,
    /// How often it has been received.
    pub receives: u32,
}

/// A message that a client has received and not deleted yet.
#[derive(Debug)]
struct ReceivedMessage {
    queue: String,
    message: QueueMessage,
    /// When it is visible again.
    visible_at: Instant,
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
    received: Mutex<Vec<ReceivedMessage>>,
    /// The messages of the next batch to refuse, by their indexes.
    refused: Mutex<Vec<usize>>,
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

    /// Refuses the messages with these indexes of the next `SendMessageBatch` as an internal error.
    pub fn refuse_once(&self, messages: &[usize]) {
        *self.queues.refused.lock().unwrap_or_else(PoisonError::into_inner) = messages.to_vec();
    }

    /// The bodies of the messages that wait in a queue.
    #[must_use]
    pub fn bodies(&self, name: &str) -> Vec<String> {
        let queues = self.queues.lock();
        queues.get(name).into_iter().flatten().map(|message| message.body.clone()).collect()
    }

    /// Sends a message; a queue that does not exist takes none.
    pub fn send(&self, name: &str, body: String) {
        self.queues.send(name, body, Value::Null);
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
    fn send(&self, name: &str, body: String, attributes: Value) -> Option<String> {
        let id = Uuid::new_v4().to_string();
        let message = QueueMessage { id: id.clone(), body, attributes, receives: 0 };
        self.lock().get_mut(name)?.push_back(message);
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
        match self.outcome(&operation, name, &body).await {
            Ok(outcome) => response(StatusCode::OK, &outcome),
            Err((kind, message)) => error(kind, message),
        }
    }

    /// The response to an operation, or its error and message.
    async fn outcome(
        &self,
        operation: &str,
        name: &str,
        body: &Value,
    ) -> Result<Value, (&'static str, &'static str)> {
        let outcome = match operation {
            "SendMessage" => self.take(name, body).map(|id| json!({ "MessageId": id })),
            "SendMessageBatch" => self.take_batch(name, body),
            "ReceiveMessage" => self.received_by_client(name, body).await,
            "DeleteMessage" => {
                self.delete(body);
                Some(json!({}))
            }
            "DeleteMessageBatch" => {
                let entries = body.get("Entries").and_then(Value::as_array).cloned().unwrap_or_default();
                entries.iter().for_each(|entry| self.delete(entry));
                let deleted: Vec<Value> =
                    entries.iter().map(|entry| json!({ "Id": entry.get("Id") })).collect();
                Some(json!({ "Successful": deleted, "Failed": [] }))
            }
            _ => {
                let message = "Messages can be sent, received and deleted.";
                return Err(("com.amazonaws.sqs#UnsupportedOperation", message));
            }
        };
        outcome.ok_or(("com.amazonaws.sqs#QueueDoesNotExist", "The queue does not exist."))
    }

    fn take(&self, name: &str, message: &Value) -> Option<String> {
        let body = message.get("MessageBody").and_then(Value::as_str).unwrap_or_default();
        let attributes = message.get("MessageAttributes").cloned().unwrap_or_default();
        self.send(name, body.to_owned(), attributes)
    }

    /// The response to `SendMessageBatch`; `None` if there is no such queue.
    fn take_batch(&self, name: &str, request: &Value) -> Option<Value> {
        let refused = std::mem::take(&mut *self.refused.lock().unwrap_or_else(PoisonError::into_inner));
        let entries = request.get("Entries").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let (mut successful, mut failed) = (Vec::new(), Vec::new());
        for (index, entry) in entries.iter().enumerate() {
            let entry_id = entry.get("Id");
            if refused.contains(&index) {
                failed.push(json!({ "Id": entry_id, "Code": "InternalError", "SenderFault": false }));
            } else {
                let id = self.take(name, entry)?;
                successful.push(json!({ "Id": entry_id, "MessageId": id, "MD5OfMessageBody": "" }));
            }
        }
        Some(json!({ "Successful": successful, "Failed": failed }))
    }

    /// The response to `ReceiveMessage`: waits as long as the request allows. `None` if there is no such queue.
    async fn received_by_client(&self, name: &str, request: &Value) -> Option<Value> {
        let number = |name: &str| request.get(name).and_then(Value::as_u64);
        let until = Instant::now() + Duration::from_secs(number("WaitTimeSeconds").unwrap_or(0).min(20));
        let most = usize::try_from(number("MaxNumberOfMessages").unwrap_or(1)).unwrap_or(1).clamp(1, 10);
        let hidden_for = number("VisibilityTimeout").map_or(VISIBILITY_TIMEOUT, Duration::from_secs);
        loop {
            let arrived = self.arrived.notified();
            self.show_again();
            let messages = self.take_for_client(name, most, hidden_for)?;
            let left = until.saturating_duration_since(Instant::now());
            if !messages.is_empty() || left.is_zero() {
                return Some(json!({ "Messages": messages }));
            }
            // A message that becomes visible again wakes nobody.
            let pause = left.min(Duration::from_secs(1));
            let _ = tokio::time::timeout(pause, arrived).await;
        }
    }

    fn take_for_client(&self, name: &str, most: usize, hidden_for: Duration) -> Option<Vec<Value>> {
        let mut queues = self.lock();
        let queue = queues.get_mut(name)?;
        let visible_at = Instant::now() + hidden_for;
        let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = queue.drain(..most.min(queue.len())).map(|message| {
            let message = QueueMessage { receives: message.receives + 1, ..message };
            let response = received_message(&message);
            received.push(ReceivedMessage { queue: name.to_owned(), message, visible_at });
            response
        });
        Some(taken.collect())
    }

    /// Makes messages visible again whose readers did not delete them in time.
    fn show_again(&self) {
        let now = Instant::now();
        let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        let (expired, hidden) =
            std::mem::take(&mut *received).into_iter().partition(|received| received.visible_at <= now);
        *received = hidden;
        drop(received);
        let mut queues = self.lock();
        for ReceivedMessage { queue, message, .. } in Vec::into_iter(expired) {
            if let Some(queue) = queues.get_mut(&queue) {
                queue.push_back(message);
            }
        }
    }

    /// Deletes the received message with the request's handle, which is its id.
    fn delete(&self, request: &Value) {
        let handle = request.get("ReceiptHandle").and_then(Value::as_str).unwrap_or_default();
        let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        received.retain(|received| received.message.id != handle);
    }
}

/// A message as `ReceiveMessage` returns it. Some clients verify the checksum of its body.
fn received_message(message: &QueueMessage) -> Value {
    let QueueMessage { id, body, attributes, receives } = message;
    let checksum = Md5::digest(body);
    let mut response = json!({
        "MessageId": id,
        "ReceiptHandle": id,
        "Body": body,
        "MD5OfBody": afterwrite_model::hex(&checksum, checksum.len()),
        "Attributes": { "ApproximateReceiveCount": receives.to_string() },
    });
    if let Some(response) = response.as_object_mut().filter(|_| attributes.is_object()) {
        response.insert("MessageAttributes".to_owned(), attributes.clone());
    }
    response
}

fn error(kind: &str, message: &str) -> Response<Full<Bytes>> {
    response(StatusCode::BAD_REQUEST, &json!({ "__type": kind, "message": message }))
}

/// Without a checksum of the message: clients verify it only if there is one.
fn response(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    service_response(status, "application/x-amz-json-1.0", body.to_string())
}
