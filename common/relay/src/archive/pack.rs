//! Lines → records of the delivery stream → requests.
//!
//! Firehose rounds the billed size of each record up to the next 5 KB. A record of any size wastes less than one such unit, so the fewest records
//! waste least: lines share a record up to its limit. That also needs the fewest requests.

use afterwrite_services::firehose::{MAX_BATCH_BYTES, MAX_BATCH_RECORDS, MAX_RECORD_BYTES};

use super::ArchiveLine;
use crate::requests::split_into_requests;

/// The longest line that a delivery stream accepts, in bytes, newline included.
pub const MAX_LINE_BYTES: usize = MAX_RECORD_BYTES;

/// A record of the delivery stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DeliveryRecord {
    /// Whole lines.
    pub(super) data: Vec<u8>,
    /// For each line, the index of its change record in the batch.
    pub(super) indexes: Vec<usize>,
}

/// Packs lines, each at most [`MAX_LINE_BYTES`], in order.
pub(super) fn pack_lines(lines: &[ArchiveLine<'_>]) -> Vec<DeliveryRecord> {
    let mut records: Vec<DeliveryRecord> = Vec::new();
    let mut bytes_left: usize = lines.iter().map(|line| line.text.len()).sum();
    for line in lines {
        let has_room = |record: &&mut DeliveryRecord| record.data.len() + line.text.len() <= MAX_LINE_BYTES;
        match records.last_mut().filter(has_room) {
            Some(record) => {
                record.data.extend_from_slice(line.text.as_bytes());
                record.indexes.push(line.index);
            }
            None => {
                let mut data = Vec::with_capacity(bytes_left.min(MAX_LINE_BYTES).max(line.text.len()));
                data.extend_from_slice(line.text.as_bytes());
                records.push(DeliveryRecord { data, indexes: vec![line.index] });
            }
        }
        bytes_left -= line.text.len();
    }
    records
}

/// Splits records into requests within the service's limits.
pub(super) fn split_requests(records: Vec<DeliveryRecord>) -> Vec<Vec<DeliveryRecord>> {
    split_into_requests(records, (MAX_BATCH_RECORDS, MAX_BATCH_BYTES), |record| record.data.len())
}

#[cfg(test)]
mod tests {
    use afterwrite_services::firehose::BILLED_BYTES;
    use proptest::prelude::*;

    use super::*;

    /// Line sizes around every limit.
    fn size() -> impl Strategy<Value = usize> {
        prop_oneof![
            8 => 1_usize..3_000,
            2 => 5_110_usize..5_130,
            2 => 100_000_usize..600_000,
            1 => MAX_LINE_BYTES - 2..=MAX_LINE_BYTES,
        ]
    }

    fn lines<'t>(text: &'t str, sizes: &[usize]) -> Vec<ArchiveLine<'t>> {
        let line = |(index, size): (usize, &usize)| ArchiveLine {
            index,
            event_id: "",
            text: text.get(text.len() - size..).unwrap(),
        };
        sizes.iter().enumerate().map(line).collect()
    }

    fn text() -> String {
        format!("{}\n", "x".repeat(MAX_LINE_BYTES - 1))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_line_is_sent_once_and_no_limit_is_exceeded(sizes in proptest::collection::vec(size(), 0..60)) {
            let text = text();
            let lines = lines(&text, &sizes);
            let records = pack_lines(&lines);
            let bytes: usize = sizes.iter().sum();
            let units: usize = records.iter().map(|record| record.data.len().div_ceil(BILLED_BYTES)).sum();
            // A full record has no room for the line after it.
            let is_full = |pair: &[DeliveryRecord]| {
                let next = pair[1].indexes.first().map_or(0, |index| sizes[*index]);
                pair[0].data.len() + next > MAX_LINE_BYTES
            };
            prop_assert!(records.windows(2).all(is_full));
            prop_assert!(units <= bytes / BILLED_BYTES + records.len());
            let indexes: Vec<usize> = records.iter().flat_map(|record| record.indexes.clone()).collect();
            prop_assert_eq!(indexes, (0..sizes.len()).collect::<Vec<_>>());
            for record in &records {
                prop_assert!(record.data.len() <= MAX_LINE_BYTES && record.data.ends_with(b"\n"));
                prop_assert_eq!(record.data.iter().filter(|byte| **byte == b'\n').count(), record.indexes.len());
            }
            let requests = split_requests(records.clone());
            for request in &requests {
                prop_assert!(!request.is_empty() && request.len() <= MAX_BATCH_RECORDS);
                prop_assert!(request.iter().map(|record| record.data.len()).sum::<usize>() <= MAX_BATCH_BYTES);
            }
            prop_assert_eq!(requests.concat(), records);
        }
    }

    #[test]
    fn a_request_has_at_most_five_hundred_records() {
        let records: Vec<DeliveryRecord> =
            (0..1_001).map(|index| DeliveryRecord { data: vec![b'\n'], indexes: vec![index] }).collect();
        let lengths: Vec<usize> = split_requests(records).iter().map(Vec::len).collect();
        assert_eq!(lengths, [500, 500, 1]);
    }

    #[test]
    fn a_request_has_at_most_four_mebibytes() {
        let record = |bytes: usize| DeliveryRecord { data: vec![b'\n'; bytes], indexes: vec![0] };
        let four = MAX_BATCH_BYTES - 4 * MAX_RECORD_BYTES;
        let full = |last: usize| [vec![record(MAX_RECORD_BYTES); 4], vec![record(last)]].concat();
        assert_eq!(split_requests(full(four)).len(), 1);
        assert_eq!(split_requests(full(four + 1)).len(), 2);
    }
}
