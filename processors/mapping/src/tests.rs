//! Given these shards and this handler, expect these deliveries.

use std::collections::BTreeMap;
use std::sync::Mutex;

use afterwrite::ErrorKind;
use serde_json::{Value, json};

use super::*;
use crate::stream::RecordPage;

/// A stream in memory, a few records a page. Closed shards end; iterators expire on demand.
#[derive(Default)]
struct FakeStream {
    shards: Vec<(StreamShard, Vec<&'static str>, bool)>,
    page: usize,
    expire_once: Mutex<Vec<String>>,
    fail_once: Mutex<u32>,
}

impl FakeStream {
    fn shard(mut self, id: &str, parent: Option<&str>, records: &[&'static str], is_closed: bool) -> Self {
        let shard = StreamShard { id: id.to_owned(), parent: parent.map(str::to_owned) };
        self.shards.push((shard, records.to_vec(), is_closed));
        self.page = 3;
        self
    }
}

impl StreamSource for FakeStream {
    async fn shards(&self) -> Result<Vec<StreamShard>> {
        Ok(self.shards.iter().map(|(shard, ..)| shard.clone()).collect())
    }

    async fn iterator(&self, shard: &str, after: Option<&str>) -> Result<String> {
        let (_, records, _) = self.shards.iter().find(|(known, ..)| known.id == shard).unwrap();
        let next = after.map_or(0, |after| 1 + records.iter().position(|record| *record == after).unwrap());
        Ok(format!("{shard}/{next}"))
    }

    async fn read(&self, iterator: &str) -> Result<RecordPage, StreamReadError> {
        if std::mem::take(&mut *self.fail_once.lock().unwrap()) > 0 {
            return Err(StreamReadError::ReadFailed(Error::new(ErrorKind::Unavailable, "throttled")));
        }
        let mut expiring = self.expire_once.lock().unwrap();
        if let Some(position) = expiring.iter().position(|expired| expired == iterator) {
            expiring.remove(position);
            return Err(StreamReadError::IteratorExpired);
        }
        let (shard, next) = iterator.split_once('/').unwrap();
        let next: usize = next.parse().unwrap();
        let (_, records, is_closed) = self.shards.iter().find(|(known, ..)| known.id == shard).unwrap();
        let end = records.len().min(next + self.page);
        let page = records[next..end].iter().map(|number| record(number)).collect();
        let is_finished = *is_closed && end == records.len();
        let next_iterator = (!is_finished).then(|| format!("{shard}/{end}"));
        Ok(RecordPage { records: page, is_at_end: next == end, next: next_iterator })
    }
}

fn record(number: &str) -> StreamRecord {
    let json = json!({ "dynamodb": { "SequenceNumber": number } }).to_string();
    StreamRecord { sequence_number: number.to_owned(), json }
}

/// Records the sequence numbers of each delivery, and responds as the test defines.
struct ScriptedHandler<Respond> {
    deliveries: Mutex<Vec<Vec<String>>>,
    respond: Respond,
}

impl<Respond> ScriptedHandler<Respond> {
    fn new(respond: Respond) -> Self {
        Self { deliveries: Mutex::default(), respond }
    }

    fn deliveries(&self) -> Vec<String> {
        self.deliveries.lock().unwrap().iter().map(|numbers| numbers.join(" ")).collect()
    }
}

impl<Respond> EventHandler for ScriptedHandler<Respond>
where
    Respond: Fn(usize, &[String]) -> Result<Value> + Send + Sync,
{
    async fn handle(&self, event: Vec<u8>, _remaining: Duration) -> Result<Vec<u8>> {
        let event: Value = serde_json::from_slice(&event).unwrap();
        let number = |record: &Value| record["dynamodb"]["SequenceNumber"].as_str().unwrap().to_owned();
        let numbers: Vec<String> = event["Records"].as_array().unwrap().iter().map(number).collect();
        let delivery = {
            let mut deliveries = self.deliveries.lock().unwrap();
            deliveries.push(numbers.clone());
            deliveries.len()
        };
        (self.respond)(delivery, &numbers).map(|response| response.to_string().into_bytes())
    }
}

fn failures(numbers: &[&str]) -> Value {
    let failures: Vec<Value> = numbers.iter().map(|number| json!({ "itemIdentifier": number })).collect();
    json!({ "batchItemFailures": failures })
}

fn accept(_delivery: usize, _numbers: &[String]) -> Result<Value> {
    Ok(failures(&[]))
}

async fn run<Respond>(
    stream: &FakeStream,
    handler: &ScriptedHandler<Respond>,
    settings: MappingSettings,
) -> (Result<()>, PollerProgress)
where
    Respond: Fn(usize, &[String]) -> Result<Value> + Send + Sync,
{
    let progress = PollerProgress::default();
    let result = StreamPoller::new(stream, handler, &settings, &progress)
        .run_until_drained(&AtomicBool::new(true))
        .await;
    (result, progress)
}

fn batches_of(batch_size: usize) -> MappingSettings {
    MappingSettings { batch_size, max_attempts: 3, ..MappingSettings::default() }
}

#[tokio::test(start_paused = true)]
async fn parents_come_before_children_and_closed_shards_are_read_to_their_end() {
    let stream = FakeStream::default()
        .shard("grandchild", Some("child"), &["g1"], false)
        .shard("child", Some("parent"), &["c1", "c2"], true)
        .shard("parent", Some("long gone"), &["p1", "p2", "p3", "p4", "p5"], true);
    let handler = ScriptedHandler::new(accept);
    let (result, progress) = run(&stream, &handler, batches_of(2)).await;
    result.unwrap();
    assert_eq!(handler.deliveries(), ["p1 p2", "p3", "p4 p5", "c1 c2", "g1"]);
    assert_eq!((progress.counts().read, progress.counts().accepted, progress.counts().batches), (8, 8, 5));
}

#[tokio::test(start_paused = true)]
async fn a_batch_waits_for_its_window() {
    let stream = FakeStream::default().shard("s", None, &["1", "2", "3", "4", "5"], true);
    let handler = ScriptedHandler::new(accept);
    let settings = MappingSettings { batch_window: Duration::from_secs(60), ..batches_of(4) };
    run(&stream, &handler, settings).await.0.unwrap();
    assert_eq!(handler.deliveries(), ["1 2 3 4", "5"]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_redelivered_from_its_lowest_failed_record() {
    let stream = FakeStream::default().shard("s", None, &["1", "2", "3"], true);
    let handler = ScriptedHandler::new(|delivery, _: &[String]| {
        Ok(if delivery == 1 { failures(&["3", "2"]) } else { failures(&[]) })
    });
    let (result, progress) = run(&stream, &handler, batches_of(10)).await;
    result.unwrap();
    assert_eq!(handler.deliveries(), ["1 2 3", "2 3"]);
    let counts = progress.counts();
    assert_eq!((counts.accepted, counts.retries, counts.skipped), (3, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn only_the_record_that_always_fails_is_skipped() {
    let stream = FakeStream::default().shard("s", None, &["1", "2", "3"], true);
    let handler = ScriptedHandler::new(|_, numbers: &[String]| {
        Ok(if numbers.iter().any(|number| number == "2") { failures(&["2"]) } else { failures(&[]) })
    });
    let (result, progress) = run(&stream, &handler, batches_of(10)).await;
    result.unwrap();
    assert_eq!(handler.deliveries(), ["1 2 3", "2 3", "2 3", "2 3", "3"]);
    assert_eq!((progress.counts().accepted, progress.counts().skipped), (2, 1));
    assert_eq!(progress.skipped()[0].sequence_number, "2");
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_fails_as_a_whole_is_bisected() {
    let stream = FakeStream::default().shard("s", None, &["1", "2", "3"], true);
    let handler = ScriptedHandler::new(|_, numbers: &[String]| {
        if numbers.iter().any(|number| number == "3") {
            return Err(Error::new(ErrorKind::State, "cannot"));
        }
        Ok(failures(&[]))
    });
    let (result, progress) =
        run(&stream, &handler, MappingSettings { max_attempts: 2, ..batches_of(10) }).await;
    result.unwrap();
    assert_eq!(handler.deliveries(), ["1 2 3", "1 2 3", "1", "2 3", "2 3", "2", "3", "3"]);
    assert_eq!((progress.counts().accepted, progress.counts().skipped), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_malformed_response_fails_the_whole_batch() {
    let stream = FakeStream::default().shard("s", None, &["1", "2"], true);
    let handler = ScriptedHandler::new(|delivery, _: &[String]| {
        Ok(if delivery == 1 {
            json!({ "batchItemFailures": [{ "itemIdentifier": "" }] })
        } else {
            Value::Null
        })
    });
    run(&stream, &handler, batches_of(10)).await.0.unwrap();
    assert_eq!(handler.deliveries(), ["1 2", "1 2"]);
}

#[tokio::test(start_paused = true)]
async fn an_error_that_no_retry_can_fix_ends_the_poller() {
    let stream = FakeStream::default().shard("s", None, &["1"], true);
    let handler =
        ScriptedHandler::new(|_, _: &[String]| Err(Error::new(ErrorKind::Configuration, "no such table")));
    let (result, _) = run(&stream, &handler, batches_of(10)).await;
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Configuration);
    assert_eq!(handler.deliveries().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_expired_iterator_is_replaced_and_a_throttled_read_repeated() {
    let stream = FakeStream::default().shard("s", None, &["1", "2", "3", "4", "5"], true);
    *stream.expire_once.lock().unwrap() = vec!["s/0".to_owned(), "s/3".to_owned()];
    *stream.fail_once.lock().unwrap() = 1;
    let handler = ScriptedHandler::new(accept);
    run(&stream, &handler, batches_of(10)).await.0.unwrap();
    assert_eq!(handler.deliveries(), ["1 2 3", "4 5"]);
}

#[tokio::test(start_paused = true)]
async fn an_invocation_that_takes_too_long_is_repeated() {
    let stream = FakeStream::default().shard("s", None, &["1"], true);
    let calls = Mutex::new(0);
    let handler = async |_event: Vec<u8>, remaining: Duration| {
        assert_eq!(remaining, Duration::from_secs(60));
        let call = {
            let mut calls = calls.lock().unwrap();
            *calls += 1;
            *calls
        };
        if call == 1 {
            tokio::time::sleep(Duration::from_secs(61)).await;
        }
        Ok(b"{}".to_vec())
    };
    let handler = |event, remaining| handler(event, remaining);
    let (settings, progress) = (batches_of(1), PollerProgress::default());
    let poller = StreamPoller::new(&stream, &handler, &settings, &progress);
    poller.run_until_drained(&AtomicBool::new(true)).await.unwrap();
    assert_eq!((progress.counts().batches, progress.counts().retries, progress.counts().accepted), (2, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn redelivery_repeats_accepted_records_only_and_follows_its_seed() {
    let numbers: Vec<&'static str> = vec!["1", "2", "3", "4", "5", "6", "7", "8", "9"];
    let stream = FakeStream::default().shard("s", None, &numbers, true);
    let faults = RedeliveryFaults { redeliver_per_mille: 1000, seed: 7 };
    let mut runs = Vec::new();
    for _ in 0..2 {
        let handler = ScriptedHandler::new(accept);
        let (result, progress) = run(&stream, &handler, MappingSettings { faults, ..batches_of(3) }).await;
        result.unwrap();
        let mut times = BTreeMap::<String, u64>::new();
        for number in handler.deliveries.lock().unwrap().iter().flatten() {
            *times.entry(number.clone()).or_default() += 1;
        }
        assert_eq!(times.len(), numbers.len());
        let repeated: u64 = times.values().map(|times| times - 1).sum();
        assert_eq!(progress.counts().redelivered, repeated);
        assert_eq!(progress.counts().accepted, 9);
        runs.push(handler.deliveries());
    }
    assert_eq!(runs[0], runs[1]);
}

#[tokio::test(start_paused = true)]
async fn an_open_shard_is_read_until_the_writers_are_done() {
    let stream = FakeStream::default().shard("s", None, &["1", "2"], false);
    let handler = ScriptedHandler::new(accept);
    let (settings, progress, done) = (batches_of(10), PollerProgress::default(), AtomicBool::new(false));
    let poller = StreamPoller::new(&stream, &handler, &settings, &progress);
    let writers = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        done.store(true, Ordering::SeqCst);
    };
    let (result, ()) = tokio::join!(poller.run_until_drained(&done), writers);
    result.unwrap();
    assert_eq!(handler.deliveries(), ["1 2"]);
}
