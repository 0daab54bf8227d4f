//! The contracts of the sink traits: every implementation must pass the same suite.
//!
//! | suite | trait | implementations |
//! |---|---|---|
//! | `tables/` | `Tables` | memory, embedded DynamoDB |
//! | `cache` | `Cache` | memory, Redis as one node, Redis as a cluster |
//! | `distribution` | `Distribution` | CloudFront against a stand-in and against moto |
//! | `path_queue` | `PathQueue` | memory, SQS against a stand-in and against moto |
//! | `delivery_stream` | `DeliveryStream` | memory, Firehose against the embedded stream and against moto |
//! | `event_target` | `EventTarget` | memory, EventBridge, SQS and SNS against moto |
//! | `object_store` | `ObjectStore`, `Bucket` | memory, folder, S3 against the embedded server and against moto |
//!
//! A suite has one function for each rule of the contract, and runs them all against one implementation. Tests of behaviour that
//! an implementation cannot show, or that only a service has (a missing resource), stand next to the suite with the reason.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod cache;
mod delivery_stream;
mod distribution;
mod event_target;
mod object_store;
mod path_queue;
mod tables;
