//! The units of a job, which are stored outside the job's item: an item has at most 400 KB, and a job may have 100,000 units or more.
//!
//! Units are stored in parts of [`PART_UNITS`]. A part also has the counters that the steps of its units
//! have added, so that cursors and counters are saved together: after a kill, no counter has a step twice. Only parts that have changed are
//! saved, in transactions that also renew the lease, so that a process without the lease saves nothing. Parts expire 90 days later.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use afterwrite_ledger::state::units::{decode, encode};
use afterwrite_ledger::tables::item_bytes;
use afterwrite_model::record::{Item, Timestamp};
use afterwrite_model::{Error, ErrorKind, Result};

use super::state::JobState;
use super::totals::{JobTotal, JobTotals};
use super::work::{StepOutcome, WorkSummary, WorkUnit};

/// The units of a part. A cursor has at most 20 KB: the longest keys, of characters that JSON escapes. So a part always fits into an item.
pub(super) const PART_UNITS: usize = 16;
/// The most parts of a transaction, and their size in bytes: below DynamoDB's limits of 100 items and 4 MB.
const BATCH_PARTS: usize = 50;
const BATCH_BYTES: usize = 2 * 1024 * 1024;

/// A job that this process has the lease of, with its units.
#[derive(Clone, Debug, PartialEq)]
pub struct AcquiredJob {
    /// The job.
    pub state: JobState,
    /// Its work.
    pub units: JobUnits,
}

/// The units of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobUnits {
    parts: Vec<UnitPart>,
}

/// Some units, and what their steps have counted.
#[derive(Clone, Debug, Default, PartialEq)]
struct UnitPart {
    units: Vec<WorkUnit>,
    totals: JobTotals,
    is_changed: bool,
}

/// A part as it is stored: its number and its item.
pub(super) type StoredPart = (usize, Item);

impl JobUnits {
    /// Units that have not been saved.
    #[must_use]
    pub fn new(units: Vec<WorkUnit>) -> Self {
        let mut parts = Vec::with_capacity(units.len().div_ceil(PART_UNITS));
        let mut units = units.into_iter().peekable();
        while units.peek().is_some() {
            let units = units.by_ref().take(PART_UNITS).collect();
            parts.push(UnitPart { units, totals: JobTotals::new(), is_changed: true });
        }
        Self { parts }
    }

    /// The units of stored parts, in order, of a job that was planned with so many units.
    ///
    /// # Errors
    /// [`ErrorKind::State`] if a part is missing or unreadable, or has other than its number of units.
    pub(super) fn decode(items: Vec<Option<Item>>, planned: usize) -> Result<Self> {
        let mut parts = Vec::with_capacity(items.len());
        let mut left = planned;
        for item in items {
            let (units, totals): (Vec<WorkUnit>, JobTotals) = decode(&item.ok_or_else(missing_part)?)?;
            if units.len() != left.min(PART_UNITS) {
                return Err(missing_part());
            }
            left -= units.len();
            parts.push(UnitPart { units, totals, is_changed: false });
        }
        if left > 0 { Err(missing_part()) } else { Ok(Self { parts }) }
    }

    /// The units, in order.
    pub fn iter(&self) -> impl Iterator<Item = &WorkUnit> {
        self.parts.iter().flat_map(|part| &part.units)
    }

    /// The number of units.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.units.len()).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Their work in numbers.
    #[must_use]
    pub fn summary(&self) -> WorkSummary {
        WorkSummary::of(self.iter())
    }

    /// The totals of their steps.
    #[must_use]
    pub fn totals(&self) -> JobTotals {
        let mut totals = JobTotals::new();
        self.parts.iter().for_each(|part| totals.add_all(&part.totals));
        totals
    }

    pub(super) fn get(&self, index: usize) -> Option<&WorkUnit> {
        self.parts.get(index / PART_UNITS)?.units.get(index % PART_UNITS)
    }

    /// Takes the result of a step of a unit.
    pub(super) fn apply(&mut self, index: usize, outcome: &StepOutcome) {
        let Some(part) = self.parts.get_mut(index / PART_UNITS) else { return };
        let Some(unit) = part.units.get_mut(index % PART_UNITS) else { return };
        unit.is_done = outcome.cursor.is_none();
        unit.cursor.clone_from(&outcome.cursor);
        unit.items += outcome.items;
        unit.bytes += outcome.bytes;
        part.totals.add_all(&outcome.totals);
        part.is_changed = true;
    }

    /// Adds to a counter, in the first part.
    pub(super) fn add(&mut self, total: impl JobTotal, number: u64) {
        let Some(part) = self.parts.first_mut().filter(|_| number > 0) else { return };
        part.totals.add(total, number);
        part.is_changed = true;
    }

    /// Sets units back to their beginning, because the results of their steps are lost.
    pub(crate) fn set_back(&mut self, phases: &RangeInclusive<u32>) {
        for part in &mut self.parts {
            for unit in part.units.iter_mut().filter(|unit| phases.contains(&unit.phase)) {
                (unit.is_done, unit.cursor, unit.items, unit.bytes) = (false, None, 0, 0);
                part.is_changed = true;
            }
        }
    }

    /// Forgets counters, because the steps that have added to them are repeated.
    pub(crate) fn forget_totals(&mut self, forgotten: &[impl JobTotal + Copy]) {
        for part in &mut self.parts {
            let before = part.totals.len();
            forgotten.iter().for_each(|total| part.totals.remove(*total));
            part.is_changed |= part.totals.len() != before;
        }
    }

    /// Notes that parts are to be saved again.
    pub(super) fn mark_changed<'p>(&mut self, parts: impl Iterator<Item = &'p StoredPart>) {
        for (number, _) in parts {
            if let Some(part) = self.parts.get_mut(*number) {
                part.is_changed = true;
            }
        }
    }

    /// The parts that have changed since this was called last, as they are to be stored.
    pub(super) fn take_changed(&mut self, now: Timestamp) -> Result<Vec<StoredPart>> {
        let changed = self.parts.iter_mut().enumerate().filter(|(_, part)| part.is_changed);
        changed
            .map(|(number, part)| {
                part.is_changed = false;
                Ok((number, encode(&part.units, &part.totals, now)?))
            })
            .collect()
    }
}

/// Parts for one transaction each.
pub(super) fn batches(parts: &[StoredPart]) -> Vec<&[StoredPart]> {
    let (mut batches, mut rest) = (Vec::new(), parts);
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |(_, item): &&StoredPart| {
            bytes += item_bytes(item);
            bytes <= BATCH_BYTES
        };
        let count = rest.iter().take(BATCH_PARTS).take_while(fits).count().max(1);
        let (batch, after) = rest.split_at_checked(count).unwrap_or((rest, &[]));
        batches.push(batch);
        rest = after;
    }
    batches
}

fn missing_part() -> Error {
    Error::new(
        ErrorKind::State,
        "units of the job are missing: they are kept for 90 days, and only Afterwrite may write them",
    )
    .hint("Plan the job again with the same arguments; `afterwrite jobs show` has them")
}

/// The units that are not done, by phase.
#[derive(Debug, Default)]
pub(super) struct UnitQueue {
    /// The units that no step runs of.
    idle: BTreeMap<u32, BTreeSet<usize>>,
    /// The number of units that are not done.
    open: BTreeMap<u32, usize>,
}

impl UnitQueue {
    pub(super) fn of(units: &JobUnits) -> Self {
        let mut queue = Self::default();
        for (index, unit) in units.iter().enumerate().filter(|(_, unit)| !unit.is_done) {
            queue.idle.entry(unit.phase).or_default().insert(index);
            *queue.open.entry(unit.phase).or_default() += 1;
        }
        queue
    }

    /// Whether every unit is done.
    pub(super) fn is_done(&self) -> bool {
        self.open.is_empty()
    }

    /// Takes the next unit: the first idle one of the lowest phase that is not done.
    pub(super) fn take(&mut self) -> Option<usize> {
        let phase = self.open.keys().next()?;
        self.idle.get_mut(phase)?.pop_first()
    }

    /// Takes a unit back after a step.
    pub(super) fn put_back(&mut self, index: usize, phase: u32, is_done: bool) {
        if !is_done {
            self.idle.entry(phase).or_default().insert(index);
            return;
        }
        if let Some(open) = self.open.get_mut(&phase) {
            *open -= 1;
            if *open == 0 {
                self.open.remove(&phase);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(count: usize) -> Vec<WorkUnit> {
        (0..count).map(|index| WorkUnit::new(format!("u{index}"), u32::from(index >= 20))).collect()
    }

    #[test]
    fn changed_parts_are_stored_and_read_back() {
        let mut units = JobUnits::new(units(40));
        let now = Timestamp::from_epoch_seconds(1);
        let mut stored: BTreeMap<usize, Item> = units.take_changed(now).unwrap().into_iter().collect();
        assert_eq!(stored.len(), 3);
        let totals = JobTotals::from([("counted", 2)]);
        let cursor = Some(serde_json::json!({ "PK": { "S": "a" } }));
        units.apply(17, &StepOutcome { cursor, items: 5, totals, ..StepOutcome::default() });
        let changed = units.take_changed(now).unwrap();
        assert_eq!(changed.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1]);
        stored.extend(changed);
        let read = JobUnits::decode(stored.into_values().map(Some).collect(), 40).unwrap();
        assert_eq!(read, units);
        assert_eq!((read.summary().items, read.totals()["counted"], read.len()), (5, 2, 40));
    }

    #[test]
    fn a1_parts_with_fewer_or_more_units_than_were_planned_are_refused() {
        let now = Timestamp::from_epoch_seconds(1);
        let stored = |count: usize| {
            let parts = JobUnits::new(units(count)).take_changed(now).unwrap();
            parts.into_iter().map(|(_, item)| Some(item)).collect::<Vec<_>>()
        };
        assert_eq!(JobUnits::decode(stored(20), 20).unwrap().len(), 20);
        let emptied = encode(&Vec::<WorkUnit>::new(), &JobTotals::new(), now).unwrap();
        let damaged = [
            (vec![Some(emptied.clone())], 4),
            (vec![stored(20).remove(0), Some(emptied)], 20),
            (stored(3), 4),
            (stored(5), 4),
            (stored(16), 20),
            (vec![stored(20).remove(1), stored(20).remove(1)], 20),
            (vec![None], 4),
        ];
        for (parts, planned) in damaged {
            let error = JobUnits::decode(parts, planned).unwrap_err();
            assert!(error.kind() == ErrorKind::State && error.to_string().contains("units"), "{error}");
        }
    }

    #[test]
    fn a_part_of_the_longest_cursors_fits_into_an_item() {
        let key =
            serde_json::json!({ "PK": { "S": "\u{1}".repeat(2048) }, "SK": { "S": "\u{1}".repeat(1024) } });
        let unit = WorkUnit { cursor: Some(key), ..WorkUnit::new("items library 99999/100000", 1) };
        let mut units = JobUnits::new(vec![unit; PART_UNITS]);
        let item = units.take_changed(Timestamp::from_epoch_seconds(1)).unwrap().remove(0).1;
        assert!(item_bytes(&item) < 400 * 1024);
        let parts = vec![(0, item); 120];
        let batches = batches(&parts);
        assert_eq!(batches.iter().map(|batch| batch.len()).sum::<usize>(), 120);
        let bytes = |batch: &&[StoredPart]| batch.iter().map(|(_, item)| item_bytes(item)).sum::<usize>();
        assert!(batches.iter().all(|batch| bytes(batch) < 4 * 1024 * 1024));
    }

    #[test]
    fn units_are_taken_phase_by_phase() {
        let units = JobUnits::new(units(21));
        let mut queue = UnitQueue::of(&units);
        let first: Vec<_> = std::iter::from_fn(|| queue.take()).collect();
        assert_eq!(first, (0..20).collect::<Vec<_>>());
        queue.put_back(3, 0, false);
        assert_eq!(queue.take(), Some(3));
        for index in first {
            queue.put_back(index, 0, true);
        }
        assert_eq!((queue.take(), queue.is_done()), (Some(20), false));
        queue.put_back(20, 1, true);
        assert!(queue.is_done() && queue.take().is_none());
    }
}
