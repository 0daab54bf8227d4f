//! Afterwrite on tables in memory: what would follow from records is computed and shown, and nothing is written.
//!
//! | module | task |
//! |---|---|
//! | [`tables`] | writes that stay in memory, and the items that a run has changed |
//! | [`trace`] | everything that follows from one record, computed and not written |
//! | [`explain`] | everything that follows from one item |
//! | [`recording`] | records as JSON lines without secrets |
//! | [`sample`] | items that the model counts, made up from the model alone |
//! | [`fixture`] | items or records with the rollups that must follow from them |
//! | [`invocation`] | passes one Lambda event through the functions, and shows its effects |

pub mod explain;
pub mod fixture;
pub mod invocation;
pub mod recording;
pub mod sample;
pub mod tables;
pub mod trace;
