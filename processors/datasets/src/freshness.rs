//! How fresh the tables of current rows are.

use std::sync::Arc;

use afterwrite::Result;
use afterwrite::sink::Bucket;
use afterwrite::table::{Dataset, Model};
use serde::Serialize;

use crate::delta::{DeltaTable, TableSnapshot};
use crate::paths::{current_root, day_of_application, derived_application, log_root};

/// How fresh the current rows of one dataset are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DatasetFreshness {
    /// The dataset.
    pub dataset: String,
    /// The newest version of the log; `None` if there is none.
    pub log_version: Option<u64>,
    /// The version of the log up to which the current rows have every change; `None` if a day was never derived.
    pub current_log_version: Option<u64>,
    /// When that version was committed, epoch milliseconds: everything exported until then is in the table of current rows. `None` if
    /// the commit is too old to be there.
    pub as_of: Option<i64>,
    /// The days that have changed since they were derived.
    pub pending_days: Vec<String>,
}

/// The freshness of every dataset of a model.
///
/// # Errors
/// Those of [`DeltaTable::snapshot`].
pub async fn dataset_freshness<B: Bucket>(bucket: B, model: &Model) -> Result<Vec<DatasetFreshness>> {
    let bucket = Arc::new(bucket);
    let mut all = Vec::with_capacity(model.datasets.len());
    for dataset in &model.datasets {
        all.push(Box::pin(freshness_of(&bucket, dataset)).await?);
    }
    Ok(all)
}

async fn freshness_of<B: Bucket>(bucket: &Arc<B>, dataset: &Dataset) -> Result<DatasetFreshness> {
    // The current table before its log: what is derived in between only makes it fresher.
    let current = DeltaTable::new(Arc::clone(bucket), current_root(dataset)).snapshot().await?;
    let log_table = DeltaTable::new(Arc::clone(bucket), log_root(dataset));
    let log = log_table.snapshot().await?;
    let pending = pending_days(&log, &current);
    let current_log_version = if pending.is_empty() {
        log.version()
    } else {
        // Every change of a pending day up to the version that it was derived from is there.
        let derived = pending.iter().map(|day| current.transaction(&derived_application(day)).unwrap_or(-1));
        derived.min().and_then(|version| u64::try_from(version).ok())
    };
    let as_of = match current_log_version {
        Some(version) => log_table.commit_time(version).await?,
        None => None,
    };
    Ok(DatasetFreshness {
        dataset: dataset.name.to_string(),
        log_version: log.version(),
        current_log_version,
        as_of: as_of.map(|time| time.epoch_ms()),
        pending_days: pending,
    })
}

fn pending_days(log: &TableSnapshot, current: &TableSnapshot) -> Vec<String> {
    let changed =
        log.transactions().filter_map(|(app_id, version)| Some((day_of_application(app_id)?, version)));
    let is_pending = |(day, changed): &(&str, i64)| {
        current.transaction(&derived_application(day)).is_none_or(|derived| derived < *changed)
    };
    changed.filter(is_pending).map(|(day, _)| day.to_owned()).collect()
}
