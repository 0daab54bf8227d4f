//! The embedded delivery stream behaves like Firehose where Afterwrite depends on it.

use std::time::Duration;

use afterwrite_local::firehose::{DeliveryStreamOptions, EmbeddedFirehose};
use afterwrite_local::s3::EmbeddedS3;
use afterwrite_tests::archive::{BUCKET, EmbeddedArchive, STREAM, objects};
use aws_sdk_firehose::error::ProvideErrorMetadata as _;
use aws_sdk_firehose::primitives::Blob;
use aws_sdk_firehose::types::Record;

fn record(data: &str) -> Record {
    Record::builder().data(Blob::new(data)).build().unwrap()
}

#[tokio::test]
async fn records_are_concatenated_under_the_hour_of_their_arrival() {
    let archive = EmbeddedArchive::start().await;
    let client = archive.firehose.client();
    let put = client.put_record().delivery_stream_name(STREAM).record(record("a\n"));
    assert!(!put.send().await.unwrap().record_id().is_empty());
    let put =
        client.put_record_batch().delivery_stream_name(STREAM).records(record("b")).records(record("c\n"));
    let response = put.send().await.unwrap();
    assert_eq!((response.failed_put_count(), response.request_responses().len()), (0, 2));
    let objects = archive.read_back().await;
    let (key, text) = objects.first_key_value().unwrap();
    assert_eq!((objects.len(), text.as_str()), (1, "a\nbc\n"));
    let [day, hour, name] =
        key.strip_prefix("archive/").unwrap().split('/').collect::<Vec<_>>().try_into().unwrap();
    let (day, hour) = (day.strip_prefix("dt=").unwrap(), hour.strip_prefix("hh=").unwrap());
    let tail = name.strip_prefix(&format!("{STREAM}-1-{day}-{hour}-")).unwrap().strip_suffix(".gz").unwrap();
    assert_eq!((tail.len(), hour.len(), day.len()), ("mm-ss-".len() + 36, 2, 10), "{key}");
    archive.firehose.flush().await.unwrap();
    assert_eq!(archive.read_back().await.len(), 1, "nothing remains buffered");
}

#[tokio::test]
async fn errors_are_those_of_the_service() {
    let archive = EmbeddedArchive::start().await;
    let client = archive.firehose.client();
    let put = |stream: &str, records: Vec<Record>| {
        client.put_record_batch().delivery_stream_name(stream).set_records(Some(records)).send()
    };
    let error = put("elsewhere", vec![record("a")]).await.unwrap_err().into_service_error();
    assert!(error.is_resource_not_found_exception(), "{error:?}");
    let error = put(STREAM, vec![record("a"); 501]).await.unwrap_err().into_service_error();
    assert_eq!(error.code(), Some("ValidationException"));
    let large = "x".repeat(1_024_000);
    let error = put(STREAM, vec![record(&large); 5]).await.unwrap_err().into_service_error();
    assert!(error.is_invalid_argument_exception(), "{error:?}");
    archive.firehose.set_unavailable(true);
    let put = client.put_record().delivery_stream_name(STREAM).record(record("a"));
    let once = aws_sdk_firehose::config::Builder::new()
        .retry_config(aws_sdk_firehose::config::retry::RetryConfig::disabled());
    let error = put.customize().config_override(once).send().await.unwrap_err().into_service_error();
    assert!(error.is_service_unavailable_exception(), "{error:?}");
    assert!(archive.read_back().await.is_empty());
}

#[tokio::test]
async fn objects_are_written_by_size_by_time_and_at_the_end() {
    let s3 = EmbeddedS3::start().await.unwrap();
    s3.create_bucket(BUCKET).await.unwrap();
    let s3_client = s3.client();
    for (options, expected) in [
        (
            DeliveryStreamOptions { buffer_bytes: 4, ..DeliveryStreamOptions::new("by-size", BUCKET) },
            vec!["1\n2\n", "3\n4\n"],
        ),
        (
            DeliveryStreamOptions {
                buffer_for: Duration::from_millis(100),
                ..DeliveryStreamOptions::new("by-time", BUCKET)
            },
            vec!["1\n2\n3\n4\n5\n"],
        ),
        (DeliveryStreamOptions::new("at-the-end", BUCKET), vec![]),
    ] {
        let name = options.stream.clone();
        let firehose = EmbeddedFirehose::start(options, &s3_client).await.unwrap();
        let records = ["1\n", "2\n", "3\n", "4\n", "5\n"].map(record).to_vec();
        let put = firehose.client().put_record_batch().delivery_stream_name(&name).set_records(Some(records));
        put.send().await.unwrap();
        let written = || objects_of_stream(&s3_client, &name);
        for _ in 0..100 {
            if written().await.len() >= expected.len() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(written().await, expected, "{name}");
        firehose.stop().await.unwrap();
        assert_eq!(written().await.concat(), "1\n2\n3\n4\n5\n", "{name}: everything, once it has stopped");
    }
    s3.stop().await.unwrap();
}

/// The texts of a stream's objects, sorted.
async fn objects_of_stream(client: &aws_sdk_s3::Client, stream: &str) -> Vec<String> {
    let all = objects(client, BUCKET).await;
    let of_stream = all.into_iter().filter(|(key, _)| key.contains(stream)).map(|(_, text)| text);
    let mut texts: Vec<String> = of_stream.collect();
    texts.sort();
    texts
}

#[tokio::test]
async fn records_stay_buffered_while_their_object_cannot_be_written() {
    let s3 = EmbeddedS3::start().await.unwrap();
    let firehose =
        EmbeddedFirehose::start(DeliveryStreamOptions::new(STREAM, BUCKET), &s3.client()).await.unwrap();
    let put = firehose.client().put_record().delivery_stream_name(STREAM).record(record("kept\n"));
    put.send().await.unwrap();
    let error = firehose.flush().await.unwrap_err();
    assert_eq!(error.kind(), afterwrite_model::ErrorKind::Configuration, "{error}");
    s3.create_bucket(BUCKET).await.unwrap();
    firehose.flush().await.unwrap();
    let objects = objects(&s3.client(), BUCKET).await;
    assert_eq!(objects.into_values().collect::<Vec<_>>(), ["kept\n"]);
}
