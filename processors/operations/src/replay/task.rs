//! The work of a replay, step by step: a batch a step.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use afterwrite_functions::FailedRecord;
use afterwrite_input::{InputObject, StoredInput};
use afterwrite_ledger::tables::{TableScan, Tables};
use afterwrite_model::clock::Clock;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::Bucket;
use serde::Serialize;
use serde_json::Value;

use super::batch::RecordBatch;
use super::lookup_copy::{LookupCopy, cursor_key, key_cursor};
use super::opened::{NextText, OpenedObject, ReplayCursor, stopped_elsewhere};
use super::source::InputSource;
use super::state_only::StateOnlyTables;
use super::stream::{StepStage, StreamedInput};
use super::target::{DeliveryTotal, RecordTarget, TargetOutcome};
use super::uncounted::SourcelessRecords;
use crate::backfill::BackfillTask;
use crate::jobs::{JobTask, JobTotals, StepOutcome, WorkUnit, count, run_units};

/// The name of the unit that copies remembered lookups.
const LOOKUPS: &str = "lookups";
/// The name of the unit that delivers records.
const RECORDS: &str = "records";
/// The time that one batch may take.
const BATCH_TIME: Duration = Duration::from_secs(60);
/// How long a batch is filled from a stream that has no more records yet.
const FILL_TIME: Duration = Duration::from_secs(1);
/// Deliveries of a batch, and the pause before the second.
const MAX_DELIVERIES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);
/// In a batch that is not larger, all records may fail for reasons of their own.
const FEW_RECORDS: u64 = 10;
/// The failed records whose reasons are kept.
const MAX_REASONS: usize = 100;

/// Replays records. `aggregator` and `relay` are handlers or [`super::NoTarget`].
#[derive(Debug)]
pub struct ReplayTask<A, R, B, T, C> {
    source: InputSource<B>,
    aggregator: A,
    relay: R,
    /// The objects as the job was planned with them; empty without a job.
    stored: Vec<StoredInput>,
    /// Copies lookups first, into a fresh table.
    lookups: Option<LookupCopy<T>>,
    /// The records that are passed over, if the model has no table for them.
    sourceless: Option<SourcelessRecords>,
    /// Counts rollups of rollups last, into a fresh table.
    levels: Option<Box<BackfillTask<StateOnlyTables<T>, C>>>,
    clock: C,
    opened: Mutex<Option<OpenedObject>>,
    /// The objects that were opened and can be read only once.
    begun_streams: Mutex<BTreeSet<usize>>,
    stage: StepStage,
    report: Mutex<ReplayTotals>,
}

/// The records and texts that could not be replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReplayTotals {
    /// The first records that were not processed, with the reason of each.
    pub failed: Vec<String>,
    /// The first records that can never be processed as they are.
    pub parked: Vec<String>,
    /// The first texts that are not change records.
    pub rejected: Vec<String>,
}

impl<A, R, B, T, C> ReplayTask<A, R, B, T, C>
where
    A: RecordTarget,
    R: RecordTarget,
    B: Bucket,
    T: Tables + TableScan + Clone,
    C: Clock,
{
    /// A replay of `source`.
    pub fn new(source: InputSource<B>, aggregator: A, relay: R, clock: C) -> Self {
        Self {
            source,
            aggregator,
            relay,
            stored: Vec::new(),
            lookups: None,
            sourceless: None,
            levels: None,
            clock,
            opened: Mutex::default(),
            begun_streams: Mutex::default(),
            stage: StepStage::default(),
            report: Mutex::default(),
        }
    }

    /// Reads the objects only with these contents, which align with them.
    #[must_use]
    pub fn of_stored(mut self, stored: Vec<StoredInput>) -> Self {
        self.stored = stored;
        self
    }

    /// Copies remembered lookups before any record is delivered.
    #[must_use]
    pub fn copying_lookups(mut self, lookups: LookupCopy<T>) -> Self {
        self.lookups = Some(lookups);
        self
    }

    /// Passes over the records of this state table, which is no source of the model.
    #[must_use]
    pub fn without_rollups_of(self, state_table: Option<&str>) -> Self {
        Self { sourceless: state_table.map(SourcelessRecords::of), ..self }
    }

    /// Counts rollups of rollups after the last record: `levels` is a backfill of these alone.
    #[must_use]
    pub fn counting_levels(mut self, levels: BackfillTask<StateOnlyTables<T>, C>) -> Self {
        self.levels = Some(Box::new(levels));
        self
    }

    /// The units of the job.
    #[must_use]
    pub fn units(&self) -> Vec<WorkUnit> {
        let lookups = self.lookups.as_ref().map(|_| WorkUnit::new(LOOKUPS, 0));
        let levels = self.levels.iter().flat_map(|levels| levels.units());
        lookups.into_iter().chain([WorkUnit::new(RECORDS, 1)]).chain(levels).collect()
    }

    /// The files and objects, in order.
    pub fn objects(&self) -> &[InputObject<B>] {
        &self.source.objects
    }

    /// The records and texts that this process could not replay.
    pub fn report(&self) -> ReplayTotals {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs all steps in this process, without a job: for a dry run. Calls `progress` after each step.
    ///
    /// # Errors
    /// As [`JobTask::step`].
    pub async fn run(&self, progress: impl FnMut(&JobTotals)) -> Result<JobTotals> {
        run_units(self, self.units(), progress).await
    }

    async fn copy_lookups(&self, unit: &WorkUnit) -> Result<StepOutcome> {
        let Some(lookups) = &self.lookups else { return Ok(StepOutcome::default()) };
        let after: Option<String> =
            unit.cursor.as_ref().and_then(|cursor| cursor.as_str().map(str::to_owned));
        let after = after.as_deref().and_then(cursor_key);
        let (copied, next) = lookups.copy_page(after).await?;
        let totals = JobTotals::from([(DeliveryTotal::LookupsCopied, copied)]);
        let cursor = next.as_ref().and_then(key_cursor).map(Value::String);
        Ok(StepOutcome { cursor, items: copied, spent: copied, totals, ..StepOutcome::default() })
    }

    async fn replay_batch(&self, unit: &WorkUnit) -> Result<StepOutcome> {
        let cursor = ReplayCursor::of(unit)?;
        let Some(opened) = self.open_at(&cursor).await? else { return Ok(StepOutcome::default()) };
        let (mut batch, mut outcome) = (RecordBatch::default(), StepOutcome::default());
        let next = self.fill(opened, &mut batch, &mut outcome).await?;
        if !batch.is_empty() {
            outcome.totals.add_all(&self.deliver(&batch).await?);
        }
        outcome.items = batch.len();
        outcome.spent = batch.len();
        outcome.totals.add_all(&JobTotals::from([(DeliveryTotal::Records, batch.len())]));
        outcome.cursor = next.as_ref().and_then(|opened| serde_json::to_value(&opened.cursor).ok());
        *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(outcome)
    }

    /// Reads records until a batch is full, or until a stream has no more of them a second after the first. Returns the object that the next
    /// step reads; `None` at the end of all inputs.
    async fn fill(
        &self,
        mut opened: OpenedObject,
        batch: &mut RecordBatch,
        outcome: &mut StepOutcome,
    ) -> Result<Option<OpenedObject>> {
        let mut until = None;
        while !batch.is_full() {
            match opened.next_text(&self.stage, &self.clock, until).await? {
                NextText::Record(record) => {
                    if self.delivers(&record, &mut outcome.totals) {
                        batch.push(record);
                    }
                }
                NextText::Rejected(text) => {
                    outcome.totals.add(DeliveryTotal::Rejected, 1);
                    let reason = format!("{}, line {}: {}", opened.cursor.object, text.line, text.reason);
                    self.note(|report| &mut report.rejected, [reason]);
                }
                NextText::Late => break,
                NextText::End => {
                    let index = opened.cursor.index;
                    outcome.bytes += self.source.objects.get(index).map_or(0, InputObject::bytes);
                    match self.open(index + 1, 0).await? {
                        Some(following) => opened = following,
                        None => return Ok(None),
                    }
                }
            }
            until = until.or_else(|| Some(self.clock.now().plus(FILL_TIME)));
        }
        Ok(Some(opened))
    }

    /// Whether a record is of the range, of a table of the model, and not undone.
    fn delivers(&self, record: &str, totals: &mut JobTotals) -> bool {
        let is_sourceless = self.sourceless.as_ref().is_some_and(|sourceless| sourceless.has(record));
        totals.add(DeliveryTotal::Unmatched, u64::from(is_sourceless));
        let is_of_range = !is_sourceless && self.source.range.contains_record(record);
        let is_undone = is_of_range && self.source.has_undone(record);
        totals.add(DeliveryTotal::Undone, u64::from(is_undone));
        is_of_range && !is_undone
    }

    /// Delivers a batch to both handlers, up to three times while records fail that can succeed later.
    ///
    /// # Errors
    /// Every record of a batch still fails: the service cannot be reached, and the step is repeated. If only some fail, they are reported
    /// and passed over: a lookup may name an item that is gone for good.
    async fn deliver(&self, batch: &RecordBatch) -> Result<JobTotals> {
        let event = batch.event();
        let (counted, relayed) = self.deliver_repeatedly(&event).await?;
        for outcome in [&counted, &relayed] {
            let delivered = batch.len() - outcome.not_counted;
            let all_failed = count(outcome.failed.len()) >= delivered && delivered > FEW_RECORDS;
            if let Some(error) = outcome.retryable().filter(|_| all_failed) {
                return Err(error.restated());
            }
        }
        let mut totals = JobTotals::new();
        for TargetOutcome { totals: of_target, failed, parked, not_counted } in [counted, relayed] {
            totals.add_all(&of_target);
            totals.add(DeliveryTotal::RollupsNotCounted, not_counted);
            totals.add(DeliveryTotal::Failed, count(failed.len()));
            totals.add(DeliveryTotal::Unprocessable, count(parked.len()));
            self.note(|report| &mut report.failed, failed.iter().map(reason));
            self.note(|report| &mut report.parked, parked.iter().map(reason));
        }
        Ok(totals)
    }

    async fn deliver_repeatedly(&self, event: &[u8]) -> Result<(TargetOutcome, TargetOutcome)> {
        let (mut attempt, mut earlier) = (1, JobTotals::new());
        loop {
            let deadline = self.clock.now().plus(BATCH_TIME);
            let mut counted = self.aggregator.deliver(event, deadline).await?;
            let relayed = self.relay.deliver(event, deadline).await?;
            let is_done = counted.retryable().or(relayed.retryable()).is_none();
            earlier.add_all(&counted.totals);
            if is_done || attempt == MAX_DELIVERIES {
                counted.totals = earlier;
                return Ok((counted, relayed));
            }
            // The records that were processed are skipped in the next delivery.
            self.clock.sleep(PAUSE * attempt).await;
            attempt += 1;
        }
    }

    /// The reader at a cursor: the one of the last step, or a new one. `None` at the end of all inputs.
    async fn open_at(&self, cursor: &ReplayCursor) -> Result<Option<OpenedObject>> {
        let kept = self.opened.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(opened) = kept.filter(|opened| opened.cursor == *cursor) {
            return Ok(Some(opened));
        }
        let object = self.source.objects.get(cursor.index).map(InputObject::name);
        if !cursor.object.is_empty() && object.as_ref() != Some(&cursor.object) {
            return Err(stopped_elsewhere("the object at which the job stopped is missing", &cursor.object));
        }
        self.open(cursor.index, cursor.read).await
    }

    /// Opens an object, behind the records that were read.
    async fn open(&self, index: usize, read: u64) -> Result<Option<OpenedObject>> {
        let Some(object) = self.source.objects.get(index) else { return Ok(None) };
        let cursor = ReplayCursor { index, object: object.name(), read };
        let stored = self.stored.get(index);
        if let Some(stream) = object.stream() {
            self.begin_stream(&cursor)?;
            let reader = StreamedInput::begin(stream, stored.cloned())?;
            return Ok(Some(OpenedObject::of_stream(cursor, reader)));
        }
        let reader = match stored {
            Some(stored) => object.open_stored(stored).await?,
            None => object.open().await?,
        };
        OpenedObject::of_stored(cursor, reader).map(Some)
    }

    /// Refuses to open a stream again: its records that were read before are gone.
    fn begin_stream(&self, cursor: &ReplayCursor) -> Result<()> {
        let mut begun = self.begun_streams.lock().unwrap_or_else(PoisonError::into_inner);
        if begun.insert(cursor.index) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Configuration,
            "a step cannot be repeated, because standard input and pipes can be read once",
        )
        .with("input", cursor.object.as_str())
        .hint(
            "Write the records to a file and replay that file: records that are counted already are skipped",
        ))
    }

    fn note(
        &self,
        list: impl Fn(&mut ReplayTotals) -> &mut Vec<String>,
        reasons: impl IntoIterator<Item = String>,
    ) {
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        let list = list(&mut report);
        let room = MAX_REASONS.saturating_sub(list.len());
        list.extend(reasons.into_iter().take(room));
    }
}

impl<A, R, B, T, C> JobTask for ReplayTask<A, R, B, T, C>
where
    A: RecordTarget,
    R: RecordTarget,
    B: Bucket,
    T: Tables + TableScan + Clone,
    C: Clock,
{
    async fn step(&self, unit: &WorkUnit) -> Result<StepOutcome> {
        match &self.levels {
            Some(levels) if levels.has(unit) => Box::pin(levels.step(unit)).await,
            Some(_) | None if unit.name == LOOKUPS => self.copy_lookups(unit).await,
            Some(_) | None => Box::pin(self.replay_batch(unit)).await,
        }
    }

    /// A stream may be quiet for ever. Its records that were read and not delivered are lost: such a job is not resumed.
    fn only_waits(&self) -> bool {
        self.stage.is_waiting()
    }
}

fn reason(failed: &FailedRecord) -> String {
    let number = failed.sequence_number.as_deref().unwrap_or("without a sequence number");
    format!("record {number}: {}", failed.error)
}
