//! Many lines → few records of a delivery stream → fewer requests.
//!
//! Firehose bills each record up to the next 5 KB. A record wastes less than one such unit, however large it is; so the
//! waste is least where records are fewest, and lines share a record up to its limit. That also leaves the fewest requests.

use super::ArchiveLine;
use crate::sink::firehose::{MAX_BATCH_BYTES, MAX_BATCH_RECORDS, MAX_RECORD_BYTES};

/// The longest line that a delivery stream takes, newline included, in bytes.
pub const MAX_LINE_BYTES: usize = MAX_RECORD_BYTES;

/// One record of the delivery stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryRecord {
    /// Its data: whole lines.
    pub data: Vec<u8>,
    /// The places in the batch of the records that it holds, one a line.
    pub indexes: Vec<usize>,
}

/// Packs lines, each at most [`MAX_LINE_BYTES`], in order.
#[must_use]
pub fn pack(lines: &[ArchiveLine<'_>]) -> Vec<DeliveryRecord> {
    let mut packs: Vec<DeliveryRecord> = Vec::new();
    let mut bytes_left: usize = lines.iter().map(|line| line.text.len()).sum();
    for line in lines {
        let fits = |pack: &&mut DeliveryRecord| pack.data.len() + line.text.len() <= MAX_LINE_BYTES;
        match packs.last_mut().filter(fits) {
            Some(pack) => {
                pack.data.extend_from_slice(line.text.as_bytes());
                pack.indexes.push(line.index);
            }
            None => {
                let mut data = Vec::with_capacity(bytes_left.min(MAX_LINE_BYTES).max(line.text.len()));
                data.extend_from_slice(line.text.as_bytes());
                packs.push(DeliveryRecord { data, indexes: vec![line.index] });
            }
        }
        bytes_left -= line.text.len();
    }
    packs
}

/// Cuts records into requests within the service's limits.
#[must_use]
pub fn requests(packs: Vec<DeliveryRecord>) -> Vec<Vec<DeliveryRecord>> {
    let mut requests: Vec<Vec<DeliveryRecord>> = Vec::new();
    let mut bytes = 0;
    for pack in packs {
        bytes += pack.data.len();
        match requests.last_mut() {
            Some(request) if request.len() < MAX_BATCH_RECORDS && bytes <= MAX_BATCH_BYTES => {
                request.push(pack);
            }
            Some(_) | None => {
                bytes = pack.data.len();
                requests.push(vec![pack]);
            }
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sink::firehose::BILLED_BYTES;

    /// Sizes around everything that matters.
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
        fn every_line_is_sent_once_and_no_limit_is_passed(sizes in proptest::collection::vec(size(), 0..60)) {
            let text = text();
            let lines = lines(&text, &sizes);
            let packs = pack(&lines);
            let bytes: usize = sizes.iter().sum();
            let units: usize = packs.iter().map(|pack| pack.data.len().div_ceil(BILLED_BYTES)).sum();
            // A full record has no room for the line after it.
            let is_full = |pair: &[DeliveryRecord]| {
                let next = pair[1].indexes.first().map_or(0, |index| sizes[*index]);
                pair[0].data.len() + next > MAX_LINE_BYTES
            };
            prop_assert!(packs.windows(2).all(is_full));
            prop_assert!(units <= bytes / BILLED_BYTES + packs.len());
            let indexes: Vec<usize> = packs.iter().flat_map(|pack| pack.indexes.clone()).collect();
            prop_assert_eq!(indexes, (0..sizes.len()).collect::<Vec<_>>());
            for pack in &packs {
                prop_assert!(pack.data.len() <= MAX_LINE_BYTES && pack.data.ends_with(b"\n"));
                prop_assert_eq!(pack.data.iter().filter(|byte| **byte == b'\n').count(), pack.indexes.len());
            }
            let requests = requests(packs.clone());
            for request in &requests {
                prop_assert!(!request.is_empty() && request.len() <= MAX_BATCH_RECORDS);
                prop_assert!(request.iter().map(|pack| pack.data.len()).sum::<usize>() <= MAX_BATCH_BYTES);
            }
            prop_assert_eq!(requests.concat(), packs);
        }
    }

    #[test]
    fn a_request_has_at_most_five_hundred_records() {
        let packs: Vec<DeliveryRecord> =
            (0..1_001).map(|index| DeliveryRecord { data: vec![b'\n'], indexes: vec![index] }).collect();
        let lengths: Vec<usize> = requests(packs).iter().map(Vec::len).collect();
        assert_eq!(lengths, [500, 500, 1]);
    }

    #[test]
    fn four_mebibytes_are_the_most_and_one_byte_more_is_another_request() {
        let pack = |bytes: usize| DeliveryRecord { data: vec![b'\n'; bytes], indexes: vec![0] };
        let four = MAX_BATCH_BYTES - 4 * MAX_RECORD_BYTES;
        let full = |last: usize| [vec![pack(MAX_RECORD_BYTES); 4], vec![pack(last)]].concat();
        assert_eq!(requests(full(four)).len(), 1);
        assert_eq!(requests(full(four + 1)).len(), 2);
    }
}
