//! A table's stream as it grows: every shard is polled, parents before their children. Nothing is stored: this reader follows a stream
//! for a person. It counts as one of the two readers that a shard allows.

mod record_json;
mod shards;

pub use self::shards::{StreamStart, TableStream};
