//! What AWS does around a Lambda function, on this machine: a DynamoDB with streams inside the process, the event
//! source mapping that carries a stream to a function, and a delivery stream and an S3 for what functions pass on.
//!
//! ```text
//! AWS SDK client ──HTTP, loopback──▶ dynamodb ──stream──▶ poller ──event, as Lambda delivers it──▶ handler
//! handler ──HTTP, loopback──▶ firehose ──objects──▶ s3
//! ```
//!
//! The handler is the one that Lambda runs.

mod delivery;
pub mod dynamodb;
mod event;
pub mod firehose;
mod http;
pub mod poller;
pub mod progress;
mod response;
pub mod s3;
pub mod sample;
pub mod stream;
pub mod table;
