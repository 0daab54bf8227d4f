//! Retries by a script: what is sent again, what is reported, and when the archiver gives up.

use std::collections::VecDeque;
use std::future::Future;
use std::io::Read as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use afterwrite_memory::{MemoryObjects, MemoryStream};
use afterwrite_model::clock::Clock;
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind};
use afterwrite_relay::archive::{ArchiveLine, ArchiveOutcome, ArchiveTotals, ChangeArchiver, MAX_LINE_BYTES};
use afterwrite_services::DeliveryStream;
use afterwrite_tests::clock::reached;

/// A clock that advances only by sleeps.
#[derive(Clone)]
struct SleepClock(Arc<Mutex<Timestamp>>);

impl Clock for SleepClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    async fn sleep(&self, duration: Duration) {
        let mut now = self.0.lock().unwrap();
        *now = now.plus(duration);
    }

    fn until(&self, time: Timestamp) -> impl Future<Output = ()> + Send {
        reached(self, time)
    }

    fn permille(&self) -> u32 {
        500
    }
}

const START: &str = "2026-02-06T09:30:00Z";

/// A stream that follows a script before it works.
struct ScriptedStream {
    inner: MemoryStream,
    script: Mutex<VecDeque<ScriptStep>>,
}

enum ScriptStep {
    /// The records at these positions of the request fail with this kind; the others are taken.
    FailRecords(Vec<usize>, ErrorKind),
    /// The request fails as a whole; nothing is taken.
    FailRequest(ErrorKind),
    /// Everything is taken, and the response is lost.
    LoseResponse,
    /// The response never arrives.
    Hang,
}

impl DeliveryStream for ScriptedStream {
    async fn put_batch(&self, records: &[&[u8]]) -> Result<Vec<Result<(), Error>>, Error> {
        let step = self.script.lock().unwrap().pop_front();
        match step {
            None => self.inner.put_batch(records).await,
            Some(ScriptStep::FailRecords(failing, kind)) => {
                let taken = records.iter().enumerate().filter(|(position, _)| !failing.contains(position));
                let taken: Vec<&[u8]> = taken.map(|(_, data)| *data).collect();
                if !taken.is_empty() {
                    self.inner.put_batch(&taken).await?;
                }
                let positions = 0..records.len();
                Ok(positions.map(|position| result_of(failing.contains(&position), kind)).collect())
            }
            Some(ScriptStep::FailRequest(kind)) => Err(Error::new(kind, "scripted")),
            Some(ScriptStep::LoseResponse) => {
                self.inner.put_batch(records).await?;
                Err(Error::new(ErrorKind::Unavailable, "scripted"))
            }
            Some(ScriptStep::Hang) => std::future::pending().await,
        }
    }
}

fn result_of(fails: bool, kind: ErrorKind) -> Result<(), Error> {
    if fails { Err(Error::new(kind, "scripted")) } else { Ok(()) }
}

/// An archiver with everything around it.
struct ArchiverSetup {
    stream: Arc<ScriptedStream>,
    bucket: Arc<MemoryObjects>,
    clock: SleepClock,
    archiver: ChangeArchiver<Arc<ScriptedStream>, Arc<MemoryObjects>, SleepClock>,
}

impl ArchiverSetup {
    fn new(script: Vec<ScriptStep>) -> Self {
        let stream = ScriptedStream { inner: MemoryStream::default(), script: Mutex::new(script.into()) };
        let (stream, bucket) = (Arc::new(stream), Arc::new(MemoryObjects::default()));
        let clock = SleepClock(Arc::new(Mutex::new(Timestamp::parse(START).unwrap())));
        let archiver = ChangeArchiver::new(Arc::clone(&stream), Arc::clone(&bucket), clock.clone());
        Self { stream, bucket, clock, archiver }
    }

    async fn archive(&self, texts: &[String]) -> ArchiveOutcome {
        let lines: Vec<ArchiveLine<'_>> = texts
            .iter()
            .enumerate()
            .map(|(index, text)| ArchiveLine { index, event_id: "event", text })
            .collect();
        self.archiver.archive(&lines, deadline()).await
    }

    /// The delivered lines, sorted.
    fn delivered(&self) -> Vec<String> {
        let contents = String::from_utf8(self.stream.inner.contents()).unwrap();
        let mut lines: Vec<String> = contents.split_inclusive('\n').map(str::to_owned).collect();
        lines.sort();
        lines
    }
}

fn deadline() -> Timestamp {
    Timestamp::parse(START).unwrap().plus(Duration::from_secs(30))
}

/// Texts of these sizes, newline included, each of a letter of its own.
fn texts(sizes: &[usize]) -> Vec<String> {
    let text = |(position, size): (usize, &usize)| {
        let letter = char::from(b'a' + u8::try_from(position % 26).unwrap());
        format!("{}\n", letter.to_string().repeat(size - 1))
    };
    sizes.iter().enumerate().map(text).collect()
}

fn failed_indexes(outcome: &ArchiveOutcome) -> Vec<usize> {
    outcome.failures.iter().map(|failure| failure.index).collect()
}

/// Three records of the stream with one line each: two lines together are too large for a record.
const THREE: [usize; 3] = [600_000, 600_001, 600_002];

#[tokio::test]
async fn small_lines_share_a_record() {
    let setup = ArchiverSetup::new(Vec::new());
    let texts = texts(&[1_600; 100]);
    let outcome = setup.archive(&texts).await;
    assert!(outcome.failures.is_empty());
    let expected = ArchiveTotals {
        lines: 100,
        bytes: 160_000,
        firehose_records: 1,
        billed_units: 32,
        ..ArchiveTotals::default()
    };
    assert_eq!(outcome.totals, expected);
    assert_eq!(setup.stream.inner.contents(), texts.concat().into_bytes());
}

#[tokio::test]
async fn only_failed_records_are_sent_again() {
    let setup = ArchiverSetup::new(vec![
        ScriptStep::FailRecords(vec![0, 2], ErrorKind::Unavailable),
        ScriptStep::FailRecords(vec![1], ErrorKind::Unavailable),
    ]);
    let texts = texts(&THREE);
    let outcome = setup.archive(&texts).await;
    assert!(outcome.failures.is_empty());
    assert_eq!((outcome.totals.lines, outcome.totals.retries), (3, 3));
    assert_eq!(setup.delivered(), texts);
    let requests = setup.stream.inner.requests();
    let sizes: Vec<Vec<usize>> =
        requests.iter().map(|request| request.iter().map(Vec::len).collect()).collect();
    assert_eq!(sizes, [vec![THREE[1]], vec![THREE[0]], vec![THREE[2]]]);
}

#[tokio::test]
async fn a_lost_response_duplicates_lines_and_loses_none() {
    let setup = ArchiverSetup::new(vec![ScriptStep::LoseResponse]);
    let texts = texts(&THREE);
    let outcome = setup.archive(&texts).await;
    assert!(outcome.failures.is_empty());
    let mut delivered = setup.delivered();
    assert_eq!(delivered.len(), 6);
    delivered.dedup();
    assert_eq!(delivered, texts);
}

#[tokio::test]
async fn a_record_that_fails_until_the_deadline_is_reported_and_the_rest_is_archived() {
    let script = (0..200).map(|_| ScriptStep::FailRecords(vec![0], ErrorKind::Unavailable)).collect();
    let setup = ArchiverSetup::new(script);
    let texts = texts(&THREE);
    let outcome = setup.archive(&texts).await;
    assert_eq!(failed_indexes(&outcome), [0]);
    assert_eq!(outcome.failures[0].error.kind(), ErrorKind::Unavailable);
    assert!(setup.clock.now() < deadline());
    assert_eq!(setup.delivered(), texts[1..]);
}

#[tokio::test]
async fn a_permanent_error_is_reported_without_a_retry() {
    let setup = ArchiverSetup::new(vec![ScriptStep::FailRequest(ErrorKind::Configuration)]);
    let outcome = setup.archive(&texts(&[10, 20])).await;
    assert_eq!(failed_indexes(&outcome), [0, 1]);
    assert_eq!(setup.clock.now(), Timestamp::parse(START).unwrap());
}

#[tokio::test]
async fn a_stream_that_never_responds_is_abandoned_at_the_deadline() {
    let setup = ArchiverSetup::new(vec![ScriptStep::Hang]);
    let outcome = setup.archive(&texts(&[10])).await;
    assert_eq!(failed_indexes(&outcome), [0]);
    assert!(outcome.failures[0].error.is_retryable());
    assert!(setup.clock.now() <= deadline());
}

#[tokio::test]
async fn a_line_over_a_thousand_kibibytes_becomes_an_object_of_its_own() {
    let setup = ArchiverSetup::new(Vec::new());
    let texts = texts(&[MAX_LINE_BYTES - 1, MAX_LINE_BYTES, MAX_LINE_BYTES + 1, 10]);
    let outcome = setup.archive(&texts).await;
    assert!(outcome.failures.is_empty());
    assert_eq!((outcome.totals.lines, outcome.totals.direct_objects), (4, 1));
    assert_eq!(outcome.totals.firehose_records, 3);
    let objects = setup.bucket.objects();
    let (key, body) = objects.first_key_value().unwrap();
    assert_eq!((objects.len(), key.as_str()), (1, "archive/dt=2026-02-06/hh=09/event.gz"));
    let mut line = String::new();
    flate2::read::GzDecoder::new(body.as_slice()).read_to_string(&mut line).unwrap();
    assert!(line == texts[2]);
}
