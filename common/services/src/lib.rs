//! Effects → services: one trait for each kind of service, one module for each service.
//!
//! | trait | implemented by |
//! |---|---|
//! | [`Tables`], [`TableScan`] | [`dynamodb::DynamoDb`] |
//! | [`Cache`] | [`redis::RedisCache`] |
//! | [`Distribution`] | [`cloudfront::CloudFront`] |
//! | [`PathQueue`] | [`sqs::SqsQueue`] |
//! | [`DeliveryStream`] | [`firehose::Firehose`] |
//! | [`ObjectStore`], [`Bucket`] | [`s3::S3Bucket`] |
//!
//! Each trait documents its contract. `tests/conformance` tests every implementation against it, including the in-memory ones of
//! the tests.

mod cache;
pub mod cloudfront;
mod connect;
mod delivery_stream;
mod distribution;
mod dyn_tables;
pub mod dynamodb;
pub mod firehose;
mod item_size;
mod object_store;
mod path_queue;
pub mod redis;
mod request;
pub mod s3;
pub mod secret;
pub mod service_api;
pub mod sqs;
mod table_index;
mod table_scan;
mod tables;

pub use self::cache::{
    Cache, GENERATION_LIFE, GENERATION_SUFFIX, INVALIDATION_CHANNEL, InvalidatedKeys, TOMBSTONE,
};
pub use self::connect::http_client;
pub use self::delivery_stream::DeliveryStream;
pub use self::distribution::{Distribution, DistributionError};
pub(crate) use self::dyn_tables::DynTables;
pub use self::item_size::{MAX_ITEM_BYTES, item_bytes, value_bytes, write_units};
pub use self::object_store::{Bucket, ListedObject, ObjectBody, ObjectChunks, ObjectStore, PutOutcome};
pub use self::path_queue::PathQueue;
pub use self::table_index::{IndexProjection, TableIndex};
pub use self::table_scan::{RecoveryState, ScanPage, ScanRequest, TableScan, TableSummary};
pub use self::tables::{
    ConsumedUnits, IndexPage, IndexQuery, MAX_READ_KEYS, MAX_TRANSACTION_ACTIONS, MAX_TRANSACTION_BYTES,
    PartialRead, ReadItem, ReadSnapshot, Tables, TransactError, Unprocessed, WriteError,
};
pub(crate) use self::tables::{THROTTLE_HINT, misaligned_read};
