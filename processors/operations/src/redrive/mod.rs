//! Redrive: records that an event source mapping gave up, and items that are parked, are processed again.
//!
//! ```text
//! on-failure objects of a bucket, oldest first ─▶ records ─▶ the functions' handlers ─┬ all processed ─▶ the object moves to redriven/
//!                                                                                    └ a record failed ─▶ it stays, with the reason
//! parked entries of the state table, oldest first ─▶ reconciled with their items ──── its own write removes the mark
//! ```
//!
//! Both can be repeated: records that are counted are skipped, and an item that is not parked any more is not found.

mod objects;
mod parked;

pub use self::objects::{FailedObject, ObjectRedrive, RedrivenObjects, SettledObjects};
pub use self::parked::{ParkedItem, ParkedRedrive, RedrivenItems, parked_by_scan};
