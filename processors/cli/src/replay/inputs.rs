//! The files and objects of a replay, which its journal keeps: a job may have more of them than its item holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_input::{InputObject, StoredInput, bucket_names};
use afterwrite_ledger::tables::Tables;
use afterwrite_model::clock::Clock;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_operations::jobs::{JobJournal, text_digest};
use afterwrite_services::config::s3_client;
use afterwrite_services::s3::S3Bucket;
use serde::{Deserialize, Serialize};

/// The inputs of an entry of the journal: a place has at most about 1 KB.
const ENTRY_INPUTS: usize = 100;

/// The inputs in the journal of a job: their number, and a hash of all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredInputs {
    count: usize,
    fingerprint: String,
}

impl StoredInputs {
    pub(super) fn of(inputs: &[StoredInput]) -> Result<Self> {
        let text = serde_json::to_string(inputs).map_err(|error| {
            Error::new(ErrorKind::State, "the inputs of the job cannot be stored").caused_by(error)
        })?;
        Ok(Self { count: inputs.len(), fingerprint: text_digest(&text) })
    }

    /// Reads the inputs.
    ///
    /// # Errors
    /// As [`JobJournal::read`]; [`ErrorKind::State`] if the journal does not have all of them.
    pub(super) async fn read(
        &self,
        journal: &JobJournal<impl Tables, impl Clock>,
    ) -> Result<Vec<StoredInput>> {
        let inputs: Vec<Vec<StoredInput>> = journal.read().await?;
        let inputs = inputs.concat();
        if *self == Self::of(&inputs)? {
            return Ok(inputs);
        }
        Err(Error::new(ErrorKind::State, "the journal of the job does not have all of its inputs")
            .with("inputs", self.count.to_string())
            .with("in the journal", inputs.len().to_string())
            .hint("The process was killed while it stored them, or they were stored more than 90 days ago: start the replay again"))
    }
}

/// Writes the inputs to the journal of a job.
///
/// # Errors
/// As [`JobJournal::append`].
pub(super) async fn store_inputs(
    journal: &JobJournal<impl Tables, impl Clock>,
    inputs: &[StoredInput],
) -> Result<()> {
    for inputs in inputs.chunks(ENTRY_INPUTS) {
        journal.append(&inputs).await?;
    }
    Ok(())
}

/// The files and objects that a job was planned for.
///
/// # Errors
/// An input that is missing, has changed, or can be read only once.
pub(super) async fn objects_of_stored(inputs: &[StoredInput]) -> Result<Vec<InputObject<S3Bucket>>> {
    let mut buckets = BTreeMap::new();
    for name in bucket_names(inputs) {
        let client = Box::pin(s3_client()).await?;
        buckets.insert(name.to_owned(), Arc::new(S3Bucket::retrying(client, Arc::from(name))));
    }
    InputObject::of_stored(inputs, &buckets).await
}
