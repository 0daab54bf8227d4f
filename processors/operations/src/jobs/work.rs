//! The work of a job: its units, what each unit means to the task, and the result of a step.

use std::collections::HashMap;

use afterwrite_model::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::totals::JobTotals;

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

/// The units of a task, each with its meaning: the part of the work that it stands for. A stored unit has a name only.
#[derive(Debug)]
pub(crate) struct UnitMeanings<M> {
    units: Vec<(WorkUnit, M)>,
    by_name: HashMap<String, usize>,
}

impl<M> UnitMeanings<M> {
    pub(crate) fn new(units: Vec<(WorkUnit, M)>) -> Self {
        let by_name = units.iter().enumerate().map(|(index, (unit, _))| (unit.name.clone(), index)).collect();
        Self { units, by_name }
    }

    /// The units with their meanings, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(WorkUnit, M)> {
        self.units.iter()
    }

    /// The units, in order.
    pub(crate) fn units(&self) -> Vec<WorkUnit> {
        self.units.iter().map(|(unit, _)| unit.clone()).collect()
    }

    /// Whether the task has a unit.
    pub(crate) fn has(&self, unit: &WorkUnit) -> bool {
        self.by_name.contains_key(&unit.name)
    }

    /// The meaning of a unit.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if the arguments of the job do not name the unit.
    pub(crate) fn find(&self, unit: &WorkUnit) -> Result<&M> {
        let known = self.by_name.get(&unit.name).and_then(|index| self.units.get(*index));
        known.map(|(_, meaning)| meaning).ok_or_else(|| unknown_unit(unit))
    }
}

/// The error of a unit that the arguments of its job do not name.
pub(crate) fn unknown_unit(unit: &WorkUnit) -> Error {
    Error::new(ErrorKind::Configuration, "the job has a unit that its arguments do not name")
        .with("unit", unit.name.as_str())
        .hint("Resume the job with the model that it was created with, or create it again")
}
