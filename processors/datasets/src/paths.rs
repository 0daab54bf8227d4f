//! The keys of objects in the bucket.
//!
//! | key | object |
//! |---|---|
//! | `archive/…` | change records as gzip JSON lines: the exporter's input |
//! | `rejected/….jsonl` | the lines of `archive/…` that could not be exported |
//! | `datasets/<name>/dt=<day>/<hash of the archive key>-<fingerprint>.parquet` | a file of the exporter |
//! | `datasets/<name>/dt=<day>/compacted-<run>-<number>.parquet` | a file of the compactor |
//! | `compactions/<name>/dt=<day>/<hash of the inputs' keys>.json` | the manifest of a compaction |
//! | `compactions/<name>/dt=<day>/<run>.begun` | the mark of a compaction run that has not committed |

use afterwrite::table::Dataset;
use sha2::{Digest as _, Sha256};

/// The prefix of archive objects.
pub(crate) const ARCHIVE: &str = "archive/";

const COMPACTED: &str = "compacted-";
const PARQUET: &str = ".parquet";
const MANIFEST: &str = ".json";
const RUN_MARK: &str = ".begun";

/// The key of the rejected lines of an archive object.
pub(crate) fn rejected_lines(archive_key: &str) -> String {
    format!("rejected/{}.jsonl", archive_key.strip_prefix(ARCHIVE).unwrap_or(archive_key))
}

/// The prefix of a dataset's files.
pub(crate) fn dataset_files(dataset: &Dataset) -> String {
    format!("datasets/{}/", dataset.name)
}

/// The prefix of a dataset's manifests and run marks.
pub(crate) fn dataset_manifests(dataset: &Dataset) -> String {
    format!("compactions/{}/", dataset.name)
}

/// The day and the name in `<prefix>dt=<day>/<name>`.
pub(crate) fn day_and_name<'k>(key: &'k str, prefix: &str) -> Option<(&'k str, &'k str)> {
    key.strip_prefix(prefix)?.strip_prefix("dt=")?.split_once('/')
}

/// Whether this name within a partition is that of a Parquet file.
pub(crate) fn is_parquet_file(name: &str) -> bool {
    name.ends_with(PARQUET) && !name.contains('/')
}

/// Whether the compactor wrote the file of this key.
pub(crate) fn is_compacted_file(key: &str) -> bool {
    key.rsplit('/').next().is_some_and(|name| name.starts_with(COMPACTED))
}

/// The first bytes of a hash in hexadecimal.
pub(crate) fn hex(hash: &[u8], bytes: usize) -> String {
    hash.iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
}

/// The rows of a dataset on one day.
#[derive(Debug)]
pub(crate) struct DatasetPartition<'m> {
    pub(crate) dataset: &'m Dataset,
    /// `yyyy-mm-dd`.
    pub(crate) day: String,
}

impl DatasetPartition<'_> {
    /// The prefix of its files.
    pub(crate) fn files(&self) -> String {
        format!("{}dt={}/", dataset_files(self.dataset), self.day)
    }

    /// The prefix of its manifests and run marks.
    pub(crate) fn manifests(&self) -> String {
        format!("{}dt={}/", dataset_manifests(self.dataset), self.day)
    }

    /// The key of the file with the rows of one archive object. The same object and schema always have the same key.
    pub(crate) fn exported_file(&self, archive_key: &str, fingerprint: &str) -> String {
        let hash = hex(&Sha256::digest(archive_key), 16);
        format!("{}{hash}-{fingerprint}{PARQUET}", self.files())
    }

    /// The prefix of the files of a compaction run.
    pub(crate) fn compacted_files(&self, run: &str) -> String {
        format!("{}{COMPACTED}{run}-", self.files())
    }

    /// The key of one file of a compaction run.
    pub(crate) fn compacted_file(&self, run: &str, number: usize) -> String {
        format!("{}{number}{PARQUET}", self.compacted_files(run))
    }

    /// The key of the manifest of these inputs, in any order: while it exists, no second compaction of them can commit.
    pub(crate) fn manifest(&self, inputs: &[String]) -> String {
        let mut inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        inputs.sort_unstable();
        let mut hash = Sha256::new();
        for input in inputs {
            hash.update(input);
            hash.update("\n");
        }
        format!("{}{}{MANIFEST}", self.manifests(), hex(&hash.finalize(), 16))
    }

    /// The key of the mark of a compaction run.
    pub(crate) fn run_mark(&self, run: &str) -> String {
        format!("{}{run}{RUN_MARK}", self.manifests())
    }

    /// The run that a key is the mark of; `None` if the key is not a mark.
    pub(crate) fn run_of_mark<'k>(&self, key: &'k str) -> Option<&'k str> {
        key.strip_prefix(&self.manifests())?.strip_suffix(RUN_MARK)
    }
}

/// Whether a key under [`DatasetPartition::manifests`] is that of a manifest.
pub(crate) fn is_manifest(key: &str) -> bool {
    key.ends_with(MANIFEST)
}
