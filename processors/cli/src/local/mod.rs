//! What AWS does around a Lambda function, on this machine: a DynamoDB with streams inside the process, and the event
//! source mapping that carries a stream to a function.
//!
//! ```text
//! AWS SDK client ──HTTP, loopback──▶ dynamodb ──stream──▶ poller ──event, as Lambda delivers it──▶ handler
//! ```
//!
//! The handler is the one that Lambda runs.

mod delivery;
pub mod dynamodb;
mod event;
pub mod poller;
pub mod progress;
mod response;
pub mod sample;
pub mod stream;
pub mod table;
