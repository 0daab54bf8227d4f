//! A stream with the limits of DynamoDB Streams, in memory.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use afterwrite_mapping::{
    RecordPage, ShardPage, ShardPosition, StreamReadError, StreamRecord, StreamShard, StreamSource,
};
use afterwrite_model::clock::Clock;
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use tokio::time::Instant;

/// Records of a page, and their bytes.
const PAGE_RECORDS: usize = 1_000;
const PAGE_BYTES: usize = 1_000_000;
const PAGE_SHARDS: usize = 100;
const ITERATOR_LIFE: Duration = Duration::from_secs(15 * 60);
const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// A clock that follows Tokio's, which a test pauses: waiting takes no time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PausedClock(Instant);

impl PausedClock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }
}

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        Timestamp::parse("2026-02-06T10:00:00Z").unwrap().plus(self.0.elapsed())
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(duration)
    }

    fn until(&self, time: Timestamp) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(time.since(self.now()))
    }

    fn permille(&self) -> u32 {
        500
    }
}

pub(crate) struct SimulatedStream {
    arn: String,
    pub(crate) clock: PausedClock,
    shards: Mutex<Vec<SimulatedShard>>,
    /// How many of the next requests are throttled.
    pub(crate) throttled: AtomicUsize,
    pub(crate) iterators_expired: AtomicUsize,
    /// Records of a page; tests lower it.
    pub(crate) page_records: usize,
}

#[derive(Clone)]
struct SimulatedShard {
    shard: StreamShard,
    records: Vec<(Timestamp, StreamRecord)>,
    closed_at: Option<Timestamp>,
    /// Whether it is listed and not kept any more.
    is_gone: bool,
}

impl SimulatedShard {
    /// The index of the oldest record that is kept.
    fn horizon(&self, now: Timestamp) -> usize {
        self.records.iter().take_while(|(created, _)| now.since(*created) > RETENTION).count()
    }

    fn is_listed(&self, now: Timestamp) -> bool {
        self.closed_at.is_none_or(|closed| now.since(closed) <= RETENTION)
    }
}

impl SimulatedStream {
    pub(crate) fn new() -> Self {
        Self {
            arn: "arn:aws:dynamodb:us-east-1:000000000000:table/T/stream/2026-02-06T00:00:00.000".to_owned(),
            clock: PausedClock::start(),
            shards: Mutex::default(),
            throttled: AtomicUsize::new(0),
            iterators_expired: AtomicUsize::new(0),
            page_records: PAGE_RECORDS,
        }
    }

    /// The stream of a table that was created again.
    pub(crate) fn recreated() -> Self {
        let arn = "arn:aws:dynamodb:us-east-1:000000000000:table/T/stream/2026-02-06T09:00:00.000";
        Self { arn: arn.to_owned(), ..Self::new() }
    }

    /// One open shard `s` with these records.
    pub(crate) fn of(numbers: &[&str]) -> Self {
        let stream = Self::new();
        stream.open("s", None);
        for number in numbers {
            stream.write("s", number);
        }
        stream
    }

    pub(crate) fn open(&self, id: &str, parent: Option<&str>) {
        let shard = StreamShard { id: id.to_owned(), parent: parent.map(str::to_owned), first: None };
        self.shards.lock().unwrap().push(SimulatedShard {
            shard,
            records: Vec::new(),
            closed_at: None,
            is_gone: false,
        });
    }

    pub(crate) fn close(&self, id: &str) {
        self.change(id, |shard, now| shard.closed_at = Some(now));
    }

    /// Removes a shard, which stays listed.
    pub(crate) fn forget(&self, id: &str) {
        self.change(id, |shard, _| shard.is_gone = true);
    }

    /// Writes a change of the item whose key is the number.
    pub(crate) fn write(&self, shard: &str, number: &str) {
        self.write_item(shard, number, number);
    }

    /// Writes a change of an item.
    pub(crate) fn write_item(&self, shard: &str, number: &str, key: &str) {
        self.write_change(shard, number, json!({ "Keys": { "PK": { "S": key } } }));
    }

    /// Writes a record with these members of `dynamodb`.
    pub(crate) fn write_change(&self, shard: &str, number: &str, mut change: Value) {
        self.change(shard, |shard, now| {
            change["SequenceNumber"] = number.into();
            change["ApproximateCreationDateTime"] = (now.epoch_ms() / 1000).into();
            let json = json!({ "eventName": "INSERT", "dynamodb": change }).to_string();
            shard.shard.first.get_or_insert_with(|| number.to_owned());
            shard.records.push((now, StreamRecord { sequence_number: number.to_owned(), json }));
        });
    }

    fn change(&self, id: &str, change: impl FnOnce(&mut SimulatedShard, Timestamp)) {
        let mut shards = self.shards.lock().unwrap();
        let shard = shards.iter_mut().find(|shard| shard.shard.id == id).expect("a shard of the stream");
        change(shard, self.clock.now());
    }

    fn shard(&self, id: &str) -> SimulatedShard {
        let shards = self.shards.lock().unwrap();
        shards.iter().find(|shard| shard.shard.id == id).expect("a shard of the stream").clone()
    }

    fn throttle(&self) -> Result<()> {
        let take = |left: usize| left.checked_sub(1);
        match self.throttled.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take) {
            Ok(_) => Err(Error::new(ErrorKind::Unavailable, "throttled")),
            Err(_) => Ok(()),
        }
    }
}

impl StreamSource for SimulatedStream {
    fn arn(&self) -> &str {
        &self.arn
    }

    async fn describe(&self, after: Option<&str>) -> Result<ShardPage> {
        self.throttle()?;
        let now = self.clock.now();
        let mut shards: Vec<StreamShard> = self
            .shards
            .lock()
            .unwrap()
            .iter()
            .filter(|shard| shard.is_listed(now))
            .map(|shard| shard.shard.clone())
            .collect();
        shards.sort_by(|one, other| one.id.cmp(&other.id));
        shards.retain(|shard| after.is_none_or(|after| shard.id.as_str() > after));
        let has_more = shards.len() > PAGE_SHARDS;
        shards.truncate(PAGE_SHARDS);
        let next = shards.last().filter(|_| has_more).map(|shard| shard.id.clone());
        Ok(ShardPage { shards, next })
    }

    async fn iterator(&self, shard: &str, position: &ShardPosition) -> Result<String, StreamReadError> {
        self.throttle()?;
        let (now, simulated) = (self.clock.now(), self.shard(shard));
        if simulated.is_gone {
            return Err(StreamReadError::Gone);
        }
        let index = match position {
            ShardPosition::TrimHorizon => simulated.horizon(now),
            ShardPosition::Latest => simulated.records.len(),
            ShardPosition::First(_) if simulated.horizon(now) > 0 => return Err(StreamReadError::Trimmed),
            ShardPosition::First(_) => 0,
            ShardPosition::At(time) => {
                let records = simulated.records.iter();
                let second = time.epoch_seconds();
                let earlier = records.take_while(|(created, _)| created.epoch_seconds() < second).count();
                earlier.max(simulated.horizon(now))
            }
            ShardPosition::After(number) => {
                let records = simulated.records.iter();
                let index = records.take_while(|(_, record)| record.sequence_number != *number).count();
                if index < simulated.horizon(now) {
                    return Err(StreamReadError::Trimmed);
                }
                index + 1
            }
        };
        Ok(format!("{shard}/{index}/{}", now.epoch_ms()))
    }

    async fn read(&self, iterator: &str) -> Result<RecordPage, StreamReadError> {
        self.throttle()?;
        let now = self.clock.now();
        let parts: Vec<&str> = iterator.split('/').collect();
        let (shard, index): (SimulatedShard, usize) = (self.shard(parts[0]), parts[1].parse().unwrap());
        if now.since(Timestamp::from_epoch_ms(parts[2].parse().unwrap())) > ITERATOR_LIFE {
            self.iterators_expired.fetch_add(1, Ordering::SeqCst);
            return Err(StreamReadError::IteratorExpired);
        }
        if index < shard.horizon(now) {
            return Err(StreamReadError::Trimmed);
        }
        let (mut records, mut bytes) = (Vec::new(), 0);
        for (_, record) in shard.records.iter().skip(index).take(self.page_records) {
            bytes += record.json.len();
            if bytes > PAGE_BYTES && !records.is_empty() {
                break;
            }
            records.push(record.clone());
        }
        let end = index + records.len();
        let is_finished = shard.closed_at.is_some() && end == shard.records.len();
        let next = (!is_finished).then(|| format!("{}/{end}/{}", parts[0], now.epoch_ms()));
        Ok(RecordPage { is_at_end: records.is_empty(), records, next })
    }
}
