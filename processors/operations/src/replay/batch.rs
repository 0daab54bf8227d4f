//! Batches of records as Lambda events.

use crate::jobs::count;

/// The most records of a batch: Lambda's recommended batch of `aggregator`.
pub(super) const MAX_RECORDS: usize = 1_000;
/// The most bytes of a batch, below Lambda's limit of 6 MB.
const MAX_BYTES: usize = 5 * 1024 * 1024;

/// Records for one event.
#[derive(Debug, Default)]
pub(super) struct RecordBatch {
    records: Vec<String>,
    bytes: usize,
}

impl RecordBatch {
    pub(super) fn push(&mut self, record: String) {
        self.bytes += record.len() + 1;
        self.records.push(record);
    }

    pub(super) fn is_full(&self) -> bool {
        self.records.len() >= MAX_RECORDS || self.bytes >= MAX_BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(super) fn len(&self) -> u64 {
        count(self.records.len())
    }

    pub(super) fn event(&self) -> Vec<u8> {
        let mut event = Vec::with_capacity(self.bytes + 16);
        event.extend_from_slice(b"{\"Records\":[");
        for (index, record) in self.records.iter().enumerate() {
            if index > 0 {
                event.push(b',');
            }
            event.extend_from_slice(record.as_bytes());
        }
        event.extend_from_slice(b"]}");
        event
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_an_event() {
        let mut batch = RecordBatch::default();
        assert!(batch.is_empty() && batch.event() == b"{\"Records\":[]}");
        batch.push("{}".to_owned());
        batch.push("{\"a\":1}".to_owned());
        assert_eq!(batch.event(), b"{\"Records\":[{},{\"a\":1}]}");
        assert_eq!((batch.len(), batch.is_full()), (2, false));
    }
}
