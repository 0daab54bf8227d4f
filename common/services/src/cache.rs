//! Caches: the contract between invalidation and the application's readers.

use std::future::Future;
use std::time::Duration;

use afterwrite_model::Error;
use afterwrite_model::projection::StaleKey;

/// The channel on which invalidated keys are published.
pub const INVALIDATION_CHANNEL: &str = "afterwrite:invalidated";
/// The value of a key that holds a tombstone.
pub const TOMBSTONE: &str = "afterwrite:tombstone";
/// The suffix that makes a key the name of its generation.
pub const GENERATION_SUFFIX: &str = ":generation";
/// How long a generation lives after a reader has created it, and after each invalidation: one day.
pub const GENERATION_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// A cache that holds copies of items under keys, filled by the application's readers.
///
/// # The stale-set race
///
/// A reader that misses reads the item and stores the result. If the item changes after the read, and the change is invalidated
/// before the reader stores, the cache holds the old value until its time to live ends. The remedies
/// ([`CacheRemedy`](afterwrite_model::table::CacheRemedy)) differ in which readers can cause this:
///
/// | remedy | commands | stale value possible | what readers must do |
/// |---|---|---|---|
/// | `delete` | `UNLINK key` | yes: a value stored after the invalidation stays | nothing |
/// | `tombstone = "5s"` | `SET key afterwrite:tombstone PX 5000` | only from a reader that takes longer than the tombstone lives between read and store | store with `SET key value NX` and a time to live; treat [`TOMBSTONE`] as a miss |
/// | `generation` | if `key:generation` exists: `INCR` and `EXPIRE` in one script | no, however slow the reader | see below |
///
/// All reads of the item that fill the cache must be strongly consistent. An eventually consistent read, and every read of a global
/// secondary index, may return the old item after the invalidation; no remedy can prevent that.
///
/// # Generations
///
/// A reader, in this order:
///
/// 1. gets `key:generation`. If it does not exist, the reader creates it with `SET key:generation <fresh> NX EX 86400` and gets it again.
///    `<fresh>` is a whole number that was never used before: milliseconds since 1970, followed by six random digits;
/// 2. gets `key:<generation>:…`. If it exists, it is the value;
/// 3. otherwise reads the item, strongly consistently;
/// 4. stores `key:<generation>:…` with a time to live.
///
/// *No stale value is read.* Let a reader store, under generation *g*, an item that it read before a change. It got *g* before it read the
/// item, so *g* existed before the change was invalidated. If it still existed then, the invalidation incremented it. If not, it had expired or
/// had been evicted or deleted, and the next reader creates a fresh number. Either way no reader gets *g* after the invalidation.
///
/// So an invalidation creates no generation: without a generation, no reader finds a value that was stored under an earlier one. A generation that is
/// not used any more expires by itself.
///
/// # Guarantees
///
/// - **Each remedy is complete when its commands are.** No step is left for later: a Lambda function may be frozen as soon as it has
///   responded.
/// - **Tombstones.** One command replaces the cached value and forbids storing, so there is no moment in between. A key with a
///   tombstone must hold a string: readers of another type get a type error, and must treat it as a miss. A tombstone expires by itself.
/// - **Generations.** The script is one atomic step. It renews the life of the generation ([`GENERATION_LIFE`]). A value of another type,
///   or a text that is not a number, is deleted: the next reader creates a fresh number. Such a value never fails the invalidation.
/// - **Channel.** After the invalidation, the invalidated keys are published on [`INVALIDATION_CHANNEL`] as JSON arrays of strings,
///   for caches inside processes. Redis delivers a message at most once: such a cache also needs a time to live.
/// - **Repetition.** Invalidating a key again costs a cache miss and has no other effect.
/// - **Keys are data.** No part of a key is a pattern; no other key is changed.
pub trait Cache: Send + Sync {
    /// Invalidates each key by its remedy, then publishes the invalidated keys.
    ///
    /// Returns within `limit`. A key without a response by then has failed with [`afterwrite_model::ErrorKind::Unavailable`], although it may
    /// have been invalidated. In a cluster, a node that fails affects its own keys only.
    fn invalidate(&self, keys: &[StaleKey], limit: Duration) -> impl Future<Output = InvalidatedKeys> + Send;
}

/// The result of [`Cache::invalidate`].
#[derive(Debug)]
pub struct InvalidatedKeys {
    /// The result for each key, aligned with the keys. A key whose message could not be published has failed, too.
    pub results: Vec<Result<(), Error>>,
    /// How many commands were sent.
    pub commands: u64,
}
