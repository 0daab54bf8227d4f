//! Reads one shard and delivers its records.
//!
//! ```text
//!            read                  filter             hash of the item's key          batch
//! shard ─────────▶ page of records ──────▶ accepted ─────────────────────────▶ lanes ──────▶ LaneDelivery ─▶ function
//!                                                                                │ first record that is not delivered
//!                                                                                ▼
//!                                                          checkpoint: every record before it is done
//! ```

use std::collections::VecDeque;

use afterwrite_model::Result;
use afterwrite_model::clock::Clock;
use afterwrite_model::record::Timestamp;
use futures::future::LocalBoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};

use crate::checkpoint::{CheckpointStore, ShardCheckpoint};
use crate::context::MappingContext;
use crate::control::RunMode;
use crate::delivery::{DeliveryEnd, LaneDelivery};
use crate::handler::EventHandler;
use crate::lane::{NumberedRecord, ShardLane, is_overfull};
use crate::progress::length;
use crate::shard_reader::{ReadMoment, ReadOutcome, ShardReader, read};
use crate::stream::{RecordPage, ShardPosition, StreamShard, StreamSource};

/// How the delivery of a shard ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ShardEnd {
    /// The shard is closed, and all of it is delivered.
    Finished {
        /// Whether no record was read.
        is_empty: bool,
    },
    /// The mapping was drained or stopped.
    Paused,
    /// Records after this position were trimmed before they were read.
    Gap(ShardPosition),
}

/// A shard to deliver.
pub(crate) struct ShardTask<'a, Source, Function, C> {
    pub(crate) context: MappingContext<'a, Function, C>,
    pub(crate) source: &'a Source,
    pub(crate) checkpoints: &'a dyn CheckpointStore,
    pub(crate) shard: &'a StreamShard,
    pub(crate) position: ShardPosition,
    /// Whether all records after the position belong to the mapping. Only then are records missing if they cannot be read.
    pub(crate) is_owed: bool,
    /// Whether the shard ends at a gap; otherwise it goes on with the oldest record that is kept, as Lambda does.
    pub(crate) stops_at_gaps: bool,
}

/// Something that a running shard waits for.
enum ShardEvent<'a, Function, C> {
    Read(Result<ReadOutcome>, ShardReader),
    Delivered(Result<DeliveryEnd>, usize, Vec<NumberedRecord>, Box<LaneDelivery<'a, Function, C>>),
    WindowPassed,
}

type PendingEvents<'a, Function, C> = FuturesUnordered<LocalBoxFuture<'a, ShardEvent<'a, Function, C>>>;

/// A shard while it is delivered.
struct RunningShard<'a, Source, Function, C> {
    task: ShardTask<'a, Source, Function, C>,
    lanes: Vec<ShardLane<'a, Function, C>>,
    /// `None` while a read is under way, and after the last one.
    reader: Option<ShardReader>,
    reading: ReadingState,
    /// Whether batches do not wait for their windows, because the mapping is draining and nothing else was read.
    flushes: bool,
    /// The records that were read, and are not behind the checkpoint: number and sequence number.
    history: VecDeque<(u64, String)>,
    next_number: u64,
    /// The reads that found the end: the number of the next record, and when the read began.
    ends: VecDeque<(u64, Timestamp)>,
    is_timer_set: bool,
    checkpoint: Option<String>,
    saved: Option<String>,
    saved_at: Timestamp,
    /// Whether a record was delivered that the saved checkpoint is before.
    has_delivered: bool,
}

/// Whether there is more to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadingState {
    Open,
    /// The end of the stream, at a time when the mapping was draining.
    Drained,
    /// The end of a closed shard.
    Finished,
}

impl<'a, Source: StreamSource, Function: EventHandler, C: Clock> ShardTask<'a, Source, Function, C> {
    /// Delivers the shard until it ends.
    pub(crate) async fn run(self) -> Result<ShardEnd> {
        let lanes = 0..self.context.settings.parallelization_factor.max(1);
        let (position, is_owed) = (self.position.clone(), self.is_owed);
        let reader = ShardReader { iterator: None, position, is_owed, is_at_end: false };
        self.context.progress.enter(&self.shard.id);
        let running = RunningShard {
            lanes: lanes
                .map(|lane| ShardLane::new(LaneDelivery::new(self.context, &self.shard.id, lane)))
                .collect(),
            reader: Some(reader),
            reading: ReadingState::Open,
            flushes: false,
            history: VecDeque::new(),
            next_number: 0,
            ends: VecDeque::new(),
            is_timer_set: false,
            checkpoint: None,
            saved: None,
            saved_at: self.context.clock.now(),
            has_delivered: false,
            task: self,
        };
        running.run().await
    }
}

impl<'a, Source: StreamSource, Function: EventHandler, C: Clock> RunningShard<'a, Source, Function, C> {
    async fn run(mut self) -> Result<ShardEnd> {
        let mut events = PendingEvents::new();
        let mut deliveries = 0_usize;
        loop {
            let mode = self.task.context.control.mode();
            if mode < RunMode::Stopping {
                deliveries += self.start_deliveries(&mut events);
                self.start_read(&mut events);
                self.set_timer(&mut events);
            }
            let is_done = self.reading != ReadingState::Open || mode == RunMode::Stopping;
            if is_done && deliveries == 0 {
                break;
            }
            match events.next().await {
                None => break,
                Some(ShardEvent::WindowPassed) => self.is_timer_set = false,
                Some(ShardEvent::Read(outcome, reader)) => match outcome? {
                    ReadOutcome::Page(page, moment, began) => {
                        self.take_page(page, (moment, began), reader);
                    }
                    ReadOutcome::Gap(position) => {
                        self.save_checkpoint().await?;
                        return Ok(ShardEnd::Gap(position));
                    }
                },
                Some(ShardEvent::Delivered(end, lane, batch, delivery)) => {
                    deliveries -= 1;
                    self.finish_delivery(end?, lane, batch, delivery);
                }
            }
            self.save_if_due().await?;
        }
        self.end().await
    }

    /// Starts every batch that is due, in lanes that have none under way.
    fn start_deliveries(&mut self, events: &mut PendingEvents<'a, Function, C>) -> usize {
        let (settings, now) = (self.task.context.settings, self.task.context.clock.now());
        let is_last = self.reading != ReadingState::Open || self.flushes;
        let mut started = 0;
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            if let Some((batch, delivery)) = lane.take_batch(settings, now, is_last) {
                events.push(Box::pin(deliver(index, batch, delivery)));
                started += 1;
            }
        }
        started
    }

    fn start_read(&mut self, events: &mut PendingEvents<'a, Function, C>) {
        let can_read =
            self.reading == ReadingState::Open && !is_overfull(&self.lanes, self.task.context.settings);
        if let Some(reader) = self.reader.take_if(|_| can_read) {
            let (context, source, shard) = (self.task.context, self.task.source, self.task.shard);
            let stops_at_gaps = self.task.stops_at_gaps;
            let is_quiet = self.lanes.iter().all(|lane| lane.first_undelivered().is_none());
            let page = read(context, source, shard, reader, stops_at_gaps, is_quiet);
            events.push(Box::pin(page.map(|(outcome, reader)| ShardEvent::Read(outcome, reader))));
        }
    }

    /// Waits for the window of a batch that is not full.
    fn set_timer(&mut self, events: &mut PendingEvents<'a, Function, C>) {
        let (settings, clock) = (self.task.context.settings, self.task.context.clock);
        let now = clock.now();
        let wait = self.lanes.iter().filter_map(|lane| lane.due_in(settings, now)).min();
        if let Some(wait) = wait.filter(|_| !self.is_timer_set) {
            self.is_timer_set = true;
            let passed = async move {
                clock.sleep(wait).await;
                ShardEvent::WindowPassed
            };
            events.push(Box::pin(passed));
        }
    }

    fn take_page(&mut self, page: RecordPage, (moment, began): (ReadMoment, Timestamp), reader: ShardReader) {
        let RecordPage { records, is_at_end, next } = page;
        self.task.context.progress.count(|counts| counts.read += length(&records));
        let (now, lanes) = (self.task.context.clock.now(), self.lanes.len());
        let mut filtered = 0;
        for record in records {
            let number = self.next_number;
            self.next_number += 1;
            self.history.push_back((number, record.sequence_number.clone()));
            if !self.task.context.settings.filters.accepts(&record.json) {
                filtered += 1;
                continue;
            }
            let lane = if lanes == 1 { 0 } else { lane_of(record.key_hash(), lanes) };
            if let Some(lane) = self.lanes.get_mut(lane) {
                lane.push(number, record, now);
            }
        }
        self.task.context.progress.count(|counts| counts.filtered += filtered);
        if is_at_end {
            self.note_end(began);
        }
        self.advance_checkpoint();
        self.flushes = is_at_end && moment != ReadMoment::Delivering;
        if next.is_none() {
            self.reading = ReadingState::Finished;
        } else if is_at_end && moment == ReadMoment::DrainingQuietly {
            self.reading = ReadingState::Drained;
        } else {
            self.reader = Some(ShardReader { iterator: next, is_at_end, ..reader });
        }
    }

    fn finish_delivery(
        &mut self,
        end: DeliveryEnd,
        lane: usize,
        mut batch: Vec<NumberedRecord>,
        delivery: Box<LaneDelivery<'a, Function, C>>,
    ) {
        self.has_delivered = true;
        let undelivered = match end {
            DeliveryEnd::Finished => Vec::new(),
            DeliveryEnd::StoppedAt(index) => batch.split_off(index.min(batch.len())),
        };
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.finish_batch(delivery, undelivered);
        }
        self.advance_checkpoint();
    }

    /// A read that began at this time found the end: the numbers of all earlier changes are below the next one.
    fn note_end(&mut self, began: Timestamp) {
        match self.ends.back_mut() {
            Some((number, at)) if *number == self.next_number => *at = began,
            Some(_) | None => self.ends.push_back((self.next_number, began)),
        }
    }

    /// Moves the checkpoint to the last record before the first record that is not delivered.
    fn advance_checkpoint(&mut self) {
        let first = self.lanes.iter().filter_map(ShardLane::first_undelivered).min();
        while let Some((_, sequence_number)) =
            self.history.pop_front_if(|(number, _)| first.is_none_or(|first| *number < first))
        {
            self.checkpoint = Some(sequence_number);
        }
        while let Some((_, at)) = self.ends.pop_front_if(|(end, _)| first.is_none_or(|first| *end <= first)) {
            self.task.context.progress.reach(&self.task.shard.id, at);
        }
    }

    async fn save_if_due(&mut self) -> Result<()> {
        let now = self.task.context.clock.now();
        let pace = &self.task.context.pace;
        let interval =
            if self.has_delivered { pace.checkpoint_interval } else { pace.idle_checkpoint_interval };
        if now.since(self.saved_at) >= interval {
            self.saved_at = now;
            self.save_checkpoint().await?;
        }
        Ok(())
    }

    async fn save_checkpoint(&mut self) -> Result<()> {
        if self.checkpoint == self.saved {
            return Ok(());
        }
        if let Some(number) = self.checkpoint.clone() {
            self.save(&ShardCheckpoint::After(number)).await?;
            self.saved.clone_from(&self.checkpoint);
            self.has_delivered = false;
        }
        Ok(())
    }

    async fn save(&self, checkpoint: &ShardCheckpoint) -> Result<()> {
        let ShardTask { context, checkpoints, shard, .. } = &self.task;
        checkpoints.save(context.stream_arn, &shard.id, checkpoint).await
    }

    async fn end(mut self) -> Result<ShardEnd> {
        let is_delivered = self.lanes.iter().all(|lane| lane.first_undelivered().is_none());
        if self.reading == ReadingState::Finished && is_delivered {
            self.save(&ShardCheckpoint::Finished).await?;
            self.task.context.progress.leave(&self.task.shard.id);
            let is_empty = self.next_number == 0 && !self.task.is_owed;
            return Ok(ShardEnd::Finished { is_empty });
        }
        self.save_checkpoint().await?;
        Ok(ShardEnd::Paused)
    }
}

async fn deliver<'a, Function: EventHandler, C: Clock>(
    lane: usize,
    batch: Vec<NumberedRecord>,
    mut delivery: Box<LaneDelivery<'a, Function, C>>,
) -> ShardEvent<'a, Function, C> {
    let (numbers, records): (Vec<u64>, Vec<_>) = batch.into_iter().unzip();
    let end = delivery.deliver(&records).await;
    ShardEvent::Delivered(end, lane, numbers.into_iter().zip(records).collect(), delivery)
}

fn lane_of(hash: u64, lanes: usize) -> usize {
    let lanes = u64::try_from(lanes).unwrap_or(1).max(1);
    usize::try_from(hash % lanes).unwrap_or(0)
}
