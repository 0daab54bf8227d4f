//! In-memory implementations of Afterwrite's sinks, for tests, simulations and benchmarks.
//!
//! | type | stands for | trait |
//! |---|---|---|
//! | [`MemoryTables`] | DynamoDB tables | `Tables`, `TableScan` |
//! | [`MemoryCache`] | a cache with its readers and listeners | `Cache` |
//! | [`MemoryQueue`] | a queue of stale paths | `PathQueue` |
//! | [`MemoryStream`] | a delivery stream | `DeliveryStream` |
//! | [`MemoryEvents`] | a bus, a queue or a topic of events | `EventTarget` |
//! | [`MemoryObjects`] | a bucket | `ObjectStore`, `Bucket` |
//!
//! They answer at once and never fail by chance: delays and faults are wrapped around them. The conformance suites
//! (`tests/conformance`) hold them to the same rules as the services, so a result that is proved with one of these also holds for
//! the service.

mod cache;
mod events;
mod objects;
mod queue;
mod stream;
mod tables;

pub use self::cache::MemoryCache;
pub use self::events::{MemoryEvents, TakenEvent};
pub use self::objects::MemoryObjects;
pub use self::queue::MemoryQueue;
pub use self::stream::MemoryStream;
pub use self::tables::{
    IndexDefinition, ItemChange, KeyAttributeType, KeyDefinition, MEMORY_STREAM_LABEL, MemoryTables,
    TableDefinition, item_key,
};
