//! The totals of archiving a batch, and the volume that Firehose bills for it.

use afterwrite_services::firehose::BILLED_BYTES;

use super::{ArchiveLine, DeliveryRecord, count};

/// The totals of archiving a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveTotals {
    /// Lines that were archived.
    pub lines: u64,
    /// Their bytes, newlines included, before compression.
    pub bytes: u64,
    /// Records that the delivery stream acknowledged.
    pub firehose_records: u64,
    /// Their billed size in units of 5 KB. A record whose response was lost may be billed again.
    pub billed_units: u64,
    /// Records and objects that were sent again.
    pub retries: u64,
    /// Lines that were written to the bucket directly.
    pub direct_objects: u64,
}

impl ArchiveTotals {
    pub(super) fn add_record(&mut self, record: &DeliveryRecord) {
        self.lines += count(record.indexes.len());
        self.bytes += count(record.data.len());
        self.firehose_records += 1;
        self.billed_units += count(record.data.len().div_ceil(BILLED_BYTES));
    }

    pub(super) fn add_object(&mut self, line: &ArchiveLine<'_>) {
        self.lines += 1;
        self.bytes += count(line.text.len());
        self.direct_objects += 1;
    }
}

impl std::ops::AddAssign for ArchiveTotals {
    fn add_assign(&mut self, other: Self) {
        self.lines += other.lines;
        self.bytes += other.bytes;
        self.firehose_records += other.firehose_records;
        self.billed_units += other.billed_units;
        self.retries += other.retries;
        self.direct_objects += other.direct_objects;
    }
}
