//! Records on their way into objects.

use std::collections::VecDeque;
use std::time::Duration;

use afterwrite::record::Timestamp;
use jiff::tz::TimeZone;
use uuid::Uuid;

/// More than this, and no more is taken until some of it is written.
const MOST_BYTES: usize = 128 * 1024 * 1024;

/// An object that is to be written; its key stays the same however often that is tried.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) key: String,
    pub(super) data: Vec<u8>,
}

/// What has come in and is not written yet.
#[derive(Debug)]
pub(super) struct Buffer {
    stream: String,
    most_bytes: usize,
    longest: Duration,
    data: Vec<u8>,
    /// When the first record of `data` came.
    since: Option<Timestamp>,
    ready: VecDeque<Object>,
}

impl Buffer {
    pub(super) fn new(stream: &str, most_bytes: usize, longest: Duration) -> Self {
        Self {
            stream: stream.to_owned(),
            most_bytes,
            longest,
            data: Vec::new(),
            since: None,
            ready: VecDeque::new(),
        }
    }

    /// Takes one record, as it is: nothing is put between records.
    pub(super) fn push(&mut self, data: &[u8], now: Timestamp) {
        self.since.get_or_insert(now);
        self.data.extend_from_slice(data);
        if self.data.len() >= self.most_bytes {
            self.seal(now, true);
        }
    }

    /// Makes an object of the records that are due, or of all.
    pub(super) fn seal(&mut self, now: Timestamp, everything: bool) {
        let is_due = |since: &Timestamp| everything || now.since(*since) >= self.longest;
        if let Some(since) = self.since.take_if(|since| is_due(since)) {
            let key = object_key(&self.stream, since, Uuid::new_v4());
            self.ready.push_back(Object { key, data: std::mem::take(&mut self.data) });
        }
    }

    /// How long until something is to be written; `None` if nothing is held.
    pub(super) fn due_in(&self, now: Timestamp) -> Option<Duration> {
        if !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        self.since.map(|since| self.longest.saturating_sub(now.since(since)))
    }

    pub(super) fn is_overfull(&self) -> bool {
        self.data.len() + self.ready.iter().map(|object| object.data.len()).sum::<usize>() > MOST_BYTES
    }

    pub(super) fn first(&self) -> Option<&Object> {
        self.ready.front()
    }

    pub(super) fn remove_first(&mut self) {
        self.ready.pop_front();
    }
}

/// Firehose's layout, with the prefix `archive/dt=!{timestamp:yyyy-MM-dd}/hh=!{timestamp:HH}/`; the time is that of the oldest
/// record's arrival, in UTC.
fn object_key(stream: &str, arrival: Timestamp, random: Uuid) -> String {
    let arrival = jiff::Timestamp::from_millisecond(arrival.epoch_ms()).unwrap_or_default();
    let arrival = TimeZone::UTC.to_datetime(arrival);
    let (date, hour, minute, second) = (arrival.date(), arrival.hour(), arrival.minute(), arrival.second());
    format!(
        "archive/dt={date}/hh={hour:02}/{stream}-{VERSION}-{date}-{hour:02}-{minute:02}-{second:02}-{random}.gz"
    )
}

/// The delivery stream's version: it grows when its configuration is changed, which ours never is.
const VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    fn buffer() -> Buffer {
        Buffer::new("changes", 10, Duration::from_secs(60))
    }

    #[test]
    fn the_layout_is_firehoses() {
        let key = object_key("changes", at("2026-02-06T03:04:05.678Z"), Uuid::nil());
        let expected = "archive/dt=2026-02-06/hh=03/changes-1-2026-02-06-03-04-05-00000000-0000-0000-0000-000000000000.gz";
        assert_eq!(key, expected);
    }

    #[test]
    fn an_object_is_due_when_its_first_record_is_old_enough_and_lies_in_that_ones_hour() {
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
    fn an_object_is_due_when_it_is_large_enough() {
        let (mut buffer, now) = (buffer(), at("2026-02-06"));
        for record in [&b"123456789\n"[..], b"12\n", b"3456789\n", b"x"] {
            buffer.push(record, now);
        }
        assert_eq!(buffer.due_in(now), Some(Duration::ZERO));
        let sizes: Vec<usize> = buffer.ready.iter().map(|object| object.data.len()).collect();
        assert_eq!((sizes, buffer.data.as_slice()), (vec![10, 11], &b"x"[..]));
    }
}
