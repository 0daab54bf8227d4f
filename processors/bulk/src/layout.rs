//! The objects of a run in the bucket. Their keys follow from the work alone, so a step that runs twice replaces its own objects.
//!
//! | object | content |
//! |---|---|
//! | `<run>/plan.json` | the plan: exports, model, number of partitions |
//! | `<run>/lookups.json`, `items.json`, `reduce.json` | the requests of each phase, as an array: what a Step Functions Distributed Map reads |
//! | `<run>/partial/<partition>/<pass>-<file>-<part>.json.gz` | partial rollups and remembered lookups, by the hash of their key |
//! | `<run>/import/<pass>-<file>-<part>.json.gz` | ledger entries, final |
//! | `<run>/import/rollups-<partition>-<part>.json.gz` | rollups and remembered lookups, final |

use sha2::{Digest as _, Sha256};

use crate::request::MapPass;

/// The folder of a run: a prefix in the bucket, without a slash at its end.
#[derive(Clone, Copy, Debug)]
pub struct RunLayout<'r>(pub &'r str);

impl RunLayout<'_> {
    /// The plan.
    #[must_use]
    pub fn plan(self) -> String {
        format!("{}/plan.json", self.0)
    }

    /// The requests of a phase.
    #[must_use]
    pub fn requests(self, phase: &str) -> String {
        format!("{}/{phase}.json", self.0)
    }

    /// The objects that `ImportTable` reads.
    #[must_use]
    pub fn import(self) -> String {
        format!("{}/import/", self.0)
    }

    /// Ledger entries of a data file.
    #[must_use]
    pub fn entries(self, pass: MapPass, file: u32, part: u32) -> String {
        format!("{}/import/{}-{file:06}-{part:04}.json.gz", self.0, pass.name())
    }

    /// The folders of results.
    #[must_use]
    pub(crate) fn results(self) -> [String; 2] {
        [self.import(), format!("{}/partial/", self.0)]
    }

    /// The final rollups of a partition.
    #[must_use]
    pub fn rollups(self, partition: u32, part: u64) -> String {
        format!("{}/import/rollups-{partition:04}-{part:04}.json.gz", self.0)
    }

    /// The partial rollups of a partition: all of them.
    #[must_use]
    pub fn partials(self, partition: u32) -> String {
        format!("{}/partial/{partition:04}/", self.0)
    }

    /// The partial rollups of a partition that a data file contributes.
    #[must_use]
    pub fn partial(self, partition: u32, pass: MapPass, file: u32) -> String {
        format!("{}{}-{file:06}.json.gz", self.partials(partition), pass.name())
    }
}

/// A number that spreads keys evenly, and is the same on every machine.
#[must_use]
pub(crate) fn key_hash(partition: &str, sort: &str) -> u64 {
    let hash = Sha256::digest([partition, "\0", sort].concat().as_bytes());
    hash.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The partition of a key.
#[must_use]
pub(crate) fn partition_of(hash: u64, partitions: u32) -> u32 {
    u32::try_from(hash % u64::from(partitions.max(1))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_spread_over_all_partitions_and_stay_where_they_are() {
        let mut counts = [0; 16];
        for number in 0..1_600 {
            let partition = partition_of(key_hash(&format!("ADMIN#{number}"), "ROLLUP#TOTAL"), 16);
            counts[usize::try_from(partition).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (60..=150).contains(count)), "{counts:?}");
        assert_eq!(partition_of(key_hash("ADMIN#1", "ROLLUP#TOTAL"), 16), 12);
    }
}
