use std::collections::VecDeque;
use std::io::Read as _;
use std::sync::Mutex;
use std::time::Duration;

use super::*;
use crate::sink::firehose::MemoryStream;
use crate::sink::s3::MemoryObjects;

/// A clock that moves only by what is slept.
struct StillClock(Mutex<Timestamp>);

impl Clock for StillClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        let mut first = true;
        std::future::poll_fn(move |_| {
            if std::mem::take(&mut first) {
                let mut now = self.0.lock().unwrap();
                *now = now.plus(duration);
            }
            std::task::Poll::Ready(())
        })
    }

    fn permille(&self) -> u32 {
        500
    }
}

const START: &str = "2026-02-06T09:30:00Z";

/// A stream that answers by a script before it works.
struct ScriptedStream {
    inner: MemoryStream,
    script: Mutex<VecDeque<ScriptStep>>,
}

enum ScriptStep {
    /// The records at these places of the request fail with this kind, the others are taken.
    Fail(Vec<usize>, ErrorKind),
    /// The request fails as a whole; nothing is taken.
    Refuse(ErrorKind),
    /// Everything is taken, and nobody is told.
    LoseAnswer,
    /// No answer ever.
    Hang,
}

impl DeliveryStream for ScriptedStream {
    async fn put_batch(&self, records: &[&[u8]]) -> Result<Vec<Result<(), Error>>, Error> {
        let step = self.script.lock().unwrap().pop_front();
        match step {
            None => self.inner.put_batch(records).await,
            Some(ScriptStep::Fail(places, kind)) => {
                let taken = records.iter().enumerate().filter(|(place, _)| !places.contains(place));
                let taken: Vec<&[u8]> = taken.map(|(_, data)| *data).collect();
                if !taken.is_empty() {
                    self.inner.put_batch(&taken).await?;
                }
                let answer = |place| {
                    if places.contains(&place) { Err(Error::new(kind, "scripted")) } else { Ok(()) }
                };
                Ok((0..records.len()).map(answer).collect())
            }
            Some(ScriptStep::Refuse(kind)) => Err(Error::new(kind, "scripted")),
            Some(ScriptStep::LoseAnswer) => {
                self.inner.put_batch(records).await?;
                Err(Error::new(ErrorKind::Unavailable, "scripted"))
            }
            Some(ScriptStep::Hang) => std::future::pending().await,
        }
    }
}

fn archiver(script: Vec<ScriptStep>) -> Archiver<ScriptedStream, MemoryObjects, StillClock> {
    let stream = ScriptedStream { inner: MemoryStream::default(), script: Mutex::new(script.into()) };
    let clock = StillClock(Mutex::new(Timestamp::parse(START).unwrap()));
    Archiver::new(stream, MemoryObjects::default(), clock)
}

fn deadline() -> Timestamp {
    Timestamp::parse(START).unwrap().plus(Duration::from_secs(30))
}

/// Texts of these sizes, newline included, each with its own letter.
fn texts(sizes: &[usize]) -> Vec<String> {
    let text = |(place, size): (usize, &usize)| {
        let letter = char::from(b'a' + u8::try_from(place % 26).unwrap());
        format!("{}\n", letter.to_string().repeat(size - 1))
    };
    sizes.iter().enumerate().map(text).collect()
}

fn lines(texts: &[String]) -> Vec<ArchiveLine<'_>> {
    texts.iter().enumerate().map(|(index, text)| ArchiveLine { index, event_id: "event", text }).collect()
}

/// The lines that came out, sorted.
fn delivered(archiver: &Archiver<ScriptedStream, MemoryObjects, StillClock>) -> Vec<String> {
    let contents = String::from_utf8(archiver.stream.inner.contents()).unwrap();
    let mut lines: Vec<String> = contents.split_inclusive('\n').map(str::to_owned).collect();
    lines.sort();
    lines
}

fn indexes(outcome: &ArchiveOutcome) -> Vec<usize> {
    outcome.failures.iter().map(|failure| failure.index).collect()
}

/// Three records of the stream, one line each: together two would be too large.
const THREE: [usize; 3] = [600_000, 600_001, 600_002];

#[tokio::test]
async fn small_lines_share_a_record() {
    let archiver = archiver(Vec::new());
    let texts = texts(&[1_600; 100]);
    let outcome = archiver.archive(&lines(&texts), deadline()).await;
    assert!(outcome.failures.is_empty());
    let expected = ArchiveTotals {
        lines: 100,
        bytes: 160_000,
        firehose_records: 1,
        billed_units: 32,
        ..ArchiveTotals::default()
    };
    assert_eq!(outcome.totals, expected);
    assert_eq!(archiver.stream.inner.contents(), texts.concat().into_bytes());
}

#[tokio::test]
async fn failed_records_alone_are_sent_again() {
    let archiver = archiver(vec![
        ScriptStep::Fail(vec![0, 2], ErrorKind::Unavailable),
        ScriptStep::Fail(vec![1], ErrorKind::Unavailable),
    ]);
    let texts = texts(&THREE);
    let outcome = archiver.archive(&lines(&texts), deadline()).await;
    assert!(outcome.failures.is_empty());
    assert_eq!((outcome.totals.lines, outcome.totals.retries), (3, 3));
    assert_eq!(delivered(&archiver), texts);
    let sizes: Vec<Vec<usize>> = archiver
        .stream
        .inner
        .requests()
        .iter()
        .map(|request| request.iter().map(Vec::len).collect())
        .collect();
    assert_eq!(sizes, [vec![THREE[1]], vec![THREE[0]], vec![THREE[2]]]);
}

#[tokio::test]
async fn a_lost_answer_doubles_and_loses_nothing() {
    let archiver = archiver(vec![ScriptStep::LoseAnswer]);
    let texts = texts(&THREE);
    let outcome = archiver.archive(&lines(&texts), deadline()).await;
    assert!(outcome.failures.is_empty());
    let mut delivered = delivered(&archiver);
    assert_eq!(delivered.len(), 6);
    delivered.dedup();
    assert_eq!(delivered, texts);
}

#[tokio::test]
async fn what_fails_until_the_deadline_is_reported_and_the_rest_is_archived() {
    let script = (0..200).map(|_| ScriptStep::Fail(vec![0], ErrorKind::Unavailable)).collect();
    let archiver = archiver(script);
    let texts = texts(&THREE);
    let outcome = archiver.archive(&lines(&texts), deadline()).await;
    assert_eq!(indexes(&outcome), [0]);
    assert_eq!(outcome.failures[0].error.kind(), ErrorKind::Unavailable);
    assert!(archiver.clock.now() < deadline());
    assert_eq!(delivered(&archiver), texts[1..]);
}

#[tokio::test]
async fn what_cannot_succeed_is_reported_at_once() {
    let archiver = archiver(vec![ScriptStep::Refuse(ErrorKind::Configuration)]);
    let texts = texts(&[10, 20]);
    let outcome = archiver.archive(&lines(&texts), deadline()).await;
    assert_eq!(indexes(&outcome), [0, 1]);
    assert_eq!(archiver.clock.now(), Timestamp::parse(START).unwrap());
}

#[tokio::test]
async fn a_stream_that_never_answers_is_given_up_at_the_deadline() {
    let archiver = archiver(vec![ScriptStep::Hang]);
    let texts = texts(&[10]);
    let outcome = archiver.archive(&lines(&texts), deadline()).await;
    assert_eq!(indexes(&outcome), [0]);
    assert!(outcome.failures[0].error.is_retryable());
    assert!(archiver.clock.now() <= deadline());
}

#[tokio::test]
async fn a_line_over_a_thousand_kibibytes_goes_to_the_bucket_alone() {
    let archiver = archiver(Vec::new());
    let texts = texts(&[MAX_LINE_BYTES - 1, MAX_LINE_BYTES, MAX_LINE_BYTES + 1, 10]);
    let outcome = archiver.archive(&lines(&texts), deadline()).await;
    assert!(outcome.failures.is_empty());
    assert_eq!((outcome.totals.lines, outcome.totals.direct_objects), (4, 1));
    assert_eq!(outcome.totals.firehose_records, 3);
    let objects = archiver.bucket.objects();
    let (key, body) = objects.first_key_value().unwrap();
    assert_eq!((objects.len(), key.as_str()), (1, "archive/dt=2026-02-06/hh=09/event.gz"));
    let mut line = String::new();
    flate2::read::GzDecoder::new(body.as_slice()).read_to_string(&mut line).unwrap();
    assert!(line == texts[2]);
}
