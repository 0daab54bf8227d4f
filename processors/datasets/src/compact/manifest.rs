//! Manifests: which files have become which.

use std::collections::BTreeMap;

use afterwrite::record::Timestamp;
use afterwrite::sink::{Bucket, ListedObject};
use afterwrite::{Error, ErrorKind, Result};
use futures::TryStreamExt as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::partition::Partition;
use crate::schema::hex;

const JSON: &str = ".json";

/// What a manifest holds: the rows of the inputs lie in the outputs too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// Keys of the files that are superseded.
    pub(super) inputs: Vec<String>,
    /// Keys of the files that supersede them.
    pub(super) outputs: Vec<String>,
    /// The fingerprint of the model's generation and the dataset's schema, for people.
    pub(super) fingerprint: String,
}

impl Manifest {
    /// Where the manifest of these inputs lies, whatever has become of them: only one compactor of them commits while it is there.
    pub(super) fn key(partition: &Partition<'_>, inputs: &[String]) -> String {
        let mut inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        inputs.sort_unstable();
        let mut hash = Sha256::new();
        for input in inputs {
            hash.update(input);
            hash.update("\n");
        }
        format!("{}{}{JSON}", partition.manifests(), hex(&hash.finalize(), 16))
    }

    pub(super) fn to_json(&self) -> Result<Vec<u8>> {
        let unwritable =
            |error| Error::new(ErrorKind::State, "a manifest cannot be written").caused_by(error);
        serde_json::to_vec(self).map_err(unwritable)
    }

    /// Reads a manifest; `None` if there is none.
    pub(super) async fn read<B: Bucket>(bucket: &B, key: &str) -> Result<Option<Self>> {
        let Some(chunks) = bucket.get(key).await? else { return Ok(None) };
        let read = |mut all: Vec<u8>, chunk: bytes::Bytes| async move {
            all.extend_from_slice(&chunk);
            Ok(all)
        };
        let json = chunks.try_fold(Vec::new(), read).await?;
        serde_json::from_slice(&json).map(Some).map_err(|error| {
            Error::new(ErrorKind::State, "a manifest cannot be read")
                .with("object", key)
                .hint("Remove it: the files that it names are then compacted again")
                .caused_by(error)
        })
    }
}

/// A manifest that is in the bucket.
#[derive(Debug)]
pub(super) struct Committed {
    pub(super) key: String,
    pub(super) modified: Timestamp,
    pub(super) manifest: Manifest,
}

impl Committed {
    /// Reads a partition's manifests; one that has gone since they were listed is none.
    pub(super) async fn read_all<B: Bucket>(bucket: &B, partition: &Partition<'_>) -> Result<Vec<Self>> {
        let mut listed = bucket.list(&partition.manifests()).await?;
        listed.retain(|object| object.key.ends_with(JSON));
        let mut committed = Vec::with_capacity(listed.len());
        for ListedObject { key, modified, .. } in listed {
            if let Some(manifest) = Manifest::read(bucket, &key).await? {
                committed.push(Self { key, modified, manifest });
            }
        }
        Ok(committed)
    }
}

/// When each superseded file was superseded.
pub(super) fn superseded(committed: &[Committed]) -> BTreeMap<&str, Timestamp> {
    let mut superseded = BTreeMap::new();
    for Committed { modified, manifest, .. } in committed {
        for input in &manifest.inputs {
            let since = superseded.entry(input.as_str()).or_insert(*modified);
            *since = (*since).max(*modified);
        }
    }
    superseded
}
