//! Firehose delivery streams.

use std::sync::Arc;

use afterwrite_model::{Error, ErrorKind};
use aws_sdk_firehose::Client;
use aws_sdk_firehose::config::retry::RetryConfig;
use aws_sdk_firehose::primitives::Blob;
use aws_sdk_firehose::types::{PutRecordBatchResponseEntry, Record};

use super::DeliveryStream;
use super::request::{NamedBy, ServiceRequest};

/// Firehose's limit on the records of one request.
pub const MAX_BATCH_RECORDS: usize = 500;
/// Firehose's limit on the data of one request: 4 MiB.
pub const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;
/// Firehose's limit on one record's data: 1,000 KiB.
pub const MAX_RECORD_BYTES: usize = 1_024_000;
/// Firehose bills each record as a whole number of these: 5 KB.
pub const BILLED_BYTES: usize = 5 * 1024;

/// A Firehose delivery stream, through the AWS SDK.
#[derive(Clone, Debug)]
pub struct Firehose {
    client: Client,
    stream: Arc<str>,
}

impl Firehose {
    /// The delivery stream of this name. Uses the client with its configuration, except that nothing is retried.
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
            resource: "delivery stream",
            name: &self.stream,
            named_by: NamedBy::Setting("AFTERWRITE_FIREHOSE_STREAM"),
        }
    }

    /// The result for each record. If `FailedPutCount` and the error codes disagree, no record counts as delivered.
    fn results(
        &self,
        entries: &[PutRecordBatchResponseEntry],
        failed: i32,
        sent: usize,
    ) -> Result<Vec<Result<(), Error>>, Error> {
        let codes: Vec<Option<&str>> = entries.iter().map(PutRecordBatchResponseEntry::error_code).collect();
        if codes.len() != sent || usize::try_from(failed).ok() != Some(codes.iter().flatten().count()) {
            let message = "the response does not contain a result for each record";
            return Err(self.request().new_error(ErrorKind::Unavailable, message));
        }
        let result = |code: Option<&str>| code.map_or(Ok(()), |code| Err(self.request().partial_error(code)));
        Ok(codes.into_iter().map(result).collect())
    }
}

impl DeliveryStream for Firehose {
    async fn put_batch(&self, records: &[&[u8]]) -> Result<Vec<Result<(), Error>>, Error> {
        let unbuilt = |error| {
            self.request().new_error(ErrorKind::Rejected, "a record could not be built").caused_by(error)
        };
        let mut request = self.client.put_record_batch().delivery_stream_name(&*self.stream);
        for data in records {
            request = request.records(Record::builder().data(Blob::new(*data)).build().map_err(unbuilt)?);
        }
        let response = request.send().await.map_err(|error| self.request().error(&error))?;
        self.results(response.request_responses(), response.failed_put_count(), records.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(codes: &[Option<&str>], failed: i32, sent: usize) -> Result<Vec<Result<(), Error>>, Error> {
        let config = aws_sdk_firehose::Config::builder()
            .behavior_version(aws_sdk_firehose::config::BehaviorVersion::latest())
            .build();
        let entry = |code: &Option<&str>| {
            PutRecordBatchResponseEntry::builder().set_error_code(code.map(str::to_owned)).build()
        };
        let entries: Vec<_> = codes.iter().map(entry).collect();
        Firehose::new(&Client::from_conf(config), Arc::from("s")).results(&entries, failed, sent)
    }

    #[test]
    fn each_record_has_its_own_result() {
        let results = results(&[None, Some("ServiceUnavailableException"), None], 1, 3).unwrap();
        let kinds: Vec<Option<ErrorKind>> =
            results.iter().map(|result| result.as_ref().err().map(Error::kind)).collect();
        assert_eq!(kinds, [None, Some(ErrorKind::Unavailable), None]);
    }

    #[test]
    fn a_contradictory_response_delivers_nothing() {
        for (codes, failed, sent) in
            [(vec![None, None], 1, 2), (vec![None], 0, 2), (vec![Some("InternalFailure")], 0, 1)]
        {
            let error = results(&codes, failed, sent).expect_err("a contradiction");
            assert_eq!(error.kind(), ErrorKind::Unavailable);
        }
    }
}
