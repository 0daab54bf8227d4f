//! The files of a partition: which exist, which are still needed, and which are compacted together.

use afterwrite::Result;
use afterwrite::sink::{Bucket, ListedObject};

use super::manifest::{StoredManifest, superseded_at};
use crate::paths::{DatasetPartition, is_compacted_file, is_parquet_file};

/// The maximum number of files that are compacted together: each is open meanwhile, and a Lambda function has 1,024 file
/// descriptors.
const GROUP_FILES: usize = 500;

/// The Parquet files of a partition.
pub(super) async fn list_files<B: Bucket>(
    bucket: &B,
    partition: &DatasetPartition<'_>,
) -> Result<Vec<ListedObject>> {
    let prefix = partition.files();
    let mut files = bucket.list(&prefix).await?;
    files.retain(|file| file.key.strip_prefix(&prefix).is_some_and(is_parquet_file));
    Ok(files)
}

/// The files of a partition that no manifest supersedes.
pub(super) async fn list_needed_files<B: Bucket>(
    bucket: &B,
    partition: &DatasetPartition<'_>,
) -> Result<Vec<ListedObject>> {
    // Files before manifests: if a compaction commits in between, its inputs are not taken for needed files.
    let mut files = list_files(bucket, partition).await?;
    let manifests = StoredManifest::read_all(bucket, partition).await?;
    let superseded = superseded_at(&manifests);
    files.retain(|file| superseded.get(&*file.key).is_none_or(|since| file.modified > *since));
    Ok(files)
}

/// Whether compacting these files changes anything: there are two at least, or the only one is not sorted yet.
pub(super) fn is_worth_compacting<'k>(mut keys: impl Iterator<Item = &'k str>) -> bool {
    match (keys.next(), keys.next()) {
        (None, _) => false,
        (Some(only), None) => !is_compacted_file(only),
        (Some(_), Some(_)) => true,
    }
}

/// Cuts files into groups that are compacted together: of at least two files, and otherwise within the limits.
pub(super) fn group_files(files: Vec<ListedObject>, group_bytes: u64) -> Vec<Vec<ListedObject>> {
    let mut groups: Vec<Vec<ListedObject>> = Vec::new();
    let mut bytes = 0;
    for file in files {
        bytes += file.size;
        match groups.last_mut() {
            Some(group) if group.len() < 2 || (group.len() < GROUP_FILES && bytes <= group_bytes) => {
                group.push(file);
            }
            Some(_) | None => {
                bytes = file.size;
                groups.push(vec![file]);
            }
        }
    }
    groups.retain(|group| is_worth_compacting(group.iter().map(|file| &*file.key)));
    groups
}
