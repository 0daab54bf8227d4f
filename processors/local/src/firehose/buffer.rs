//! The records that are not written yet.

use std::collections::VecDeque;
use std::time::Duration;

use afterwrite_model::record::Timestamp;
use uuid::Uuid;

use super::DeliveryStreamOptions;

/// Above this size, no records are accepted until some are written.
const MAX_BYTES: usize = 128 * 1024 * 1024;
/// The delivery stream's version, which grows with each change of its configuration; ours never changes.
const VERSION: u32 = 1;

/// An object to write; its key stays the same in every try.
#[derive(Debug)]
pub(super) struct BufferedObject {
    pub(super) key: String,
    pub(super) data: Vec<u8>,
}

/// The records that are not written yet.
#[derive(Debug)]
pub(super) struct RecordBuffer {
    options: DeliveryStreamOptions,
    data: Vec<u8>,
    /// When the first record of `data` arrived.
    since: Option<Timestamp>,
    ready: VecDeque<BufferedObject>,
}

impl RecordBuffer {
    pub(super) fn new(options: DeliveryStreamOptions) -> Self {
        Self { options, data: Vec::new(), since: None, ready: VecDeque::new() }
    }

    /// Appends a record. Nothing separates records.
    pub(super) fn push(&mut self, data: &[u8], now: Timestamp) {
        self.since.get_or_insert(now);
        self.data.extend_from_slice(data);
        if self.data.len() >= self.options.buffer_bytes {
            self.seal(now, true);
        }
    }

    /// Makes an object of the records if they are due, or in any case.
    pub(super) fn seal(&mut self, now: Timestamp, everything: bool) {
        let is_due = |since: &Timestamp| everything || now.since(*since) >= self.options.buffer_for;
        if let Some(since) = self.since.take_if(|since| is_due(since)) {
            let key = object_key(&self.options.stream, since, Uuid::new_v4());
            self.ready.push_back(BufferedObject { key, data: std::mem::take(&mut self.data) });
        }
    }

    /// The time until an object is due; `None` if the buffer is empty.
    pub(super) fn due_in(&self, now: Timestamp) -> Option<Duration> {
        if !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        self.since.map(|since| self.options.buffer_for.saturating_sub(now.since(since)))
    }

    pub(super) fn is_overfull(&self) -> bool {
        self.data.len() + self.ready.iter().map(|object| object.data.len()).sum::<usize>() > MAX_BYTES
    }

    pub(super) fn first(&self) -> Option<&BufferedObject> {
        self.ready.front()
    }

    pub(super) fn remove_first(&mut self) {
        self.ready.pop_front();
    }
}

/// Firehose's key format with the prefix `archive/dt=!{timestamp:yyyy-MM-dd}/hh=!{timestamp:HH}/`; the time is the arrival
/// of the oldest record, in UTC.
fn object_key(stream: &str, arrival: Timestamp, random: Uuid) -> String {
    let arrival = jiff::Timestamp::from_millisecond(arrival.epoch_ms()).unwrap_or_default();
    let (folder, time) = (arrival.strftime("dt=%Y-%m-%d/hh=%H"), arrival.strftime("%Y-%m-%d-%H-%M-%S"));
    format!("archive/{folder}/{stream}-{VERSION}-{time}-{random}.gz")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    fn buffer() -> RecordBuffer {
        RecordBuffer::new(DeliveryStreamOptions {
            buffer_bytes: 10,
            buffer_for: Duration::from_secs(60),
            ..DeliveryStreamOptions::new("changes", "bucket")
        })
    }

    #[test]
    fn object_keys_have_firehoses_format() {
        let key = object_key("changes", at("2026-02-06T03:04:05.678Z"), Uuid::nil());
        let expected = "archive/dt=2026-02-06/hh=03/changes-1-2026-02-06-03-04-05-00000000-0000-0000-0000-000000000000.gz";
        assert_eq!(key, expected);
    }

    #[test]
    fn an_object_is_due_by_its_first_records_age_and_stored_under_its_hour() {
        let mut buffer = buffer();
        let (first, last) = (at("2026-02-06T03:59:30Z"), at("2026-02-06T04:00:29Z"));
        assert_eq!(buffer.due_in(first), None);
        buffer.push(b"a\n", first);
        buffer.push(b"b\n", last);
        assert_eq!(buffer.due_in(last), Some(Duration::from_secs(1)));
        buffer.seal(last, false);
        assert!(buffer.first().is_none());
        buffer.seal(at("2026-02-06T04:00:30Z"), false);
        let object = buffer.first().unwrap();
        assert_eq!(object.data, b"a\nb\n");
        assert!(object.key.starts_with("archive/dt=2026-02-06/hh=03/changes-1-2026-02-06-03-59-30-"));
    }

    #[test]
    fn an_object_is_due_by_its_size() {
        let (mut buffer, now) = (buffer(), at("2026-02-06"));
        for record in [&b"123456789\n"[..], b"12\n", b"3456789\n", b"x"] {
            buffer.push(record, now);
        }
        assert_eq!(buffer.due_in(now), Some(Duration::ZERO));
        let sizes: Vec<usize> = buffer.ready.iter().map(|object| object.data.len()).collect();
        assert_eq!((sizes, buffer.data.as_slice()), (vec![10, 11], &b"x"[..]));
    }
}
