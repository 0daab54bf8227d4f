//! The AWS services around a Lambda function, on this machine: a DynamoDB with streams inside the process, the event source
//! mapping that delivers a stream to a function, and a delivery stream and an S3 for what the functions pass on.
//!
//! ```text
//! AWS SDK client ──HTTP, loopback──▶ dynamodb ──stream──▶ poller ──event, as Lambda delivers it──▶ handler
//! handler ──HTTP, loopback──▶ firehose ──objects──▶ s3
//! ```
//!
//! The handler is the one that runs in Lambda.

pub mod dynamodb;
pub mod firehose;
mod http;
pub mod poller;
pub mod s3;
pub mod sample;
pub mod sdk;
pub mod stream;
