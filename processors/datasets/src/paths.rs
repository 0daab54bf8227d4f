//! The keys of objects in the bucket, and the paths of files in tables.
//!
//! | key | object |
//! |---|---|
//! | `archive/…` | change records as gzip JSON lines: the exporter's input |
//! | `rejected/….jsonl` | the lines of `archive/…` that could not be exported |
//! | `exported/<fingerprint>/…` | an empty mark: `archive/…` has been exported with the model of this fingerprint |
//! | `heartbeat/exported` | when the newest exported heartbeat was written, in milliseconds |
//! | `datasets/<name>_log/dt=<day>/<hash of the archive key and the content>-<fingerprint>.parquet` | a file of the exporter, or of a backfill's chunk; if lines were rejected, the hash is also of these |
//! | `datasets/<name>_log/dt=<day>/packed-<run>-<number>.parquet` | a file of the compactor: the rows of several files |
//! | `datasets/<name>/dt=<day>/current-<run>-<number>.parquet` | a file of the compactor: the current rows |
//! | `datasets/…/_delta_log/…` | the log of a table, see [`crate::delta`] |

use afterwrite_model::hex;
use afterwrite_model::table::Dataset;
use sha2::{Digest as _, Sha256};

/// The prefix of archive objects.
pub(crate) const ARCHIVE: &str = "archive/";

/// The key of the time of the newest exported heartbeat.
pub(crate) const EXPORTED_HEARTBEAT: &str = "heartbeat/exported";

const EXPORTED: &str = "exported/";
const REJECTED: &str = "rejected/";

/// The prefixes of these objects.
pub const DATASET_PREFIXES: [&str; 5] = [ARCHIVE, "datasets/", EXPORTED, "heartbeat/", REJECTED];

const PACKED: &str = "packed-";
const CURRENT: &str = "current-";
const PARQUET: &str = ".parquet";

/// The key of the rejected lines of an archive object.
pub(crate) fn rejected_lines(archive_key: &str) -> String {
    format!("{REJECTED}{}.jsonl", archive_name(archive_key))
}

/// The prefix of the marks of objects that were exported with the model of this fingerprint.
pub(crate) fn export_marks(fingerprint: &str) -> String {
    format!("{EXPORTED}{fingerprint}/")
}

/// The key of the mark of an exported object.
pub(crate) fn export_mark(fingerprint: &str, archive_key: &str) -> String {
    format!("{}{}", export_marks(fingerprint), archive_name(archive_key))
}

fn archive_name(archive_key: &str) -> &str {
    archive_key.strip_prefix(ARCHIVE).unwrap_or(archive_key)
}

/// The prefix of the table of a dataset's changes.
pub(crate) fn log_root(dataset: &Dataset) -> String {
    format!("datasets/{}_log/", dataset.name)
}

/// The prefix of the table of a dataset's current state.
pub(crate) fn current_root(dataset: &Dataset) -> String {
    format!("datasets/{}/", dataset.name)
}

/// The path in the log of a file with the rows of one source and one day. The same source, day and schema always have the same path; the
/// name of an archive object as a source has its content, too. A file of an earlier attempt that is too old to be used is passed over: the next attempt is the next number.
pub(crate) fn exported_path(day: &str, source: &str, fingerprint: &str, attempt: u32) -> String {
    let prefix = exported_prefix(day, source, fingerprint);
    if attempt == 0 { format!("{prefix}{PARQUET}") } else { format!("{prefix}-{attempt}{PARQUET}") }
}

/// The beginning of [`exported_path`] for all attempts.
pub(crate) fn exported_prefix(day: &str, source: &str, fingerprint: &str) -> String {
    format!("dt={day}/{}-{fingerprint}", hex(&Sha256::digest(source), 16))
}

/// The path in the log of a file that a packing run writes.
pub(crate) fn packed_path(day: &str, run: &str, number: usize) -> String {
    format!("dt={day}/{PACKED}{run}-{number}{PARQUET}")
}

/// The path in the current table of a file that a derivation writes.
pub(crate) fn current_path(day: &str, run: &str, number: usize) -> String {
    format!("dt={day}/{CURRENT}{run}-{number}{PARQUET}")
}

/// Whether a file in a table's folder was written for the table of current rows. A vacuum does not remove other files.
pub(crate) fn is_current_path(path: &str) -> bool {
    path.split_once('/').is_some_and(|(_, name)| name.starts_with(CURRENT) && name.ends_with(PARQUET))
}

/// Whether a file in the log's folder is a Parquet file of a partition.
pub(crate) fn is_log_path(path: &str) -> bool {
    path.starts_with("dt=") && path.ends_with(PARQUET)
}

/// The writer of a file of the log. The files of one packing run are packed again together, or not at all.
pub(crate) fn run_of_path(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.strip_prefix(PACKED).and_then(|run| run.rsplit_once('-')) {
        Some((run, _)) => run,
        None => path,
    }
}

/// In the log: the application whose version is the last one that changed the rows of a day.
pub(crate) fn day_application(day: &str) -> String {
    format!("{DAY_APPLICATION}{day}")
}

/// The day of a [`day_application`].
pub(crate) fn day_of_application(app_id: &str) -> Option<&str> {
    app_id.strip_prefix(DAY_APPLICATION)
}

/// In the current table: the application whose version is the version of the log that a day was derived from.
pub(crate) fn derived_application(day: &str) -> String {
    format!("log/{DAY_APPLICATION}{day}")
}

const DAY_APPLICATION: &str = "dt=";
