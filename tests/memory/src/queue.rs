//! A queue in memory, with the service's limits.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use afterwrite_model::{Error, ErrorKind};
use afterwrite_services::PathQueue;
use afterwrite_services::sqs::{MAX_BATCH_BYTES, MAX_BATCH_MESSAGES};

/// Keeps the messages of every request.
#[derive(Debug, Default)]
pub struct MemoryQueue(Mutex<Vec<Vec<String>>>);

impl MemoryQueue {
    /// The requests so far: for each, its messages.
    #[must_use]
    pub fn requests(&self) -> Vec<Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All messages in the order of arrival.
    #[must_use]
    pub fn messages(&self) -> Vec<String> {
        self.requests().concat()
    }
}

impl PathQueue for MemoryQueue {
    async fn send_batch(
        &self,
        messages: &[String],
        _limit: Duration,
    ) -> Result<Vec<Result<(), Error>>, Error> {
        let bytes: usize = messages.iter().map(String::len).sum();
        let is_within_limits =
            !messages.is_empty() && messages.len() <= MAX_BATCH_MESSAGES && bytes <= MAX_BATCH_BYTES;
        if !is_within_limits || messages.iter().any(String::is_empty) {
            return Err(Error::new(ErrorKind::Rejected, "SendMessageBatch: the request is over a limit"));
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(messages.to_vec());
        Ok(messages.iter().map(|_| Ok(())).collect())
    }
}
