//! Which files of a partition of the log are packed.
//!
//! The files of one packing run count as one. Runs are packed from the smallest up to the largest whose size is at most
//! [`GROWTH`] times that of all smaller ones together. So a large run is written again only after much has come, a row is written again
//! a few times only, and the rows that another run outdates take at most a third of the space.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::delta::DataFile;
use crate::paths::run_of_path;

/// A run is packed with the smaller runs if it is at most this many times as large as they are together.
const GROWTH: u64 = 4;

/// The files that are worth packing; empty if none are.
pub(super) fn files_to_pack(files: &[Arc<DataFile>]) -> Vec<Arc<DataFile>> {
    let mut runs: BTreeMap<&str, (u64, Vec<&Arc<DataFile>>)> = BTreeMap::new();
    for file in files {
        let (bytes, members) = runs.entry(run_of_path(&file.path)).or_default();
        *bytes += file.size;
        members.push(file);
    }
    let mut runs: Vec<_> = runs.into_values().collect();
    runs.sort_by_key(|(bytes, _)| *bytes);
    let (mut smaller, mut packed) = (0, 0);
    for (place, (bytes, _)) in runs.iter().enumerate() {
        if *bytes <= smaller * GROWTH {
            packed = place + 1;
        }
        smaller += bytes;
    }
    runs.into_iter().take(packed).flat_map(|(_, members)| members).cloned().collect()
}
