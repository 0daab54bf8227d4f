//! The AWS services around a Lambda function, on this machine: a DynamoDB with streams inside the process, and a delivery stream,
//! an S3, queues, a CloudFront and an EventBridge for what the functions pass on.
//!
//! ```text
//! AWS SDK client ──HTTP, loopback──▶ dynamodb ──stream──▶ event source mapping ──event, as Lambda delivers it──▶ handler
//! handler ──HTTP, loopback──▶ firehose ──objects──▶ s3 ──notifications──▶ sqs ──▶ handler
//! AWS SDK client ──streams, as AWS shows them──▶ stream_api ──▶ dynamodb
//! AWS SDK client ──ImportTable──▶ imports ──objects of s3──▶ dynamodb
//! ```
//!
//! The handler is the code that runs in Lambda; the crate `afterwrite-mapping` delivers to it.

pub mod cloudfront;
pub mod conflicts;
pub mod dynamodb;
pub mod eventbridge;
pub mod firehose;
pub mod imports;
mod noting_server;
mod proxy;
pub mod s3;
pub mod sdk;
mod signature;
pub mod sqs;
pub mod stream_api;
