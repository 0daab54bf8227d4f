//! Caches: the contract between invalidation and the application's readers.

use std::future::Future;
use std::time::Duration;

use crate::Error;
use crate::projection::StaleKey;
use crate::record::Timestamp;

/// The channel on which invalidated keys are published.
pub const INVALIDATION_CHANNEL: &str = "afterwrite:invalidated";
/// The value of a key that holds a tombstone.
pub const TOMBSTONE: &str = "afterwrite:tombstone";
/// The suffix that makes a key the name of its generation counter.
pub const GENERATION_SUFFIX: &str = ":generation";

/// A cache that holds copies of items under keys, filled by the application's readers.
///
/// # The stale-set race
///
/// A reader that misses reads the item and stores what it read. If the item changes after the read, and the change is invalidated
/// before the reader stores, the cache holds the old value until its time to live ends. The remedies
/// ([`CacheRemedy`](crate::table::CacheRemedy)) differ in which readers can cause this:
///
/// | remedy | commands | stale value possible | what readers must do |
/// |---|---|---|---|
/// | `delete` | `UNLINK key` | yes: a value stored after the invalidation stays | nothing |
/// | `tombstone = "5s"` | `SET key afterwrite:tombstone PX 5000` | only from a reader that takes longer than the tombstone lives between read and store | store with `SET key value NX` and a time to live; treat [`TOMBSTONE`] as a miss |
/// | `generation` | `SET key:generation <ms> NX`, then `INCR key:generation` | no, however slow the reader | get `key:generation` *before* reading the item; read and store under `key:<generation>:…` with a time to live; if there is no generation, set it as in the first command (`NX`) and get it again |
///
/// # Guarantees
///
/// - **Each remedy is complete when its commands are.** No step is left for later: a Lambda function may be frozen as soon as it has
///   responded.
/// - **Tombstones.** One command replaces the cached value and forbids storing, so there is no moment in between. A key with a
///   tombstone must hold a string: readers of another type get a type error, and must treat it as a miss. A tombstone expires by itself.
/// - **Generations.** A generation starts at the current milliseconds since 1970 and then grows, so a generation that was evicted
///   never returns to an earlier number.
/// - **Channel.** After the invalidation, the invalidated keys are published on [`INVALIDATION_CHANNEL`] as JSON arrays of strings,
///   for caches inside processes. Redis delivers a message at most once: such a cache also needs a time to live.
/// - **Repetition.** Invalidating a key again costs a cache miss and has no other effect.
/// - **Keys are data.** No part of a key is a pattern; no other key is changed.
pub trait Cache: Send + Sync {
    /// Invalidates each key by its remedy, then publishes the invalidated keys. New generations start at `now`.
    ///
    /// Returns within `limit`. A key without a response by then has failed with [`crate::ErrorKind::Unavailable`], although it may
    /// have been invalidated. In a cluster, a node that fails affects its own keys only.
    fn invalidate(
        &self,
        keys: &[StaleKey],
        now: Timestamp,
        limit: Duration,
    ) -> impl Future<Output = InvalidatedKeys> + Send;
}

/// The result of [`Cache::invalidate`].
#[derive(Debug)]
pub struct InvalidatedKeys {
    /// The result for each key, aligned with the keys. A key whose message could not be published has failed, too.
    pub results: Vec<Result<(), Error>>,
    /// How many commands were sent.
    pub commands: u64,
}
