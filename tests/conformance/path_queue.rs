//! The contract of `PathQueue`: in memory, and SQS against a stand-in and against moto.

use std::sync::Arc;
use std::time::{Duration, Instant};

use afterwrite_local::sqs::EmbeddedSqs;
use afterwrite_memory::MemoryQueue;
use afterwrite_model::{Error, ErrorKind};
use afterwrite_services::PathQueue;
use afterwrite_services::sqs::{MAX_BATCH_BYTES, MAX_BATCH_MESSAGES, SqsQueue};
use afterwrite_tests::moto::MotoServer;
use afterwrite_tests::sqs::{QUEUE, client, start_queue};
use tokio::net::TcpListener;

const LIMIT: Duration = Duration::from_secs(30);

/// A queue with what it holds.
trait QueueUnderTest {
    fn queue(&self) -> impl PathQueue;
    /// The messages that were taken since the last call, sorted.
    async fn new_messages(&self) -> Vec<String>;
}

async fn suite(service: &impl QueueUnderTest) {
    messages_are_taken_verbatim(service).await;
    the_largest_requests_are_taken(service).await;
}

#[tokio::test]
async fn memory() {
    let service = MemoryUnderTest::default();
    suite(&service).await;
    requests_over_a_limit_are_rejected_as_a_whole(&service).await;
}

/// The stand-in does not enforce the limits of a request.
#[tokio::test]
async fn stand_in() {
    let service = SqsUnderTest { server: start_queue().await, seen: 0.into() };
    suite(&service).await;
    each_message_has_its_own_result(&service).await;
    a_missing_queue_is_a_configuration_error(&service.server.endpoint()).await;
}

/// moto does not enforce the limit of the bodies of a request.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs moto: run tests/run"]
async fn moto() {
    let server = MotoServer::start();
    let url = server.create_queue("stale-paths").await;
    let service = MotoQueue { server, url };
    suite(&service).await;
    a_missing_queue_is_a_configuration_error(service.server.endpoint()).await;
}

/// Sends messages; every one must be taken, and nothing else is new.
async fn send(service: &impl QueueUnderTest, messages: &[String]) {
    let results = service.queue().send_batch(messages, LIMIT).await.unwrap();
    assert_eq!(results.len(), messages.len());
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let mut expected = messages.to_vec();
    expected.sort_unstable();
    assert!(service.new_messages().await == expected, "not the messages that were sent");
}

/// A message of this length.
fn message(number: usize, length: usize) -> String {
    format!("{number:05}{}", "x".repeat(length - 5))
}

fn messages_of(lengths: &[usize]) -> Vec<String> {
    lengths.iter().enumerate().map(|(number, length)| message(number, *length)).collect()
}

async fn messages_are_taken_verbatim(service: &impl QueueUnderTest) {
    let texts = [r#"{"version":1,"paths":["/a%20b","/ü/*"]}"#, "\"\\ \n\t", "&lt;<>'", "a"];
    send(service, &texts.map(str::to_owned)).await;
}

async fn the_largest_requests_are_taken(service: &impl QueueUnderTest) {
    send(service, &messages_of(&[10; MAX_BATCH_MESSAGES])).await;
    send(service, &messages_of(&[MAX_BATCH_BYTES])).await;
    send(service, &messages_of(&[MAX_BATCH_BYTES / 4; 4])).await;
}

async fn requests_over_a_limit_are_rejected_as_a_whole(service: &impl QueueUnderTest) {
    for lengths in
        [Vec::new(), vec![10; MAX_BATCH_MESSAGES + 1], [[MAX_BATCH_BYTES / 4; 4].as_slice(), &[10]].concat()]
    {
        let error = service.queue().send_batch(&messages_of(&lengths), LIMIT).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{lengths:?}: {error}");
    }
    assert!(service.new_messages().await.is_empty(), "a part of a rejected request was taken");
}

async fn each_message_has_its_own_result(service: &SqsUnderTest) {
    service.server.refuse_once(&[0, 2]);
    let results = service.queue().send_batch(&messages_of(&[10; 4]), LIMIT).await.unwrap();
    assert!(results.iter().map(Result::is_ok).eq([false, true, false, true]), "{results:?}");
    assert!(results.iter().filter_map(|result| result.as_ref().err()).all(Error::is_retryable));
    assert_eq!(service.new_messages().await, [message(1, 10), message(3, 10)]);
}

async fn a_missing_queue_is_a_configuration_error(endpoint: &str) {
    let url = format!("{endpoint}/123456789012/elsewhere");
    let queue = SqsQueue::new(&client(endpoint), Arc::from(url));
    let error = queue.send_batch(&messages_of(&[10]), LIMIT).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    for word in ["AFTERWRITE_CDN_QUEUE", "elsewhere"] {
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[tokio::test]
async fn a_service_that_does_not_respond_is_unavailable_within_the_limit() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let queue = SqsQueue::new(&client(&endpoint), Arc::from(format!("{endpoint}/1/q")));
    let begun = Instant::now();
    let error = queue.send_batch(&messages_of(&[10]), Duration::from_millis(300)).await.unwrap_err();
    assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[derive(Default)]
struct MemoryUnderTest {
    queue: Arc<MemoryQueue>,
    seen: std::sync::atomic::AtomicUsize,
}

/// The messages that are new since the last call, sorted.
fn news(all: Vec<String>, seen: &std::sync::atomic::AtomicUsize) -> Vec<String> {
    let before = seen.swap(all.len(), std::sync::atomic::Ordering::Relaxed);
    let mut new = all[before..].to_vec();
    new.sort_unstable();
    new
}

impl QueueUnderTest for MemoryUnderTest {
    fn queue(&self) -> impl PathQueue {
        Arc::clone(&self.queue)
    }

    async fn new_messages(&self) -> Vec<String> {
        news(self.queue.messages(), &self.seen)
    }
}

struct SqsUnderTest {
    server: EmbeddedSqs,
    seen: std::sync::atomic::AtomicUsize,
}

impl QueueUnderTest for SqsUnderTest {
    fn queue(&self) -> impl PathQueue {
        let endpoint = self.server.endpoint();
        SqsQueue::new(&client(&endpoint), Arc::from(self.server.url(QUEUE)))
    }

    async fn new_messages(&self) -> Vec<String> {
        news(self.server.bodies(QUEUE), &self.seen)
    }
}

struct MotoQueue {
    server: MotoServer,
    url: String,
}

impl QueueUnderTest for MotoQueue {
    fn queue(&self) -> impl PathQueue {
        SqsQueue::new(&client(self.server.endpoint()), Arc::from(&*self.url))
    }

    async fn new_messages(&self) -> Vec<String> {
        let mut messages = self.server.take_messages(&self.url).await;
        messages.sort_unstable();
        messages
    }
}
