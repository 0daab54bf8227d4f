//! The work of a redrive, step by step: some objects or parked items a step.

use std::sync::{Mutex, PoisonError};

use afterwrite_ledger::tables::Tables;
use afterwrite_model::clock::Clock;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::Bucket;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::objects::{FailureObject, ObjectOutcome, ObjectRedrive};
use super::parked::{ParkedItem, ParkedRedrive, ParkedResult};
use crate::jobs::{JobTask, JobTotals, StepOutcome, WorkUnit, count, job_totals, run_units};
use crate::replay::RecordTarget;

/// The units of the job.
const OBJECTS: &str = "objects";
const PARKED: &str = "parked";
/// Parked items of a step.
const STEP_ITEMS: usize = 25;
/// The reasons that are kept.
const MAX_REASONS: usize = 100;

job_totals! {
    /// The counters of a redrive.
    pub enum RedriveTotal {
        Objects = "objects",
        ObjectsFailed = "objects_failed",
        /// Objects that were listed, and that another redrive has moved before they were read.
        Moved = "moved_by_another_redrive",
        Reconciled = "reconciled",
        /// Parked items that another write healed meanwhile.
        HealedBefore = "healed_before",
        StillParked = "still_parked",
    }
}

/// Redrives on-failure objects, parked items, or both: the objects first, because they may heal parked items.
#[derive(Debug)]
pub struct RedriveTask<A, R, B, T, C> {
    /// The objects, if any.
    objects: Option<ObjectRedrive<A, R, B, C>>,
    /// The parked items, oldest first, and how they are reconciled.
    parked: Option<(ParkedRedrive<T, C>, Vec<ParkedItem>)>,
    listed: Mutex<Option<Vec<FailureObject>>>,
    report: Mutex<RedriveReport>,
}

/// The objects and items that were not redriven.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RedriveReport {
    /// The first objects that stay, with the reason of each.
    pub staying_objects: Vec<StayingObject>,
    /// The first items that stay parked, with the reason of each.
    pub staying_parked: Vec<StayingParked>,
}

/// An object that stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StayingObject {
    /// Its key.
    pub key: String,
    /// The first reason.
    pub reason: String,
}

/// An item that stays parked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StayingParked {
    /// The item.
    #[serde(flatten)]
    pub item: ParkedItem,
    /// Why it stays.
    pub reason: String,
}

/// The last object that was tried.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct ObjectCursor {
    modified_ms: i64,
    key: String,
}

impl<A, R, B, T, C> RedriveTask<A, R, B, T, C>
where
    A: RecordTarget,
    R: RecordTarget,
    B: Bucket,
    T: Tables,
    C: Clock,
{
    /// A redrive of these objects and parked items.
    #[must_use]
    pub fn new(
        objects: Option<ObjectRedrive<A, R, B, C>>,
        parked: Option<(ParkedRedrive<T, C>, Vec<ParkedItem>)>,
    ) -> Self {
        Self { objects, parked, listed: Mutex::default(), report: Mutex::default() }
    }

    /// The units of the job.
    #[must_use]
    pub fn units(&self) -> Vec<WorkUnit> {
        let objects = self.objects.as_ref().map(|_| WorkUnit::new(OBJECTS, 0));
        let parked = self.parked.as_ref().map(|_| WorkUnit::new(PARKED, 1));
        objects.into_iter().chain(parked).collect()
    }

    /// The objects and items that this process did not redrive.
    pub fn report(&self) -> RedriveReport {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The number of objects and of parked items.
    ///
    /// # Errors
    /// As [`Bucket::list`].
    pub async fn count(&self) -> Result<(usize, usize)> {
        let objects = match &self.objects {
            Some(objects) => objects.list().await?.len(),
            None => 0,
        };
        Ok((objects, self.parked.as_ref().map_or(0, |(_, parked)| parked.len())))
    }

    /// Runs all steps in this process, without a job: for a dry run.
    ///
    /// # Errors
    /// As [`JobTask::step`].
    pub async fn run(&self) -> Result<JobTotals> {
        run_units(self, self.units(), |_| {}).await
    }

    /// Redrives one object: the first behind the cursor.
    async fn redrive_object(&self, unit: &WorkUnit) -> Result<StepOutcome> {
        let Some(objects) = &self.objects else { return Ok(StepOutcome::default()) };
        let after: Option<ObjectCursor> = read_cursor(unit)?;
        let Some(object) = self.next_object(objects, after.as_ref()).await? else {
            return Ok(StepOutcome::default());
        };
        let (mut totals, outcome) = Box::pin(objects.redrive(&object)).await?;
        match outcome {
            ObjectOutcome::Processed => totals.add(RedriveTotal::Objects, 1),
            ObjectOutcome::Moved => totals.add(RedriveTotal::Moved, 1),
            ObjectOutcome::Stays(error) => {
                totals.add(RedriveTotal::ObjectsFailed, 1);
                let staying = StayingObject { key: object.key.clone(), reason: error.to_string() };
                let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
                if report.staying_objects.len() < MAX_REASONS {
                    report.staying_objects.push(staying);
                }
            }
        }
        let cursor = ObjectCursor { modified_ms: object.modified_ms, key: object.key };
        Ok(StepOutcome {
            cursor: write_cursor(&cursor)?,
            items: 1,
            spent: 1,
            totals,
            ..StepOutcome::default()
        })
    }

    /// The oldest object behind the cursor. The list is read once in each process.
    async fn next_object(
        &self,
        objects: &ObjectRedrive<A, R, B, C>,
        after: Option<&ObjectCursor>,
    ) -> Result<Option<FailureObject>> {
        let is_listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if !is_listed {
            let listed = objects.list().await?;
            *self.listed.lock().unwrap_or_else(PoisonError::into_inner) = Some(listed);
        }
        let listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let listed = listed.as_deref().unwrap_or_default();
        let is_before = |object: &FailureObject| {
            after.is_some_and(|after| (object.modified_ms, &object.key) <= (after.modified_ms, &after.key))
        };
        Ok(listed.get(listed.partition_point(is_before)).cloned())
    }

    async fn redrive_parked(&self, unit: &WorkUnit) -> Result<StepOutcome> {
        let Some((redrive, parked)) = &self.parked else { return Ok(StepOutcome::default()) };
        let after: Option<ParkedItem> = read_cursor(unit)?;
        let behind = parked.iter().filter(|item| after.as_ref().is_none_or(|after| *item > after));
        let items: Vec<ParkedItem> = behind.take(STEP_ITEMS).cloned().collect();
        let Some(last) = items.last() else { return Ok(StepOutcome::default()) };
        let cursor = write_cursor(last)?;
        let mut totals = JobTotals::new();
        let results = redrive.redrive(&items, &mut totals).await?;
        redrive.note_lives(&items, &mut totals).await?;
        let count = count(items.len());
        for (item, result) in items.into_iter().zip(results) {
            match result {
                ParkedResult::Reconciled => totals.add(RedriveTotal::Reconciled, 1),
                ParkedResult::Healed => totals.add(RedriveTotal::HealedBefore, 1),
                ParkedResult::Stays(reason) => {
                    totals.add(RedriveTotal::StillParked, 1);
                    let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
                    if report.staying_parked.len() < MAX_REASONS {
                        report.staying_parked.push(StayingParked { item, reason });
                    }
                }
            }
        }
        Ok(StepOutcome { cursor, items: count, spent: count, totals, ..StepOutcome::default() })
    }
}

impl<A, R, B, T, C> JobTask for RedriveTask<A, R, B, T, C>
where
    A: RecordTarget,
    R: RecordTarget,
    B: Bucket,
    T: Tables,
    C: Clock,
{
    async fn step(&self, unit: &WorkUnit) -> Result<StepOutcome> {
        match unit.name.as_str() {
            OBJECTS => Box::pin(self.redrive_object(unit)).await,
            _ => Box::pin(self.redrive_parked(unit)).await,
        }
    }
}

fn read_cursor<T: DeserializeOwned>(unit: &WorkUnit) -> Result<Option<T>> {
    let cursor = unit.cursor.clone().map(serde_json::from_value).transpose();
    cursor.map_err(|error| Error::new(ErrorKind::State, "the job's cursor cannot be read").caused_by(error))
}

fn write_cursor(cursor: &impl Serialize) -> Result<Option<Value>> {
    let value = serde_json::to_value(cursor);
    value
        .map(Some)
        .map_err(|error| Error::new(ErrorKind::State, "the job's cursor cannot be written").caused_by(error))
}
