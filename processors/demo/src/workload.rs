//! A workload: what an application of a built-in model writes, and what must be derived from it.

use afterwrite_local::dynamodb::TableDefinition;
use fastrand::Rng;
use jiff::Timestamp;

use crate::chart::Chart;
use crate::recount::{Recount, WorkloadOutcome};
use crate::rollups::RollupSet;
use crate::script::Script;

/// A small application of one built-in model.
///
/// A workload is pure: its script follows from a seed, and its recount from how the script ended.
#[derive(Debug)]
pub struct Workload {
    /// The built-in model's name.
    pub model: &'static str,
    /// The workload, in a few words: "A month of an exam platform".
    pub about: &'static str,
    /// The unit of the size: "attempts at exams".
    pub unit: &'static str,
    /// The default size, which takes a few seconds.
    pub usual_size: u64,
    /// Questions to the datasets.
    pub questions: &'static [WorkloadQuestion],
    pub(crate) tables: fn() -> Vec<TableDefinition>,
    pub(crate) script: fn(Rng, u64, Timestamp) -> Script,
    pub(crate) recount: fn(&WorkloadOutcome) -> Recount,
    /// Whether a cache or event rule reads the rollup with this `PK` and `SK`: then its changes are archived.
    pub(crate) archived_rollup: fn(&str, &str) -> bool,
    pub(crate) charts: fn(&WorkloadOutcome, &RollupSet) -> Vec<Chart>,
}

/// A question to the datasets.
#[derive(Clone, Copy, Debug)]
pub enum WorkloadQuestion {
    /// A saved query of the model.
    Saved(&'static str),
    /// A title, and the SQL.
    Sql(&'static str, &'static str),
}

impl Workload {
    /// The source tables of the application's design.
    #[must_use]
    pub fn tables(&self) -> Vec<TableDefinition> {
        (self.tables)()
    }

    /// The writes of the application: inserts, edits, moves, deletes, expiries, items that are created again. The same seed, size
    /// and time, in epoch seconds, give the same script.
    #[must_use]
    pub fn script(&self, seed: u64, size: u64, now: i64) -> Script {
        (self.script)(Rng::with_seed(seed), size, Timestamp::from_second(now).unwrap_or_default())
    }

    /// The values that must have been derived from the items, computed independently of the model.
    #[must_use]
    pub fn recount(&self, outcome: &WorkloadOutcome) -> Recount {
        (self.recount)(outcome)
    }

    /// The most telling rollups.
    #[must_use]
    pub fn charts(&self, outcome: &WorkloadOutcome, rollups: &RollupSet) -> Vec<Chart> {
        (self.charts)(outcome, rollups)
    }
}
