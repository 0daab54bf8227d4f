//! A delivery stream in memory, as strict about limits as the service.

use std::sync::{Mutex, PoisonError};

use super::{DeliveryStream, MAX_BATCH_BYTES, MAX_BATCH_RECORDS, MAX_RECORD_BYTES};
use crate::{Error, ErrorKind};

/// Keeps what it is given, request by request.
#[derive(Debug, Default)]
pub struct MemoryStream(Mutex<Vec<Vec<Vec<u8>>>>);

impl MemoryStream {
    /// The requests so far: the data of each one's records.
    #[must_use]
    pub fn requests(&self) -> Vec<Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All records' data in the order in which they came, one after the other, as objects would hold them.
    #[must_use]
    pub fn contents(&self) -> Vec<u8> {
        self.requests().concat().concat()
    }
}

impl DeliveryStream for MemoryStream {
    async fn put_batch(&self, records: &[&[u8]]) -> Result<Vec<Result<(), Error>>, Error> {
        let bytes: usize = records.iter().map(|data| data.len()).sum();
        let within = !records.is_empty()
            && records.len() <= MAX_BATCH_RECORDS
            && bytes <= MAX_BATCH_BYTES
            && records.iter().all(|data| data.len() <= MAX_RECORD_BYTES);
        if !within {
            return Err(Error::new(ErrorKind::Rejected, "PutRecordBatch: the request is over a limit"));
        }
        let request = records.iter().map(|data| data.to_vec()).collect();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        Ok(records.iter().map(|_| Ok(())).collect())
    }
}
