//! Verification: compares what is derived with the items, while the application goes on writing.
//!
//! ```text
//! phase 0   revisions   the `rev` of each rollup                         ─┐
//! phase 1   ledger      the sum of all entries, by rollup                 │ Σ ledger + settled = rollups: `sums`
//! phase 2   rollups     read again: confirmed, suspected or undecided    ─┘
//! phase 3   items       entry = C(item), mirrors, extremes               ─┐
//! phase 4   entries     entries whose items do not exist                  │ `items`, `suspects`
//! phase 5   recheck     suspected items, once the tolerance has passed   ─┘
//! phase 6   ledger      again, for suspected rollups only
//! phase 7   rollups     judged for good
//! phase 8 … 11          rows of datasets = items, if a bucket is set: `datasets`
//! ```
//!
//! A finding is *drift* or *undecided*; there is no false alarm as long as no record is in flight for longer than the tolerance (by
//! default 5 minutes; the metric `IteratorAge` shows it). A lag beyond it can only turn a change in flight into a finding of an
//! item; rollups are judged without any assumption about time.
//!
//! A verification can be paused, and resumed after a kill: what is suspected is in the journal of its job. Sums, digests and findings are
//! in memory or in temporary files, so the phases that make them begin again (0 to 2, 8 to 10), and suspects are judged again.

mod bound;
mod coverage;
mod datasets;
mod extremes;
mod finding;
mod items;
mod job;
mod journal;
mod life;
mod mirrors;
mod place;
mod recheck;
mod sample;
mod selection;
mod state;
mod sums;
mod suspects;
mod task;
mod three_way;
mod undecided;
mod unjudged;

use std::sync::Arc;
use std::time::Duration;

use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind};
use serde::{Deserialize, Serialize};

pub use self::bound::drift_upper_bound;
pub use self::coverage::DatasetCoverage;
use self::datasets::check_units;
pub use self::datasets::{DatasetCheck, DatasetJudge, ReadSides, recheck_rows};
pub(crate) use self::datasets::{JudgedRow, RowVerdicts, candidates_of, is_foreign_row};
pub(crate) use self::finding::check_generation;
pub use self::finding::{
    ExpectedValue, FindingPlace, FindingVerdict, RowDifference, RowLocation, VerifyFinding, finding_lines,
    parse_findings,
};
pub use self::job::{VerifyJob, VerifyReport};
pub use self::life::FindingLife;
pub(crate) use self::place::RollupPlace;
pub use self::recheck::recheck_findings;
pub(crate) use self::recheck::{RollupReading, read_sums};
pub use self::sample::KeySample;
pub use self::state::VerifySummary;
pub(crate) use self::sums::{SumVerdict, expected_values, judge};
pub use self::suspects::Tolerance;
pub use self::task::VerifyTask;
pub use self::three_way::ThreeWayCheck;
pub use self::undecided::UndecidedReason;
pub use self::unjudged::{UnjudgedPart, VerifiedPart, unjudged_error};

use crate::items::used_tables;
use crate::jobs::{JobPlan, WorkUnit};
use crate::tenant::TenantFilter;

/// The longest time that a record is in flight, unless the arguments set another.
pub const DEFAULT_TOLERANCE: Duration = Duration::from_secs(300);

/// The arguments of a verification, as its job keeps them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerifyArguments {
    /// The segments of each scan.
    pub segments: u32,
    /// The share of items and rollups that are judged, from 0 to 1.
    pub sample: f64,
    /// Which of them are judged: see [`KeySample`].
    #[serde(default)]
    pub seed: u32,
    /// The tenant, if only one is judged. Of rollups those are judged whose key has the variable.
    #[serde(default)]
    pub only: Option<TenantFilter>,
    /// A counter of the application, to compare with a measure and a recount of the items.
    #[serde(default)]
    pub three_way: Option<ThreeWayCheck>,
    /// The longest time that a record is in flight, in seconds.
    pub tolerance_seconds: u64,
    /// Whether datasets are compared with items.
    #[serde(default)]
    pub datasets: DatasetCoverage,
    /// The bucket of the datasets, if they are compared.
    #[serde(default)]
    pub bucket: Option<String>,
}

impl VerifyArguments {
    /// The items and rollups that are judged.
    #[must_use]
    pub fn key_sample(&self) -> KeySample {
        KeySample { share: self.sample, seed: self.seed }
    }
}

impl Default for VerifyArguments {
    fn default() -> Self {
        Self {
            segments: 8,
            sample: 1.0,
            seed: 0,
            only: None,
            three_way: None,
            tolerance_seconds: DEFAULT_TOLERANCE.as_secs(),
            datasets: DatasetCoverage::NoDatasets,
            bucket: None,
        }
    }
}

/// The part of a verification that a unit stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VerifyPart {
    Revisions { segment: u32 },
    Ledger { segment: u32 },
    Rollups,
    Items { table: usize, segment: u32 },
    Entries { segment: u32 },
    Recheck,
    SuspectedLedger { segment: u32 },
    SuspectedRollups,
}

/// The units of a verification with the parts that they stand for.
fn parts(model: &Model, arguments: &VerifyArguments) -> Vec<(WorkUnit, VerifyPart)> {
    let segments = arguments.segments.max(1);
    let mut parts = Vec::new();
    let mut add = |name: String, phase: u32, part: VerifyPart| parts.push((WorkUnit::new(name, phase), part));
    for segment in 0..segments {
        add(format!("revisions {segment}/{segments}"), 0, VerifyPart::Revisions { segment });
        add(format!("ledger {segment}/{segments}"), 1, VerifyPart::Ledger { segment });
        add(format!("entries {segment}/{segments}"), 4, VerifyPart::Entries { segment });
        add(format!("ledger again {segment}/{segments}"), 6, VerifyPart::SuspectedLedger { segment });
    }
    add("rollups".to_owned(), 2, VerifyPart::Rollups);
    add("recheck".to_owned(), 5, VerifyPart::Recheck);
    add("rollups again".to_owned(), 7, VerifyPart::SuspectedRollups);
    for table in used_tables(model) {
        let name = model.tables.get(table).map_or("", |table| &table.name);
        for segment in 0..segments {
            add(format!("items {name} {segment}/{segments}"), 3, VerifyPart::Items { table, segment });
        }
    }
    parts
}

/// The units of a verification with these arguments.
#[must_use]
pub fn verify_units(model: &Arc<Model>, arguments: &VerifyArguments) -> Vec<WorkUnit> {
    let mut units: Vec<WorkUnit> = parts(model, arguments).into_iter().map(|(unit, _)| unit).collect();
    if arguments.datasets == DatasetCoverage::Compared {
        units.extend(check_units(model, arguments));
    }
    units
}

fn unknown_unit(unit: &WorkUnit) -> Error {
    Error::new(ErrorKind::Configuration, "the job has a unit that its arguments do not name")
        .with("unit", unit.name.as_str())
        .hint("Start the verification again")
}

/// The plan of a verification: it reads the state table three times, and each item with its entry.
#[must_use]
pub fn plan_verify(state: (u64, u64), sources: (u64, u64), arguments: &VerifyArguments) -> JobPlan {
    let ((state_items, state_bytes), (items, bytes)) = (state, sources);
    let judged = |number: u64| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an estimate from a share of at most 1"
        )]
        let judged = (number as f64 * arguments.sample.clamp(0.0, 1.0)).ceil() as u64;
        judged
    };
    let page_units = |bytes: u64| bytes.div_ceil(4096);
    let readings = if arguments.datasets == DatasetCoverage::Compared { 2 } else { 1 };
    let mut notes = vec!["nothing is written, except the state of the job".to_owned()];
    notes.push(format!("datasets: {}", arguments.datasets.described()));
    JobPlan {
        items,
        paced: 3 * state_items + readings * items,
        bytes: 3 * state_bytes + readings * bytes,
        changes: 0,
        read_units: page_units(state_bytes) * 2
            + readings * page_units(bytes).div_ceil(2)
            + judged(items) * 3
            + judged(state_items) * 2,
        write_units: 0,
        storage_bytes: 0,
        put_requests: 0,
        import_bytes: 0,
        searched: None,
        notes,
    }
}
