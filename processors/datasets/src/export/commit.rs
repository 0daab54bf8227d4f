//! Committing the files of a batch of objects: one version of each log that they change.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite_model::clock::Clock;
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::{Dataset, Model};
use afterwrite_model::{Error, Result};
use afterwrite_services::Bucket;

use super::UploadedObject;
use crate::delta::{DataFile, DeltaTable, TableChange, TableSnapshot};
use crate::paths::day_application;
use crate::schema::arrow_schema;

/// A file that the log of a dataset lacks.
#[derive(Clone, Debug)]
pub(crate) struct LogAddition {
    /// The dataset: an index into [`Model::datasets`].
    pub(crate) dataset: usize,
    /// The beginning of the paths of all files with the same rows.
    pub(crate) prefix: String,
    pub(crate) file: DataFile,
}

/// Commits the files of all objects that were uploaded. An object whose files could not be committed gets the error.
pub(super) async fn commit_objects<B: Bucket>(
    model: &Model,
    logs: &[DeltaTable<B>],
    clock: &impl Clock,
    deadline: Timestamp,
    objects: &mut [Result<UploadedObject>],
) {
    for (index, (dataset, log)) in model.datasets.iter().zip(logs).enumerate() {
        let uploaded = objects.iter().flatten().flat_map(|object| &object.files);
        let files: Vec<LogAddition> = uploaded.filter(|file| file.dataset == index).cloned().collect();
        if files.is_empty() {
            continue;
        }
        let Err(error) = Box::pin(add_to_log(dataset, log, clock, deadline, &files)).await else { continue };
        for object in objects.iter_mut() {
            let is_concerned =
                |object: &UploadedObject| object.files.iter().any(|file| file.dataset == index);
            if object.as_ref().is_ok_and(is_concerned) {
                *object = Err(error.restated());
            }
        }
    }
}

/// Adds the files that the log of a dataset lacks. Returns the version, or `None` if the log has them all.
pub(crate) async fn add_to_log<B: Bucket>(
    dataset: &Dataset,
    log: &DeltaTable<B>,
    clock: &impl Clock,
    deadline: Timestamp,
    files: &[LogAddition],
) -> Result<Option<u64>, Error> {
    let decide = |snapshot: &TableSnapshot| Ok(addition(dataset, snapshot, files));
    let committed = log.update(clock, deadline, decide).await;
    committed.map_err(|error| error.with("dataset", &*dataset.name))
}

/// The change that adds those files that the log neither has nor remembers.
fn addition(dataset: &Dataset, snapshot: &TableSnapshot, files: &[LogAddition]) -> Option<TableChange> {
    let mut new: BTreeMap<&str, &DataFile> = BTreeMap::new();
    for LogAddition { prefix, file, .. } in files {
        if snapshot.known_paths(prefix).next().is_none() {
            new.entry(prefix).or_insert(file);
        }
    }
    if new.is_empty() {
        return None;
    }
    let version = i64::try_from(snapshot.next_version()).unwrap_or(i64::MAX);
    let days: BTreeSet<&str> = new.values().map(|file| &*file.day).collect();
    Some(TableChange {
        add: new.into_values().cloned().collect(),
        transactions: days.into_iter().map(|day| (day_application(day), version)).collect(),
        ..TableChange::new("EXPORT", arrow_schema(dataset))
    })
}
