//! A shard's lanes: all records of an item are in one lane, and each lane delivers one batch at a time.

use std::collections::VecDeque;
use std::time::Duration;

use afterwrite_model::record::Timestamp;

use crate::delivery::LaneDelivery;
use crate::settings::MappingSettings;
use crate::stream::StreamRecord;

/// Lambda's limit for the payload of an invocation.
const MAX_EVENT_BYTES: usize = 6 * 1024 * 1024;
/// The bytes around the records of an event.
const EVENT_FRAME_BYTES: usize = r#"{"Records":[]}"#.len();

/// A record and its number in the order of reading.
pub(crate) type NumberedRecord = (u64, StreamRecord);

/// A batch, and the delivery that takes it.
type LaneBatch<'a, Function, C> = (Vec<NumberedRecord>, Box<LaneDelivery<'a, Function, C>>);

/// The records of some of a shard's items that are read and not delivered.
pub(crate) struct ShardLane<'a, Function, C> {
    queue: VecDeque<NumberedRecord>,
    queued_bytes: usize,
    /// When the first record of the next batch arrived.
    waiting_since: Option<Timestamp>,
    /// The number of the first record of the batch under way.
    delivering: Option<u64>,
    /// `None` while a batch is under way.
    delivery: Option<Box<LaneDelivery<'a, Function, C>>>,
}

impl<'a, Function, C> ShardLane<'a, Function, C> {
    pub(crate) fn new(delivery: LaneDelivery<'a, Function, C>) -> Self {
        Self {
            queue: VecDeque::new(),
            queued_bytes: 0,
            waiting_since: None,
            delivering: None,
            delivery: Some(Box::new(delivery)),
        }
    }

    pub(crate) fn push(&mut self, number: u64, record: StreamRecord, now: Timestamp) {
        self.waiting_since.get_or_insert(now);
        self.queued_bytes += record.json.len();
        self.queue.push_back((number, record));
    }

    /// The next batch, if it is full, has waited for its window, or must not wait (`is_last`), and the delivery that takes it.
    pub(crate) fn take_batch(
        &mut self,
        settings: &MappingSettings,
        now: Timestamp,
        is_last: bool,
    ) -> Option<LaneBatch<'a, Function, C>> {
        let since = self.waiting_since?;
        let is_full = self.queue.len() >= settings.batch_size || self.queued_bytes >= MAX_EVENT_BYTES;
        let is_due = is_last || is_full || now.since(since) >= settings.batch_window;
        let delivery = self.delivery.take_if(|_| is_due)?;
        let batch: Vec<NumberedRecord> = self.queue.drain(..self.batch_length(settings.batch_size)).collect();
        self.queued_bytes -= batch.iter().map(|(_, record)| record.json.len()).sum::<usize>();
        self.waiting_since = (!self.queue.is_empty()).then_some(now);
        self.delivering = batch.first().map(|(number, _)| *number);
        Some((batch, delivery))
    }

    /// How many records fit into one event; at least one.
    fn batch_length(&self, batch_size: usize) -> usize {
        let mut bytes = EVENT_FRAME_BYTES;
        let fits = |(_, record): &&NumberedRecord| {
            bytes += record.json.len() + 1;
            // The last record has no comma.
            bytes <= MAX_EVENT_BYTES + 1
        };
        let length = self.queue.iter().take(batch_size.max(1)).take_while(fits).count();
        length.max(1).min(self.queue.len())
    }

    /// Takes back the delivery, and the records of its batch that are not delivered.
    pub(crate) fn finish_batch(
        &mut self,
        delivery: Box<LaneDelivery<'a, Function, C>>,
        undelivered: Vec<NumberedRecord>,
    ) {
        for (number, record) in undelivered.into_iter().rev() {
            self.queued_bytes += record.json.len();
            self.queue.push_front((number, record));
        }
        self.delivering = None;
        self.delivery = Some(delivery);
    }

    /// The number of its first record that is not delivered.
    pub(crate) fn first_undelivered(&self) -> Option<u64> {
        self.delivering.or_else(|| self.queue.front().map(|(number, _)| *number))
    }

    /// The time until its next batch is due because of its window; `None` if none waits, or one is under way.
    pub(crate) fn due_in(&self, settings: &MappingSettings, now: Timestamp) -> Option<Duration> {
        let since = self.waiting_since.filter(|_| self.delivery.is_some())?;
        Some(settings.batch_window.saturating_sub(now.since(since)))
    }

    /// Records and bytes that are not taken into a batch.
    pub(crate) fn backlog(&self) -> (usize, usize) {
        (self.queue.len(), self.queued_bytes)
    }
}

/// Whether so much is read that reading must wait for deliveries. Some lane then has a full batch.
pub(crate) fn is_overfull<Function, C>(
    lanes: &[ShardLane<'_, Function, C>],
    settings: &MappingSettings,
) -> bool {
    let backlogs = lanes.iter().map(ShardLane::backlog);
    let (records, bytes) = backlogs.fold((0, 0), |sum, lane| (sum.0 + lane.0, sum.1 + lane.1));
    records >= settings.batch_size * lanes.len() || bytes >= MAX_EVENT_BYTES * lanes.len()
}
