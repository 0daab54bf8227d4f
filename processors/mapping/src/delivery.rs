//! Delivers a batch until its function has accepted it, or what blocks it is discarded.
//!
//! ```text
//! batch ─▶ part ─┬─ older than the maximum record age ─────────────────────────▶ discarded
//!                └─ invoked ─┬─ accepted ──────────────────────────────────────▶ done
//!                            ├─ failed from a record on ─▶ the part from there ──▶ again
//!                            ├─ failed, may be split ────▶ two halves ───────────▶ again
//!                            └─ failed, may not ─────────▶ a retry used up ──┬───▶ again, after a pause
//!                                                                            └───▶ no retry left: discarded
//! ```
//!
//! A split does not use up a retry. A part that the response cuts keeps its count: with `BisectBatchOnFunctionError` the cut uses up
//! none, without it one.

use std::pin::pin;

use afterwrite_model::clock::Clock;
use afterwrite_model::{Error, ErrorKind, Result};
use fastrand::Rng;
use futures::future::{Either, select};
use uuid::Uuid;

use crate::context::MappingContext;
use crate::control::RunMode;
use crate::faults::InvocationFate;
use crate::handler::EventHandler;
use crate::on_failure::{DiscardCondition, DiscardedBatch, event_json};
use crate::progress::{RetriedBatch, SkippedRecord, length};
use crate::response::{BatchVerdict, judge_response};
use crate::sample::derived_random;
use crate::stream::StreamRecord;

/// Delivers the batches of a shard, or of one of the lanes into which its items are hashed, one after the other.
pub(crate) struct LaneDelivery<'a, Function, C> {
    context: MappingContext<'a, Function, C>,
    shard: &'a str,
    /// The name of the lane: the shard's, and its number after the first.
    lane: String,
    random: Rng,
}

/// How the delivery of a batch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryEnd {
    /// Each record is accepted or discarded.
    Finished,
    /// The mapping was stopped; the records from this index on are not delivered.
    StoppedAt(usize),
}

/// The rest of a batch, or a part of it.
#[derive(Clone, Copy)]
struct BatchPart<'r> {
    records: &'r [StreamRecord],
    /// The index of its first record in the batch.
    start: usize,
    /// Retries that are used up.
    retries: u32,
    /// Invocations so far with any of its records.
    invocations: u32,
    /// Invocations in a row that delivered nothing.
    failures: u32,
}

/// The outcome of an invocation.
struct InvocationOutcome {
    verdict: BatchVerdict,
    reason: String,
    is_function_error: bool,
    /// Whether the failure was injected: it uses up no retry.
    is_injected: bool,
}

impl InvocationOutcome {
    fn failed(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { verdict: BatchVerdict::Failed, reason, is_function_error: true, is_injected: false }
    }

    fn injected(reason: impl Into<String>) -> Self {
        Self { is_injected: true, ..Self::failed(reason) }
    }
}

impl<'r> BatchPart<'r> {
    fn new(records: &'r [StreamRecord]) -> Self {
        Self { records, start: 0, retries: 0, invocations: 0, failures: 0 }
    }

    /// The part without its first records.
    fn after(self, length: usize) -> Self {
        let records = self.records.get(length..).unwrap_or_default();
        Self { records, start: self.start + length, ..self }
    }

    fn halves(self) -> [Self; 2] {
        let middle = self.records.len() / 2;
        let first = Self { records: self.records.get(..middle).unwrap_or_default(), ..self };
        [first, self.after(middle)]
    }
}

impl<'a, Function: EventHandler, C: Clock> LaneDelivery<'a, Function, C> {
    pub(crate) fn new(context: MappingContext<'a, Function, C>, shard: &'a str, lane: usize) -> Self {
        let lane = if lane == 0 { shard.to_owned() } else { format!("{shard}#{lane}") };
        Self { random: derived_random(context.faults.current().seed, &lane), context, shard, lane }
    }

    /// Delivers a batch.
    pub(crate) async fn deliver(&mut self, batch: &[StreamRecord]) -> Result<DeliveryEnd> {
        let (end, skipped) = self.deliver_all(batch).await?;
        self.context.progress.settle(&self.lane);
        if end == DeliveryEnd::Finished {
            self.context.progress.count(|counts| counts.accepted += length(batch) - skipped);
            if self.context.faults.current().duplicates(&mut self.random) {
                let again = self.choose_stretch(batch);
                self.context.progress.count(|counts| counts.redelivered += length(again));
                self.deliver_all(again).await?;
                self.context.progress.settle(&self.lane);
            }
        }
        Ok(end)
    }

    /// The whole batch, or any stretch of it.
    fn choose_stretch<'r>(&mut self, batch: &'r [StreamRecord]) -> &'r [StreamRecord] {
        let start = if self.random.bool() { 0 } else { self.random.usize(..batch.len().max(1)) };
        let rest = batch.get(start..).unwrap_or_default();
        let length = if self.random.bool() { rest.len() } else { self.random.usize(1..=rest.len().max(1)) };
        rest.get(..length).unwrap_or(rest)
    }

    /// Delivers until nothing is left; returns the number of discarded records.
    async fn deliver_all(&mut self, records: &[StreamRecord]) -> Result<(DeliveryEnd, u64)> {
        // A stack: the next part is the last one.
        let mut parts = vec![BatchPart::new(records)];
        let mut skipped = 0;
        while let Some(part) = parts.pop() {
            let expired = self.count_expired(part.records);
            if expired > 0 {
                skipped += u64::try_from(expired).unwrap_or(u64::MAX);
                let records = part.records.get(..expired).unwrap_or_default();
                let old = BatchPart { records, ..part };
                self.discard(old, DiscardCondition::RecordAgeExceeded, "the record is too old", false).await;
            }
            let part = part.after(expired);
            if part.records.is_empty() {
                continue;
            }
            if part.invocations > 0 && self.context.control.mode() == RunMode::Stopping {
                return Ok((DeliveryEnd::StoppedAt(part.start), skipped));
            }
            skipped += self.deliver_part(part, &mut parts).await?;
        }
        Ok((DeliveryEnd::Finished, skipped))
    }

    /// Invokes the function with a part, and adds the parts that are left; returns the number of discarded records.
    async fn deliver_part<'r>(&mut self, part: BatchPart<'r>, parts: &mut Vec<BatchPart<'r>>) -> Result<u64> {
        self.context.progress.count(|counts| {
            counts.batches += 1;
            counts.retries += u64::from(part.invocations > 0);
        });
        let outcome = self.invoke(part.records).await?;
        let part = BatchPart { invocations: part.invocations + 1, ..part };
        if outcome.verdict == BatchVerdict::Accepted {
            self.context.progress.settle(&self.lane);
            return Ok(0);
        }
        self.context.progress.count(|counts| counts.failed += 1);
        if let BatchVerdict::FailedFrom(index @ 1..) = outcome.verdict
            && self.context.settings.bisects
        {
            parts.push(BatchPart { failures: 0, ..part.after(index) });
            self.note_retry(parts, &outcome.reason);
            return Ok(0);
        }
        let failed = BatchPart { failures: part.failures + 1, ..part };
        let discarded = self.divide_or_discard(failed, &outcome, parts).await;
        if discarded > 0 {
            self.context.progress.settle(&self.lane);
            return Ok(discarded);
        }
        self.note_retry(parts, &outcome.reason);
        self.pause(failed.failures).await;
        Ok(0)
    }

    /// Adds the parts of a failed part that are delivered again; returns the number of records that are discarded instead.
    async fn divide_or_discard<'r>(
        &self,
        failed: BatchPart<'r>,
        outcome: &InvocationOutcome,
        parts: &mut Vec<BatchPart<'r>>,
    ) -> u64 {
        let settings = self.context.settings;
        if settings.bisects && failed.records.len() > 1 {
            let [first, second] = failed.halves();
            parts.extend([second, first]);
            return 0;
        }
        let rest = match outcome.verdict {
            BatchVerdict::FailedFrom(index) => failed.after(index),
            BatchVerdict::Accepted | BatchVerdict::Failed => failed,
        };
        if settings.max_retries.is_some_and(|most| rest.retries >= most) && !outcome.is_injected {
            let condition = DiscardCondition::RetryAttemptsExhausted;
            self.discard(rest, condition, &outcome.reason, outcome.is_function_error).await;
            return length(rest.records);
        }
        parts.push(BatchPart { retries: rest.retries + u32::from(!outcome.is_injected), ..rest });
        0
    }

    /// Notes the next part as one that is delivered again, for this reason.
    fn note_retry(&self, parts: &[BatchPart<'_>], reason: &str) {
        let Some((next, first)) = parts.last().and_then(|next| Some((next, next.records.first()?))) else {
            return;
        };
        let retried = RetriedBatch {
            first: first.sequence_number.clone(),
            records: length(next.records),
            invocations: next.invocations,
            reason: reason.to_owned(),
            since: self.context.clock.now(),
        };
        self.context.progress.retry(&self.lane, retried);
    }

    /// Waits before a retry, or until the mapping is stopped.
    async fn pause(&self, failures: u32) {
        let pause = self.context.clock.sleep(self.context.pace.pause_before(failures));
        select(pin!(pause), pin!(self.context.control.stopped())).await;
    }

    /// How many records at the beginning are older than the mapping allows.
    fn count_expired(&self, records: &[StreamRecord]) -> usize {
        let Some(limit) = self.context.settings.max_record_age else { return 0 };
        let now = self.context.clock.now();
        let is_old =
            |record: &&StreamRecord| record.created_at().is_some_and(|created| now.since(created) > limit);
        records.iter().take_while(is_old).count()
    }

    async fn invoke(&mut self, records: &[StreamRecord]) -> Result<InvocationOutcome> {
        let faults = self.context.faults.current();
        let delay = faults.invocation_delay(&mut self.random);
        if !delay.is_zero() {
            self.context.clock.sleep(delay).await;
        }
        let fate = faults.invocation_fate(&mut self.random);
        let limit = match fate {
            InvocationFate::Killed(after) => after,
            InvocationFate::Handled | InvocationFate::ResponseLost => self.context.pace.invocation_timeout,
        };
        let event = event_json(records).into_bytes();
        let handling = self.context.function.handle(event, self.context.pace.invocation_timeout);
        let handled = match select(pin!(handling), pin!(self.context.clock.sleep(limit))).await {
            Either::Left((handled, _)) => handled,
            Either::Right(_) if fate == InvocationFate::Handled => {
                return Ok(InvocationOutcome::failed("the invocation exceeded its timeout"));
            }
            Either::Right(_) => return Ok(InvocationOutcome::injected("the function was killed (injected)")),
        };
        match (handled, fate) {
            (Err(error), _) => failed_invocation(error),
            (Ok(_), InvocationFate::ResponseLost) => {
                Ok(InvocationOutcome::injected("the response was lost (injected)"))
            }
            (Ok(response), _) => Ok(self.judge(&response, records)),
        }
    }

    fn judge(&self, response: &[u8], records: &[StreamRecord]) -> InvocationOutcome {
        let (verdict, reason) = if self.context.settings.reports_item_failures {
            let numbers: Vec<&str> = records.iter().map(|record| record.sequence_number.as_str()).collect();
            judge_response(response, &numbers)
        } else {
            (BatchVerdict::Accepted, "")
        };
        InvocationOutcome { verdict, reason: reason.to_owned(), is_function_error: false, is_injected: false }
    }

    /// Gives up a part: it goes to the on-failure destination, if the mapping has one.
    async fn discard(
        &self,
        part: BatchPart<'_>,
        condition: DiscardCondition,
        reason: &str,
        is_function_error: bool,
    ) {
        for record in part.records {
            self.context.progress.add_skipped(SkippedRecord {
                shard: self.shard.to_owned(),
                sequence_number: record.sequence_number.clone(),
                reason: reason.to_owned(),
            });
        }
        let Some(destination) = self.context.on_failure else { return };
        let discarded = DiscardedBatch {
            mapping: self.context.id,
            function: &self.context.settings.function_name,
            stream_arn: self.context.stream_arn,
            shard: self.shard,
            records: part.records,
            condition,
            invocations: part.invocations,
            is_function_error,
            discarded_at: self.context.clock.now(),
        };
        let key = discarded.object_key(Uuid::new_v4());
        let stored = destination.store(&key, discarded.object_body(Uuid::new_v4())).await;
        self.context.progress.count(|counts| match stored {
            Ok(()) => counts.on_failure_objects += 1,
            Err(_) => counts.lost_batches += 1,
        });
    }
}

/// The outcome of an invocation that failed as a whole, or the error that ends the mapping.
fn failed_invocation(error: Error) -> Result<InvocationOutcome> {
    if ends_mapping(error.kind()) { Err(error) } else { Ok(InvocationOutcome::failed(error.to_string())) }
}

/// Whether an error of this kind, from a function, ends the mapping: it is not the fault of a record, and a retry does not help.
#[must_use]
pub fn ends_mapping(kind: ErrorKind) -> bool {
    match kind {
        ErrorKind::Event | ErrorKind::Stream | ErrorKind::Model | ErrorKind::Configuration => true,
        ErrorKind::Record
        | ErrorKind::Misfit
        | ErrorKind::Unavailable
        | ErrorKind::Conflict
        | ErrorKind::Rejected
        | ErrorKind::Unreadable
        | ErrorKind::State => false,
    }
}
