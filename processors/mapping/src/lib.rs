//! The event source mapping: delivers a DynamoDB stream to a function as AWS Lambda does.
//!
//! Each shard is read on its own, a parent to its end before its children. A batch is delivered until its function has accepted all of
//! it, or until it is discarded:
//!
//! ```text
//! StreamSource ─▶ EventSourceMapping ─▶ shard ─▶ filter ─▶ lanes ─▶ batch ─▶ EventHandler ─┬─ accepted ─▶ checkpoint
//!                                                                    ▲                     ├─ failed ─▶ split, retried
//!                                                                    └─────────────────────┘
//!                                                                                          └─ discarded ─▶ S3, checkpoint
//! ```
//!
//! An [`EventHandler`] is a function in this process, or a program in any language that speaks the Lambda Runtime API
//! ([`runtime::FunctionPool`]). Time comes from a [`Clock`](afterwrite_model::clock::Clock). `docs/ESM.md` lists each rule of Lambda that is
//! emulated, with its test.

pub mod aws;
mod checkpoint;
mod context;
mod control;
mod delivery;
mod faults;
mod filter;
mod gap;
mod guard;
mod handler;
pub mod http;
mod lane;
mod mapping;
mod on_failure;
mod progress;
mod replacement;
mod response;
mod retry;
pub mod runtime;
mod sample;
mod settings;
mod shard;
mod shard_reader;
mod stream;
pub mod tail;

pub use self::checkpoint::{CheckpointStore, MemoryCheckpoints, ShardCheckpoint, StoredCheckpoints};
pub use self::control::MappingControl;
pub use self::delivery::ends_mapping;
pub use self::faults::{FaultPlan, FaultSwitch};
pub use self::filter::FilterCriteria;
pub use self::gap::StreamGap;
pub use self::handler::EventHandler;
pub use self::mapping::{EventSourceMapping, GapPolicy, MappingEnd, MappingOptions};
pub use self::on_failure::FailureDestination;
pub use self::progress::{MappingCounts, MappingProgress, RetriedBatch, SkippedRecord};
pub use self::replacement::until_replaced;
pub use self::sample::StreamSample;
pub use self::settings::{MappingPace, MappingSettings, StartingPosition};
pub use self::stream::{
    RecordPage, STREAM_RETENTION, ShardPage, ShardPosition, StreamReadError, StreamRecord, StreamShard,
    StreamSource,
};
