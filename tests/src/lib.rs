//! What Afterwrite's tests share.

#![allow(clippy::indexing_slicing, reason = "a test that indexes past the end has failed, and says where")]

pub mod archive;
pub mod clock;
pub mod cloudfront;
pub mod datasets;
pub mod deployment;
pub mod fault_proxy;
pub mod faults;
pub mod firehose_proxy;
pub mod folder_bucket;
pub mod large_model;
mod loopback;
pub mod measuring;
pub mod moto;
pub mod page;
pub mod programs;
pub mod random;
pub mod recording;
pub mod redis_server;
pub mod replay;
pub mod runtime_api;
pub mod unreliable_bucket;
mod upstream;
pub mod view_server;
