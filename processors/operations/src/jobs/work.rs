//! The work of a job: its units, the result of a step of one, and what the steps count.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Counters of a job by name: `reconciled`, `skipped`, `failed`, …
pub type JobTotals = BTreeMap<String, u64>;

/// A part of a job's work that proceeds by itself: a segment of a table, an object of an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkUnit {
    /// Its name, unique within the job.
    pub name: String,
    /// The phase that it belongs to; phases run one after another, the lowest first.
    pub phase: u32,
    /// Where the next step begins; `None` at the beginning. Only the job's task reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Value>,
    /// Whether all of it is done.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_done: bool,
    /// The items that were processed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub items: u64,
    /// Their size in bytes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bytes: u64,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl WorkUnit {
    /// A unit that has not begun.
    #[must_use]
    pub fn new(name: impl Into<String>, phase: u32) -> Self {
        Self { name: name.into(), phase, ..Self::default() }
    }
}

/// The work of a job in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkSummary {
    /// All units.
    pub units: usize,
    /// The units that are done.
    pub units_done: usize,
    /// The items that were processed.
    pub items: u64,
    /// Their size in bytes.
    pub bytes: u64,
}

impl WorkSummary {
    /// The numbers of these units.
    pub(super) fn of<'u>(units: impl Iterator<Item = &'u WorkUnit>) -> Self {
        units.fold(Self::default(), |sum, unit| Self {
            units: sum.units + 1,
            units_done: sum.units_done + usize::from(unit.is_done),
            items: sum.items + unit.items,
            bytes: sum.bytes + unit.bytes,
        })
    }
}

/// The result of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepOutcome {
    /// Where the next step of the unit begins; `None` if the unit is done.
    pub cursor: Option<Value>,
    /// The items that were processed.
    pub items: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// The amount that the rate limits: usually the items that were processed.
    pub spent: u64,
    /// Counters to add to the job's totals.
    pub totals: JobTotals,
}

/// Adds to a counter.
pub(super) fn add_total(totals: &mut JobTotals, name: &str, number: u64) {
    match totals.get_mut(name) {
        Some(total) => *total += number,
        None => {
            totals.insert(name.to_owned(), number);
        }
    }
}
