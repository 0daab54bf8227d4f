//! Manifests: which files supersede which.

use std::collections::BTreeMap;

use afterwrite::record::Timestamp;
use afterwrite::sink::{Bucket, ListedObject, ObjectBody, PutOutcome};
use afterwrite::{Error, ErrorKind, Result};
use bytes::{Bytes, BytesMut};
use futures::TryStreamExt as _;
use serde::{Deserialize, Serialize};

use crate::paths::{DatasetPartition, is_manifest};

/// The content of a manifest: the rows of the inputs are in the outputs, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CompactionManifest {
    /// The keys of the superseded files.
    pub(super) inputs: Vec<String>,
    /// The keys of the files that supersede them.
    pub(super) outputs: Vec<String>,
    /// The fingerprint of the model's generation and the dataset's schema. For people.
    pub(super) fingerprint: String,
}

impl CompactionManifest {
    /// Writes the manifest; returns `false` if there is another one of the same inputs.
    pub(super) async fn commit<B: Bucket>(
        &self,
        bucket: &B,
        partition: &DatasetPartition<'_>,
    ) -> Result<bool> {
        let key = partition.manifest(&self.inputs);
        let json = serde_json::to_vec(self)
            .map_err(|error| Error::new(ErrorKind::State, "cannot write a manifest").caused_by(error))?;
        match bucket.put_new(&key, ObjectBody::Bytes(Bytes::from(json))).await? {
            PutOutcome::Written => Ok(true),
            // It is this one if the response to an earlier attempt was lost.
            PutOutcome::AlreadyExists => {
                Ok(Self::read(bucket, &key).await?.is_some_and(|stored| stored.outputs == self.outputs))
            }
        }
    }

    /// Reads a manifest; `None` if it does not exist.
    async fn read<B: Bucket>(bucket: &B, key: &str) -> Result<Option<Self>> {
        let Some(mut chunks) = bucket.get(key).await? else { return Ok(None) };
        let mut json = BytesMut::new();
        while let Some(chunk) = chunks.try_next().await? {
            json.extend_from_slice(&chunk);
        }
        serde_json::from_slice(&json).map(Some).map_err(|error| {
            Error::new(ErrorKind::State, "cannot read a manifest")
                .with("object", key)
                .hint("Remove it: the files that it names are then compacted again")
                .caused_by(error)
        })
    }
}

/// A manifest in the bucket.
#[derive(Debug)]
pub(super) struct StoredManifest {
    pub(super) key: String,
    pub(super) modified: Timestamp,
    pub(super) manifest: CompactionManifest,
}

impl StoredManifest {
    /// Reads the manifests of a partition. One that was removed after it was listed is left out.
    pub(super) async fn read_all<B: Bucket>(
        bucket: &B,
        partition: &DatasetPartition<'_>,
    ) -> Result<Vec<Self>> {
        let mut listed = bucket.list(&partition.manifests()).await?;
        listed.retain(|object| is_manifest(&object.key));
        let mut stored = Vec::with_capacity(listed.len());
        for ListedObject { key, modified, .. } in listed {
            if let Some(manifest) = CompactionManifest::read(bucket, &key).await? {
                stored.push(Self { key, modified, manifest });
            }
        }
        Ok(stored)
    }
}

/// For each superseded file, when it was superseded last.
pub(super) fn superseded_at(manifests: &[StoredManifest]) -> BTreeMap<&str, Timestamp> {
    let mut superseded = BTreeMap::new();
    for StoredManifest { modified, manifest, .. } in manifests {
        for input in &manifest.inputs {
            let latest = superseded.entry(input.as_str()).or_insert(*modified);
            *latest = (*latest).max(*modified);
        }
    }
    superseded
}
