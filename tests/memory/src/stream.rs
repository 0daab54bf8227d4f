//! A delivery stream in memory, with the service's limits.

use std::sync::{Mutex, PoisonError};

use afterwrite_model::{Error, ErrorKind};
use afterwrite_services::DeliveryStream;
use afterwrite_services::firehose::{MAX_BATCH_BYTES, MAX_BATCH_RECORDS, MAX_RECORD_BYTES};

/// Keeps the records of every request.
#[derive(Debug, Default)]
pub struct MemoryStream(Mutex<Vec<Vec<Vec<u8>>>>);

impl MemoryStream {
    /// The requests so far: for each, the data of its records.
    #[must_use]
    pub fn requests(&self) -> Vec<Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The data of all records in the order of arrival, concatenated as in the service's objects.
    #[must_use]
    pub fn contents(&self) -> Vec<u8> {
        self.requests().concat().concat()
    }
}

impl DeliveryStream for MemoryStream {
    async fn put_batch(&self, records: &[&[u8]]) -> Result<Vec<Result<(), Error>>, Error> {
        let bytes: usize = records.iter().map(|data| data.len()).sum();
        let is_within_limits = !records.is_empty()
            && records.len() <= MAX_BATCH_RECORDS
            && bytes <= MAX_BATCH_BYTES
            && records.iter().all(|data| data.len() <= MAX_RECORD_BYTES);
        if !is_within_limits {
            return Err(Error::new(ErrorKind::Rejected, "PutRecordBatch: the request is over a limit"));
        }
        let request = records.iter().map(|data| data.to_vec()).collect();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        Ok(records.iter().map(|_| Ok(())).collect())
    }
}
