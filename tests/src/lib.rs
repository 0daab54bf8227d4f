//! Shared parts of the tests and benchmarks: servers to test against, data to test with, and faults to inject.

#![allow(clippy::indexing_slicing, reason = "an index out of range fails a test with its place")]

pub mod archive;
pub mod aws_call;
pub mod cached_keys;
pub mod call_recorder;
pub mod change_record;
pub mod clock;
pub mod cloudfront;
pub mod datasets;
pub mod deployment;
pub mod development;
pub mod duckdb;
pub mod fault_proxy;
pub mod faults;
pub mod firehose_proxy;
pub mod folder_bucket;
pub mod large_model;
pub mod latency_proxy;
pub mod loopback;
pub mod measuring;
pub mod metered_bucket;
pub mod moto;
pub mod moto_events;
pub mod page;
pub mod processor_time;
pub mod programs;
pub mod python;
pub mod random;
pub mod recorded_items;
pub mod recording;
pub mod redis_server;
pub mod replay;
mod request_kind;
pub mod runtime_api;
pub mod sdk;
pub mod sdk_items;
pub mod secrets;
pub mod size;
pub mod sqs;
pub mod state_stream;
pub mod tools;
pub mod unreliable_bucket;
mod upstream;
