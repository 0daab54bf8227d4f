//! The services that Afterwrite uses: one trait for each kind of service, one module for each service; and [`config`], the settings that
//! name them.
//!
//! | trait | implemented by |
//! |---|---|
//! | [`Tables`](afterwrite_ledger::tables::Tables), [`TableScan`](afterwrite_ledger::tables::TableScan), which the ledger defines | [`dynamodb::DynamoDb`] |
//! | [`Cache`] | [`redis::RedisCache`] |
//! | [`Distribution`] | [`cloudfront::CloudFront`] |
//! | [`PathQueue`] | [`sqs::SqsQueue`] |
//! | [`DeliveryStream`] | [`firehose::Firehose`] |
//! | [`EventTarget`] | [`events::AwsEventTarget`]: EventBridge, SQS and SNS |
//! | [`ObjectStore`], [`Bucket`] | [`s3::S3Bucket`] |
//!
//! Each trait documents its contract. `tests/conformance` tests every implementation against it, including the in-memory ones of
//! the tests.
//!
//! Only `config` reads the environment.

mod cache;
mod clock_check;
pub mod cloudfront;
pub mod config;
mod connect;
mod delivery_stream;
mod distribution;
pub mod dynamodb;
mod event_target;
pub mod events;
pub mod firehose;
mod object_store;
mod path_queue;
mod path_target;
pub mod redis;
mod request;
pub mod s3;
pub mod secret;
pub mod service_api;
pub mod sqs;

pub use self::cache::{
    Cache, GENERATION_LIFE, GENERATION_SUFFIX, INVALIDATION_CHANNEL, InvalidatedKeys, TOMBSTONE,
};
pub use self::clock_check::ClockDifference;
pub use self::connect::http_client;
pub use self::delivery_stream::DeliveryStream;
pub use self::distribution::{Distribution, DistributionError};
pub use self::event_target::{EventEntry, EventLimits, EventOrder, EventTarget};
pub use self::object_store::{Bucket, ListedObject, ObjectBody, ObjectChunks, ObjectStore, PutOutcome};
pub use self::path_queue::PathQueue;
pub use self::path_target::PathTarget;
