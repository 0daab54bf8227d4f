//! Delivery streams: what takes many small records and makes few large objects of them.

mod memory;

use std::future::Future;
use std::sync::Arc;

use aws_sdk_firehose::Client;
use aws_sdk_firehose::config::retry::RetryConfig;
use aws_sdk_firehose::primitives::Blob;
use aws_sdk_firehose::types::{PutRecordBatchResponseEntry, Record};

pub use self::memory::MemoryStream;
use super::service::ServiceRequest;
use crate::{Error, ErrorKind};

/// Firehose's limit on the records of one request.
pub const MAX_BATCH_RECORDS: usize = 500;
/// Firehose's limit on the data of one request: 4 MiB.
pub const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;
/// Firehose's limit on one record's data: 1,000 KiB.
pub const MAX_RECORD_BYTES: usize = 1_024_000;
/// Firehose bills each record as a whole number of these: 5 KB.
pub const BILLED_BYTES: usize = 5 * 1024;

/// A delivery stream.
///
/// A request is sent once; whether it is sent again is for the caller to decide. The stream may take a record although it
/// says otherwise, so that records may come out twice.
pub trait DeliveryStream: Send + Sync {
    /// Hands over records: at most [`MAX_BATCH_RECORDS`] of at most [`MAX_RECORD_BYTES`], together at most
    /// [`MAX_BATCH_BYTES`]. The answer aligns with them: an error stands for a record that was not taken.
    ///
    /// # Errors
    /// `Unavailable` when throttled, unreachable or not answered, `Configuration` for a missing stream or permission,
    /// `Rejected` for a request that would be refused again.
    fn put_batch(
        &self,
        records: &[&[u8]],
    ) -> impl Future<Output = Result<Vec<Result<(), Error>>, Error>> + Send;
}

impl<S: DeliveryStream> DeliveryStream for Arc<S> {
    fn put_batch(
        &self,
        records: &[&[u8]],
    ) -> impl Future<Output = Result<Vec<Result<(), Error>>, Error>> + Send {
        (**self).put_batch(records)
    }
}

/// A Firehose delivery stream, spoken to through the AWS SDK.
#[derive(Clone, Debug)]
pub struct Firehose {
    client: Client,
    stream: Arc<str>,
}

impl Firehose {
    /// The delivery stream of this name. Takes a client as it is configured, but for retries: it has none.
    #[must_use]
    pub fn new(client: &Client, stream: Arc<str>) -> Self {
        let once = client.config().to_builder().retry_config(RetryConfig::disabled()).build();
        Self { client: Client::from_conf(once), stream }
    }

    fn request(&self) -> ServiceRequest<'_> {
        ServiceRequest {
            service: "Firehose",
            action: "PutRecordBatch",
            permission: "firehose:PutRecordBatch",
            kind: "delivery stream",
            name: &self.stream,
            variable: "AFTERWRITE_FIREHOSE_STREAM",
        }
    }

    /// One answer a record. `FailedPutCount` and the codes must agree, or nothing is taken for delivered.
    fn answers(
        &self,
        entries: &[PutRecordBatchResponseEntry],
        failed: i32,
        sent: usize,
    ) -> Result<Vec<Result<(), Error>>, Error> {
        let has_failed = |entry: &&PutRecordBatchResponseEntry| entry.error_code().is_some();
        let coded = entries.iter().filter(has_failed).count();
        if entries.len() != sent || usize::try_from(failed).ok() != Some(coded) {
            return Err(Error::new(
                ErrorKind::Unavailable,
                "PutRecordBatch: the answer does not say what became of each record",
            )
            .with("delivery stream", &*self.stream));
        }
        let answer = |entry: &PutRecordBatchResponseEntry| {
            entry.error_code().map_or(Ok(()), |code| Err(self.request().coded(code)))
        };
        Ok(entries.iter().map(answer).collect())
    }
}

impl DeliveryStream for Firehose {
    async fn put_batch(&self, records: &[&[u8]]) -> Result<Vec<Result<(), Error>>, Error> {
        let unbuilt = |error| {
            Error::new(ErrorKind::Rejected, "PutRecordBatch: a record cannot be sent").caused_by(error)
        };
        let mut request = self.client.put_record_batch().delivery_stream_name(&*self.stream);
        for data in records {
            request = request.records(Record::builder().data(Blob::new(*data)).build().map_err(unbuilt)?);
        }
        let answer = request.send().await.map_err(|error| self.request().error(&error))?;
        self.answers(answer.request_responses(), answer.failed_put_count(), records.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(codes: &[Option<&str>], failed: i32, sent: usize) -> Result<Vec<Result<(), Error>>, Error> {
        let config = aws_sdk_firehose::Config::builder()
            .behavior_version(aws_sdk_firehose::config::BehaviorVersion::latest())
            .build();
        let entry = |code: &Option<&str>| {
            PutRecordBatchResponseEntry::builder().set_error_code(code.map(str::to_owned)).build()
        };
        let entries: Vec<_> = codes.iter().map(entry).collect();
        Firehose::new(&Client::from_conf(config), Arc::from("s")).answers(&entries, failed, sent)
    }

    #[test]
    fn each_record_has_its_own_answer() {
        let answers = answers(&[None, Some("ServiceUnavailableException"), None], 1, 3).unwrap();
        let kinds: Vec<Option<ErrorKind>> =
            answers.iter().map(|answer| answer.as_ref().err().map(Error::kind)).collect();
        assert_eq!(kinds, [None, Some(ErrorKind::Unavailable), None]);
    }

    #[test]
    fn an_answer_that_contradicts_itself_delivers_nothing() {
        for (codes, failed, sent) in
            [(vec![None, None], 1, 2), (vec![None], 0, 2), (vec![Some("InternalFailure")], 0, 1)]
        {
            let error = answers(&codes, failed, sent).expect_err("a contradiction");
            assert_eq!(error.kind(), ErrorKind::Unavailable);
        }
    }
}
