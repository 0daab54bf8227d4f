//! Temporary files of digests, by a hash of the key: digests of one key are in one file, and one file at a time fits into memory. A small
//! file stays in memory.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{BufRead as _, BufReader, BufWriter, Seek as _, Write as _};
use std::sync::{Mutex, PoisonError};

use afterwrite_datasets::row_values::RowDigest;
use afterwrite_model::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use tempfile::{SpooledTempFile, spooled_tempfile};

use super::keys::DatasetKey;

/// The number of files.
pub(super) const FILES: usize = 256;
const BUFFER_BYTES: usize = 16 * 1024;

/// A row that an item should have, or that a dataset has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SeenRow {
    pub(super) side: RowSide,
    pub(super) day: String,
    pub(super) digest: RowDigest,
}

/// Where a row was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum RowSide {
    /// An item of a table.
    Item,
    /// A row of a dataset.
    Dataset,
    /// A row of a dataset that is not surely of the tenant that is verified.
    Unassigned,
}

/// A line of a file: key, side, day, digests.
type SpilledLine = (DatasetKey, RowSide, String, (u64, u64, bool));

/// The files.
#[derive(Debug)]
pub(super) struct DigestSpill {
    files: Vec<Mutex<BufWriter<SpooledTempFile>>>,
}

impl DigestSpill {
    /// Empty files. They have no names: they are gone when the process is.
    pub(super) fn new() -> Self {
        let file = || BufWriter::with_capacity(BUFFER_BYTES, spooled_tempfile(BUFFER_BYTES));
        Self { files: (0..FILES).map(|_| Mutex::new(file())).collect() }
    }

    /// Adds a row of a key.
    pub(super) fn add(&self, key: &DatasetKey, row: &SeenRow) -> Result<()> {
        let mut hash = DefaultHasher::new();
        key.hash(&mut hash);
        let index = usize::try_from(hash.finish() % FILES as u64).unwrap_or(0);
        let Some(file) = self.files.get(index) else { return Ok(()) };
        let RowDigest { all, own, lacks_output } = row.digest;
        let line: (&DatasetKey, RowSide, &str, _) = (key, row.side, &row.day, (all, own, lacks_output));
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        serde_json::to_writer(&mut *file, &line).map_err(unusable)?;
        file.write_all(b"\n").map_err(unusable)
    }

    /// Reads a file, by key.
    pub(super) fn read(&self, index: usize) -> Result<HashMap<DatasetKey, Vec<SeenRow>>> {
        let mut rows: HashMap<DatasetKey, Vec<SeenRow>> = HashMap::new();
        let Some(file) = self.files.get(index) else { return Ok(rows) };
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        file.flush().map_err(unusable)?;
        file.get_mut().rewind().map_err(unusable)?;
        for line in BufReader::new(file.get_mut()).lines() {
            let line = line.map_err(unusable)?;
            let (key, side, day, (all, own, lacks_output)): SpilledLine =
                serde_json::from_str(&line).map_err(unusable)?;
            let digest = RowDigest { all, own, lacks_output };
            rows.entry(key).or_default().push(SeenRow { side, day, digest });
        }
        Ok(rows)
    }
}

fn unusable(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorKind::Configuration, "cannot write or read a temporary file")
        .hint("Free space in the folder of temporary files, or verify a --sample")
        .caused_by(cause)
}

#[cfg(test)]
mod tests {
    use afterwrite_model::entity::SourceKey;

    use super::*;

    #[test]
    fn all_rows_of_a_key_are_in_one_file() {
        let spill = DigestSpill::new();
        let digest = RowDigest { all: 1, own: 2, lacks_output: true };
        let key = |number: u32| {
            let source = SourceKey { table: 0, partition: format!("P#{number}").into(), sort: None };
            DatasetKey::of_item(0, &source)
        };
        for number in 0..1_000 {
            for side in [RowSide::Item, RowSide::Dataset] {
                let row = SeenRow { side, day: "2026-02-06".to_owned(), digest };
                spill.add(&key(number), &row).unwrap();
            }
        }
        let files: Vec<_> = (0..FILES).map(|index| spill.read(index).unwrap()).collect();
        assert_eq!(files.iter().map(HashMap::len).sum::<usize>(), 1_000);
        assert!(files.iter().flat_map(HashMap::values).all(|rows| rows.len() == 2));
        assert!(files.iter().all(|file| file.len() < 40), "they share the keys");
    }
}
