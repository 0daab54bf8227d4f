//! Records, failures and delays of each stream, and the metrics of each function.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use afterwrite_mapping::MappingProgress;
use afterwrite_model::Error;
use afterwrite_model::record::Timestamp;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// The seconds that are recent.
const RATE_SECONDS: i64 = 10;
/// The records that an invocation did not take, of which a meter remembers the items or the reasons.
const MAX_FAILED: usize = 100;

/// The meters of a process.
#[derive(Debug, Default)]
pub struct DevMeters {
    streams: Mutex<Vec<Arc<StreamMeter>>>,
    functions: Mutex<BTreeMap<String, FunctionMeter>>,
    archived: Mutex<RateCounter>,
}

/// The meter of a table's stream to a function.
#[derive(Debug)]
pub struct StreamMeter {
    /// The function.
    pub function: String,
    /// The deployed name of the table.
    pub table: String,
    /// The counters of the mapping.
    pub progress: MappingProgress,
    state: Mutex<StreamState>,
}

#[derive(Debug, Default)]
struct StreamState {
    delivered: RateCounter,
    lag: Option<Duration>,
    /// The items of records that an invocation did not take, by sequence number.
    failed: BTreeMap<String, FailedItem>,
}

/// The item of a record that an invocation did not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedItem {
    /// The deployed name of its table.
    pub table: String,
    /// The values of its key.
    pub key: Vec<String>,
}

/// A batch that is delivered again, because its first record was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WaitingBatch {
    /// The sequence number of the first record.
    pub(crate) first: String,
    /// Its item, if it is known.
    pub(crate) item: Option<FailedItem>,
    /// Why it was not taken: by the function, if it runs in this process.
    pub(crate) reason: String,
    /// The records of the batch.
    pub(crate) records: u64,
    /// The invocations so far.
    pub(crate) invocations: u32,
    /// When the first of them failed.
    pub(crate) since: Timestamp,
}

/// The metrics of a function.
#[derive(Clone, Debug, Default)]
pub(crate) struct FunctionMeter {
    /// When it ended its newest invocation.
    pub(crate) at: Option<Timestamp>,
    /// Invocations that failed as a whole: of a function behind a queue or a timer.
    pub(crate) failures: u64,
    metrics: BTreeMap<String, u64>,
    /// Why records were not taken, by sequence number.
    reasons: BTreeMap<String, RecordReason>,
}

/// Why a record was not taken.
#[derive(Clone, Debug, Default)]
struct RecordReason {
    /// The problem alone.
    problem: String,
    /// The problem, with what happens to the record.
    text: String,
}

/// A counter that knows how many were added lately.
#[derive(Clone, Debug, Default)]
pub(crate) struct RateCounter {
    total: u64,
    /// The latest seconds in which something was added, with the number.
    seconds: VecDeque<(i64, u64)>,
}

impl RateCounter {
    fn add(&mut self, number: u64, now: Timestamp) {
        self.total += number;
        let second = now.epoch_seconds();
        match self.seconds.back_mut() {
            Some((latest, count)) if *latest == second => *count += number,
            Some(_) | None => self.seconds.push_back((second, number)),
        }
        while self.seconds.front().is_some_and(|(oldest, _)| *oldest + RATE_SECONDS < second) {
            self.seconds.pop_front();
        }
    }

    /// Everything that was added.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The number that was added in the last ten seconds.
    pub(crate) fn recent(&self, now: Timestamp) -> u64 {
        let since = now.epoch_seconds() - RATE_SECONDS;
        self.seconds.iter().filter(|(second, _)| *second > since).map(|(_, count)| count).sum()
    }
}

impl DevMeters {
    /// The meter of a table's stream to a function.
    pub fn stream(&self, function: &str, table: &str) -> Arc<StreamMeter> {
        let mut streams = lock(&self.streams);
        let known = streams.iter().find(|meter| meter.function == function && meter.table == table);
        if let Some(known) = known {
            return Arc::clone(known);
        }
        let meter = Arc::new(StreamMeter {
            function: function.to_owned(),
            table: table.to_owned(),
            progress: MappingProgress::default(),
            state: Mutex::default(),
        });
        streams.push(Arc::clone(&meter));
        meter
    }

    /// Adds the metrics of an invocation of a function that has ended.
    pub fn add_metrics(&self, function: &str, metrics: &[(String, &'static str, u64)], now: Timestamp) {
        let mut functions = lock(&self.functions);
        let meter = functions.entry(function.to_owned()).or_default();
        meter.at = Some(now);
        for (name, _, number) in metrics.iter().filter(|(_, unit, _)| *unit == "Count") {
            *meter.metrics.entry(name.clone()).or_default() += number;
        }
    }

    /// Adds an invocation that failed as a whole.
    pub fn add_failure(&self, function: &str) {
        lock(&self.functions).entry(function.to_owned()).or_default().failures += 1;
    }

    /// Notes why a function did not take a record.
    pub fn note_reason(&self, function: &str, sequence_number: &str, error: &Error) {
        let reason = RecordReason { problem: error.without_hint().to_string(), text: error.to_string() };
        let mut functions = lock(&self.functions);
        let reasons = &mut functions.entry(function.to_owned()).or_default().reasons;
        insert_newest(reasons, sequence_number, reason);
    }

    /// Why a function did not take a record, as far as it is remembered. It holds for a record that was given up, too.
    pub(crate) fn reason_of(&self, function: &str, sequence_number: &str) -> Option<String> {
        let functions = lock(&self.functions);
        Some(functions.get(function)?.reasons.get(sequence_number)?.problem.clone())
    }

    /// The batches that are delivered to a function again, of all streams.
    pub(crate) fn waiting(&self, function: &str) -> Vec<WaitingBatch> {
        let reasons =
            lock(&self.functions).get(function).map(|meter| meter.reasons.clone()).unwrap_or_default();
        let streams = self.streams_of(function);
        let waiting = streams.iter().flat_map(|stream| {
            let failed = lock(&stream.state).failed.clone();
            stream.progress.retried().into_iter().map(move |batch| (failed.get(&batch.first).cloned(), batch))
        });
        let waiting = waiting.map(|(item, batch)| WaitingBatch {
            item,
            reason: reasons.get(&batch.first).map_or(batch.reason, |reason| reason.text.clone()),
            first: batch.first,
            records: batch.records,
            invocations: batch.invocations,
            since: batch.since,
        });
        waiting.collect()
    }

    /// Adds an object of the archive.
    pub fn add_archived(&self, now: Timestamp) {
        lock(&self.archived).add(1, now);
    }

    /// The meters of the streams that a function reads.
    pub(crate) fn streams_of(&self, function: &str) -> Vec<Arc<StreamMeter>> {
        lock(&self.streams).iter().filter(|meter| meter.function == function).cloned().collect()
    }

    /// The metrics of a function.
    pub(crate) fn function(&self, name: &str) -> FunctionMeter {
        lock(&self.functions).get(name).cloned().unwrap_or_default()
    }

    /// The objects of the archive.
    pub(crate) fn archived(&self) -> RateCounter {
        lock(&self.archived).clone()
    }
}

impl FunctionMeter {
    /// The sum of a metric over all invocations.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        self.metrics.get(name).copied().unwrap_or(0)
    }
}

impl StreamMeter {
    /// Adds an invocation that was answered: the records of its event, and when the newest of them was made.
    pub fn add_delivered(&self, records: usize, newest: Option<Timestamp>, now: Timestamp) {
        let mut state = lock(&self.state);
        state.delivered.add(u64::try_from(records).unwrap_or(u64::MAX), now);
        state.lag = newest.map(|newest| now.since(newest)).or(state.lag);
    }

    /// Notes the item of a record that an invocation did not take.
    pub fn note_failed(&self, sequence_number: &str, item: FailedItem) {
        insert_newest(&mut lock(&self.state).failed, sequence_number, item);
    }

    /// Whether a record of the item with this key was given up, as far as it is remembered.
    pub(crate) fn has_given_up<'k>(&self, key: impl Iterator<Item = &'k str> + Clone) -> bool {
        let skipped = self.progress.skipped();
        let failed = &lock(&self.state).failed;
        let mut given_up = skipped.iter().filter_map(|record| failed.get(&record.sequence_number));
        given_up.any(|item| item.key.iter().map(String::as_str).eq(key.clone()))
    }

    /// The records that were delivered.
    pub(crate) fn delivered(&self) -> RateCounter {
        lock(&self.state).delivered.clone()
    }

    /// The age of the newest record when it was counted last; `None` before the first.
    pub(crate) fn lag(&self) -> Option<Duration> {
        lock(&self.state).lag
    }

    /// Records that were read, and are neither accepted nor discarded.
    pub(crate) fn in_flight(&self) -> u64 {
        let counts = self.progress.counts();
        counts.read.saturating_sub(counts.filtered + counts.accepted + counts.skipped)
    }
}

/// Adds a value to the newest ones. Sequence numbers of a stream have one length, so their order as texts is that of the stream.
fn insert_newest<T>(values: &mut BTreeMap<String, T>, sequence_number: &str, value: T) {
    values.insert(sequence_number.to_owned(), value);
    if values.len() > MAX_FAILED {
        values.pop_first();
    }
}

/// The id of the mapping of a table's stream to a function of `dev`, by which the keys of failed batches name it. `table` is the deployed name.
#[must_use]
pub fn mapping_id(function: &str, table: &str) -> Uuid {
    // No name has a line break.
    let hash = Sha256::digest(format!("{function}\n{table}"));
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(hash).for_each(|(byte, hashed)| *byte = hashed);
    Uuid::from_bytes(bytes)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use afterwrite_model::ErrorKind;

    use super::*;

    #[test]
    fn a_counter_knows_the_last_ten_seconds() {
        let mut counter = RateCounter::default();
        let at = |seconds: i64| Timestamp::from_epoch_ms(seconds * 1000);
        counter.add(5, at(100));
        counter.add(20, at(105));
        assert_eq!((counter.total(), counter.recent(at(105))), (25, 25));
        assert_eq!((counter.recent(at(110)), counter.recent(at(200))), (20, 0));
    }

    #[test]
    fn each_mapping_has_an_id_of_its_own() {
        let names = [
            ("search-indexer-of-orders", "Orders"),
            ("search-indexer-of-customers", "Orders"),
            ("search-indexer-of-orders", "Customers"),
            ("aggregator", "Orders"),
            ("aggregator", "Orders2"),
        ];
        let ids: BTreeSet<Uuid> =
            names.into_iter().map(|(function, table)| mapping_id(function, table)).collect();
        assert_eq!(ids.len(), names.len());
        assert_eq!(mapping_id("aggregator", "Orders"), mapping_id("aggregator", "Orders"));
    }

    #[test]
    fn the_reason_of_a_record_that_was_given_up_has_no_word_of_the_next_delivery() {
        let error = Error::new(ErrorKind::Unavailable, "lookup `place` found no item");
        let error = error.hint("The record is redelivered");
        let meters = DevMeters::default();
        meters.note_reason("aggregator", "1", &error.restated());
        assert_eq!(meters.reason_of("aggregator", "1").as_deref(), Some("lookup `place` found no item"));
    }

    #[test]
    fn metrics_of_invocations_add_up() {
        let meters = DevMeters::default();
        let metrics = [("WriteUnits".to_owned(), "Count", 6), ("Duration".to_owned(), "Milliseconds", 9)];
        let now = Timestamp::from_epoch_ms(5);
        meters.add_metrics("aggregator", &metrics, now);
        meters.add_metrics("aggregator", &metrics, now);
        let meter = meters.function("aggregator");
        assert_eq!((meter.metric("WriteUnits"), meter.metric("Duration"), meter.at), (12, 0, Some(now)));
        assert_eq!(meters.function("relay").metric("Events"), 0);
    }
}
