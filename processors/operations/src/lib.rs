//! Operations on deployed tables, for the command line and for scheduled functions.
//!
//! | module | task |
//! |---|---|
//! | [`input`] | change records from files, folders and buckets |
//! | [`recording`] | records as JSON lines without secrets |
//! | [`trace`] | everything that follows from one record, computed and not written |
//! | [`tables`] | writes that stay in memory, and the items that a run has changed |
//! | [`fixture`] | items or records with the rollups that must follow from them |
//! | [`invocation`] | one Lambda event through the functions, and what it changed |
//! | [`replay`] | records delivered again, in order, resumable |
//! | [`redrive`] | on-failure objects and parked items processed again |
//! | [`state_table`] | state tables side by side |
//! | [`backfill`] | what a table has already is counted |
//! | [`verify`], [`repair`] | what is derived is compared with the items, and corrected |
//! | [`verifier`] | the function that verifies on a schedule |
//! | [`stream_filters`] | which records of a stream invoke a function |
//! | [`cost`] | what a deployment costs a month |
//! | [`doctor`] | a deployment judged, with what to change |
//! | [`inference`] | a model from a sample of a table's items |
//! | [`jobs`] | long work that can be watched, paused, resumed and throttled |

pub mod backfill;
pub mod cost;
mod cursor;
pub mod doctor;
pub mod fixture;
pub mod inference;
pub mod input;
pub mod invocation;
pub mod item_json;
mod items;
pub mod jobs;
mod projector;
pub mod recording;
pub mod redrive;
pub mod repair;
pub mod replay;
pub mod state_table;
pub mod stream_filters;
pub mod tables;
mod tenant;
pub mod trace;
pub mod verifier;
pub mod verify;

pub use self::tenant::TenantFilter;
