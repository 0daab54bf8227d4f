//! The contract of `DeliveryStream`: in memory, and Firehose against the embedded delivery stream and against moto.

use std::sync::Arc;

use afterwrite_memory::MemoryStream;
use afterwrite_model::ErrorKind;
use afterwrite_services::DeliveryStream;
use afterwrite_services::firehose::{Firehose, MAX_BATCH_BYTES, MAX_BATCH_RECORDS, MAX_RECORD_BYTES};
use afterwrite_tests::archive::{BUCKET, EmbeddedArchive, STREAM, objects};
use afterwrite_tests::moto::MotoServer;

/// A delivery stream with what it delivers.
trait StreamUnderTest {
    fn stream(&self) -> impl DeliveryStream;
    /// Everything that was delivered so far, sorted by line.
    async fn delivered(&self) -> Vec<String>;
}

async fn suite(service: &impl StreamUnderTest) {
    records_are_delivered_verbatim(service).await;
    every_record_has_a_result(service).await;
    the_largest_requests_are_taken(service).await;
}

#[tokio::test]
async fn memory() {
    let service = Arc::new(MemoryStream::default());
    suite(&service).await;
    requests_over_a_limit_are_rejected_as_a_whole(&service).await;
}

#[tokio::test]
async fn embedded() {
    let archive = EmbeddedArchive::start().await;
    suite(&archive).await;
    requests_over_a_limit_are_rejected_as_a_whole(&archive).await;
    a_missing_stream_is_a_configuration_error(&archive.firehose.client()).await;
    an_unavailable_stream_takes_nothing(&archive).await;
}

/// moto does not enforce the limits of a request.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs moto: run tests/run"]
async fn moto() {
    let moto = MotoServer::with_archive().await;
    suite(&moto).await;
    a_missing_stream_is_a_configuration_error(&moto.firehose()).await;
}

/// Puts records; every one must be taken.
async fn put(service: &impl StreamUnderTest, records: &[Vec<u8>]) {
    let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    let results = service.stream().put_batch(&records).await.unwrap();
    assert_eq!(results.len(), records.len());
    assert!(results.iter().all(Result::is_ok), "{results:?}");
}

/// A line of this length, newline included.
fn line(number: usize, length: usize) -> Vec<u8> {
    let mut line = format!("{number:05}").into_bytes();
    line.resize(length - 1, b'x');
    line.push(b'\n');
    line
}

/// Puts lines of these lengths; afterwards they are delivered, and nothing else is new.
async fn put_lines(service: &impl StreamUnderTest, lengths: &[usize]) {
    let lines: Vec<Vec<u8>> =
        lengths.iter().enumerate().map(|(number, length)| line(number, *length)).collect();
    let mut expected = service.delivered().await;
    put(service, &lines).await;
    expected.extend(lines.into_iter().map(|line| String::from_utf8(line).unwrap()));
    expected.sort_unstable();
    assert!(service.delivered().await == expected, "not the lines that were put");
}

async fn records_are_delivered_verbatim(service: &impl StreamUnderTest) {
    let mut expected = service.delivered().await;
    put(
        service,
        &[b"a\n".to_vec(), "\u{0} \u{fc} \"\\\n\n".into(), b"without a newline, ".to_vec(), b"b\n".to_vec()],
    )
    .await;
    expected.extend(["a\n", "\u{0} \u{fc} \"\\\n", "\n", "without a newline, b\n"].map(str::to_owned));
    expected.sort_unstable();
    assert_eq!(service.delivered().await, expected);
}

async fn every_record_has_a_result(service: &impl StreamUnderTest) {
    put_lines(service, &[6; MAX_BATCH_RECORDS]).await;
}

async fn the_largest_requests_are_taken(service: &impl StreamUnderTest) {
    let rest = MAX_BATCH_BYTES - 4 * MAX_RECORD_BYTES;
    put_lines(service, &[[MAX_RECORD_BYTES; 4].as_slice(), &[rest]].concat()).await;
}

async fn requests_over_a_limit_are_rejected_as_a_whole(service: &impl StreamUnderTest) {
    let delivered = service.delivered().await;
    let rest = MAX_BATCH_BYTES - 4 * MAX_RECORD_BYTES;
    for lengths in [
        Vec::new(),
        vec![6; MAX_BATCH_RECORDS + 1],
        vec![6, MAX_RECORD_BYTES + 1],
        [[MAX_RECORD_BYTES; 4].as_slice(), &[rest + 1]].concat(),
    ] {
        let lines: Vec<Vec<u8>> = lengths.iter().map(|length| line(0, *length)).collect();
        let records: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
        let error = service.stream().put_batch(&records).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{lengths:?}: {error}");
    }
    assert!(service.delivered().await == delivered, "a part of a rejected request was delivered");
}

async fn a_missing_stream_is_a_configuration_error(client: &aws_sdk_firehose::Client) {
    let error = Firehose::new(client, Arc::from("elsewhere")).put_batch(&[b"a\n"]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    for word in ["AFTERWRITE_FIREHOSE_STREAM", "elsewhere"] {
        assert!(error.to_string().contains(word), "{error}");
    }
}

async fn an_unavailable_stream_takes_nothing(archive: &EmbeddedArchive) {
    let delivered = archive.delivered().await;
    archive.firehose.set_unavailable(true);
    let error = archive.stream().put_batch(&[b"a\n"]).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    archive.firehose.set_unavailable(false);
    assert_eq!(archive.delivered().await, delivered);
}

fn sorted_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

impl StreamUnderTest for Arc<MemoryStream> {
    fn stream(&self) -> impl DeliveryStream {
        Arc::clone(self)
    }

    async fn delivered(&self) -> Vec<String> {
        sorted_lines(&String::from_utf8(self.contents()).unwrap())
    }
}

impl StreamUnderTest for EmbeddedArchive {
    fn stream(&self) -> impl DeliveryStream {
        EmbeddedArchive::stream(self)
    }

    async fn delivered(&self) -> Vec<String> {
        sorted_lines(&self.read_back().await.into_values().collect::<String>())
    }
}

impl StreamUnderTest for MotoServer {
    fn stream(&self) -> impl DeliveryStream {
        Firehose::new(&self.firehose(), Arc::from(STREAM))
    }

    async fn delivered(&self) -> Vec<String> {
        sorted_lines(&objects(&self.s3(), BUCKET).await.into_values().collect::<String>())
    }
}
