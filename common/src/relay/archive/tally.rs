//! What archiving a batch did and costs.

use super::{ArchiveLine, DeliveryRecord, count};
use crate::sink::firehose::BILLED_BYTES;

/// What archiving a batch did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveTotals {
    /// Lines that were archived.
    pub lines: u64,
    /// Their bytes, newlines included, before compression.
    pub bytes: u64,
    /// Records that the delivery stream acknowledged.
    pub firehose_records: u64,
    /// What they are billed as, in units of 5 KB; a record whose answer was lost may be billed again.
    pub billed_units: u64,
    /// Records and objects that were sent again.
    pub retries: u64,
    /// Lines that went to the bucket directly.
    pub direct_objects: u64,
}

impl ArchiveTotals {
    /// Each number with its name, in the order of declaration.
    #[must_use]
    pub fn named(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("lines", self.lines),
            ("bytes", self.bytes),
            ("firehose_records", self.firehose_records),
            ("billed_units", self.billed_units),
            ("retries", self.retries),
            ("direct_objects", self.direct_objects),
        ]
    }

    pub(super) fn deliver(&mut self, pack: &DeliveryRecord) {
        self.lines += count(pack.indexes.len());
        self.bytes += count(pack.data.len());
        self.firehose_records += 1;
        self.billed_units += count(pack.data.len().div_ceil(BILLED_BYTES));
    }

    pub(super) fn store(&mut self, line: &ArchiveLine<'_>) {
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
