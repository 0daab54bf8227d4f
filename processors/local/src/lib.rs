//! The AWS services around a Lambda function, on this machine: a DynamoDB with streams inside the process, and a delivery stream and
//! an S3 for what the functions pass on.
//!
//! ```text
//! AWS SDK client ──HTTP, loopback──▶ dynamodb ──stream──▶ event source mapping ──event, as Lambda delivers it──▶ handler
//! handler ──HTTP, loopback──▶ firehose ──objects──▶ s3
//! ```
//!
//! The handler is the one that runs in Lambda; the crate `afterwrite-mapping` delivers to it.

pub mod dynamodb;
pub mod firehose;
pub mod s3;
pub mod sdk;
