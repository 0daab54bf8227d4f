//! The source of the rows of an upload, which names their files.
//!
//! The files of an archive object are named by its key and its content: an object that is exported again finds its files, and an object
//! that was rewritten gets new ones for every day. Rows that both versions have are duplicates, which readers and the compactor drop.
//!
//! Version 0.1.0 named the files of an object by its key alone. Such files have the rows of the object's content if they are not older
//! than the object. Both times are the bucket's.

use std::borrow::Cow;

use afterwrite_model::record::Timestamp;
use afterwrite_model::{Result, hex};
use afterwrite_services::Bucket;
use sha2::{Digest as _, Sha256};

use crate::delta::{DeltaTable, TableSnapshot};
use crate::paths::exported_prefix;

/// The source of the rows of an upload.
#[derive(Debug)]
pub(super) struct RowSource<'k> {
    /// Names the files.
    pub(super) name: Cow<'k, str>,
    /// The archive object, if the rows are of one.
    object: Option<ArchiveObject<'k>>,
}

/// An object of the archive.
#[derive(Debug)]
struct ArchiveObject<'k> {
    key: &'k str,
    /// The name that its files had before its content was part of it.
    former_name: Cow<'k, str>,
    /// When the object was written, once it is known.
    modified: Option<Timestamp>,
}

impl<'k> RowSource<'k> {
    /// Items that were read. Their name has a hash of their content.
    pub(super) fn of_items(name: &'k str) -> Self {
        Self { name: Cow::Borrowed(name), object: None }
    }

    /// An object of the archive, with the hash of its content. Without its rejected lines an object has other rows, and so other files: once
    /// the settings are corrected, it is exported again as a whole.
    pub(super) fn of_object(key: &'k str, content_hash: &str, rejected: &[u8]) -> Self {
        let former_name = if rejected.is_empty() {
            Cow::Borrowed(key)
        } else {
            Cow::Owned(format!("{key}#{}", hex(&Sha256::digest(rejected), 16)))
        };
        Self {
            name: Cow::Owned(format!("{former_name}#{content_hash}")),
            object: Some(ArchiveObject { key, former_name, modified: None }),
        }
    }

    /// Whether the log has, or had, a file of this day that version 0.1.0 exported from the object's present content. A file that is not in
    /// the bucket any more is exported again.
    pub(super) async fn has_former_file<B: Bucket>(
        &mut self,
        log: &DeltaTable<B>,
        known: &TableSnapshot,
        day: &str,
        fingerprint: &str,
    ) -> Result<bool> {
        let Some(object) = &mut self.object else { return Ok(false) };
        let prefix = exported_prefix(day, &object.former_name, fingerprint);
        if known.known_paths(&prefix).next().is_none() {
            return Ok(false);
        }
        let files = log.bucket().list(&format!("{}{prefix}", log.root())).await?;
        let Some(newest) = files.iter().map(|file| file.modified).max() else { return Ok(false) };
        Ok(object.modified(log.bucket()).await?.is_some_and(|modified| modified <= newest))
    }
}

impl ArchiveObject<'_> {
    /// When the object was last written, which may be after it was read; `None` if it has gone.
    async fn modified<B: Bucket>(&mut self, bucket: &B) -> Result<Option<Timestamp>> {
        if self.modified.is_none() {
            let listed = bucket.list(self.key).await?;
            let object = listed.into_iter().find(|object| object.key == self.key);
            self.modified = object.map(|object| object.modified);
        }
        Ok(self.modified)
    }
}
