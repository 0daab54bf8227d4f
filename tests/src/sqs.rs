//! An embedded queue for tests.

use afterwrite_local::sqs::{EmbeddedSqs, QueueMessage};
use aws_sdk_sqs::Client;
use serde_json::Value;

use crate::sdk::sdk_config;

/// The name of the queue.
pub const QUEUE: &str = "stale-paths";

/// Starts a server with the queue.
///
/// # Panics
/// If no port is available.
pub async fn start_queue() -> EmbeddedSqs {
    EmbeddedSqs::start(0, &[QUEUE]).await.expect("a port")
}

/// A client of an endpoint.
#[must_use]
pub fn client(endpoint: &str) -> Client {
    Client::new(&sdk_config(endpoint))
}

/// The event in which Lambda delivers these messages, with the ids `m0`, `m1` and so on.
#[must_use]
pub fn queue_event(bodies: &[String]) -> String {
    let message = |(index, body): (usize, &String)| QueueMessage {
        id: format!("m{index}"),
        body: body.clone(),
        attributes: Value::Null,
        receives: 1,
    };
    let messages: Vec<QueueMessage> = bodies.iter().enumerate().map(message).collect();
    QueueMessage::event("arn:aws:sqs:us-east-1:123456789012:stale-paths", &messages).to_string()
}
