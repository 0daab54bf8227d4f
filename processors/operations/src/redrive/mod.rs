//! Redrive: records that an event source mapping gave up, and items that are parked, are processed again.
//!
//! ```text
//! on-failure objects of a bucket, oldest first ─▶ records ─▶ the functions' handlers ─┬ all processed ─▶ the object moves to redriven/
//!                                                                                    └ a record failed ─▶ it stays, with the reason
//! parked entries of the state table, oldest first ─▶ reconciled with their items ──── the write of the entry removes the mark
//! ```
//!
//! Both can be repeated: records that are counted are skipped, and an item that is healed is not parked any more.

mod objects;
mod parked;
mod parked_problems;
mod task;

pub use self::objects::{ObjectRedrive, SettledObjects};
pub use self::parked::{
    PARKED_INDEX, ParkedItem, ParkedPosition, ParkedRedrive, parked_by_index, parked_by_scan, parked_page,
    parked_reason,
};
pub use self::parked_problems::parked_reasons;
pub use self::task::{RedriveReport, RedriveTask, RedriveTotal, StayingObject, StayingParked};
