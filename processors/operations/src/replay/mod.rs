//! Replay: change records of files, folders and buckets are delivered again to the functions' handlers.
//!
//! ```text
//! --into: LOOKUP items of the live table ─▶ the fresh table
//!                    │
//! inputs ─▶ records in the range ─▶ batches ─┬▶ aggregator   counters, rollups and mirrors
//!            one after the other             └▶ relay        caches, archive
//!                    │
//! --into: rollups of the fresh table that are sources ─▶ rollups of the next level
//! ```
//!
//! **Replaying is harmless.** A record that the ledger has counted is skipped, so replaying any recording over a live state table changes
//! nothing. A record that is older than tombstones live (35 days) is not applied to an item without an entry: the item is reconciled
//! with its table.
//!
//! **A fresh table** (`--into`) has every tombstone since its creation, so records of any age are applied
//! ([`TombstoneHistory::Complete`](afterwrite_ledger::TombstoneHistory)). The remembered lookups are copied first: `C` depends on them. Copies
//! on the application's items are not written: they belong to the live table until `state promote`. Rollups of rollups are counted last, level by
//! level, by a backfill of the fresh table's rollups: the archive's records of rollups describe those of another table.
//!
//! **Order.** Inputs are read one after the other, objects in the order of their keys, so that most records of an item come in order, and
//! each batch is sorted by item. The ledger needs no order for sums. `max` and `min` do not see an image that is overtaken by a newer
//! record of the same item in an earlier batch.
//!
//! **Failures.** A batch is delivered up to three times. Records that still fail while others of their batch succeed are reported and passed
//! over; if all fail, the job fails and can be resumed.
//!
//! **Streams.** A thread reads standard input and pipes, so that the job obeys its operator while they are quiet. A batch of their records is delivered a
//! second after its first record at the latest, also if it is not full.
//!
//! **Memory** is bounded by a batch and one compressed object, or by a batch and 64 records that are read ahead of a stream.

mod batch;
mod lookup_copy;
mod opened;
mod source;
mod state_only;
mod stream;
mod target;
mod task;
mod uncounted;

pub use self::lookup_copy::LookupCopy;
pub use self::source::InputSource;
pub use self::state_only::StateOnlyTables;
pub use self::target::{DeliveryTotal, NoTarget, RecordTarget, TargetOutcome};
pub use self::task::{ReplayTask, ReplayTotals};
pub use self::uncounted::{CountedRecords, UncountedRollups};
