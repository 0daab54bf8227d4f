//! How fresh the tables of current rows are.

use std::sync::Arc;

use afterwrite_model::Result;
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::{Dataset, Model};
use afterwrite_services::Bucket;
use serde::Serialize;

use crate::delta::{DataFile, DeltaTable, TableSnapshot};
use crate::paths::{current_root, day_of_application, derived_application, log_root};

/// How fresh the current rows of one dataset are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DatasetFreshness {
    /// The dataset.
    pub dataset: String,
    /// The newest version of the log; `None` for a dataset without a log.
    pub log_version: Option<u64>,
    /// The version of the log up to which the current rows have every change; `None` if a day was never derived.
    pub current_log_version: Option<u64>,
    /// Epoch milliseconds: everything exported until then is in the table of current rows. The time when that version was committed, or,
    /// if it is earlier, when the first rows of a day that was never derived were written. `None` if the commit is too old to be there.
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
    // The current table is read before its log: a compaction in between only makes the table fresher than reported.
    let current = DeltaTable::new(Arc::clone(bucket), current_root(dataset)).snapshot().await?;
    let log_table = DeltaTable::new(Arc::clone(bucket), log_root(dataset));
    let log = log_table.snapshot().await?;
    let pending = pending_days(&log, &current);
    // Every change of a pending day up to the version that it was derived from is there.
    let derived = pending.iter().map(|day| derived_version(&current, day));
    let current_log_version = derived.clone().min().unwrap_or_else(|| log.version());
    let committed = match derived.flatten().min().or_else(|| log.version()) {
        Some(version) => log_table.commit_time(version).await?,
        None => None,
    };
    let as_of = [committed, first_underived(&log, &current, &pending)].into_iter().flatten().min();
    Ok(DatasetFreshness {
        dataset: dataset.name.to_string(),
        log_version: log.version(),
        current_log_version,
        as_of: as_of.map(|time| time.epoch_ms()),
        pending_days: pending,
    })
}

/// The version of the log that a day was derived from.
fn derived_version(current: &TableSnapshot, day: &str) -> Option<u64> {
    current.transaction(&derived_application(day)).and_then(|version| u64::try_from(version).ok())
}

/// When the first rows of those pending days that were never derived were written.
fn first_underived(log: &TableSnapshot, current: &TableSnapshot, pending: &[String]) -> Option<Timestamp> {
    let is_underived =
        |file: &&Arc<DataFile>| pending.contains(&file.day) && derived_version(current, &file.day).is_none();
    log.files().filter(is_underived).map(|file| file.modified).min()
}

fn pending_days(log: &TableSnapshot, current: &TableSnapshot) -> Vec<String> {
    let changed =
        log.transactions().filter_map(|(app_id, version)| Some((day_of_application(app_id)?, version)));
    let is_pending = |(day, changed): &(&str, i64)| {
        current.transaction(&derived_application(day)).is_none_or(|derived| derived < *changed)
    };
    changed.filter(is_pending).map(|(day, _)| day.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use afterwrite_memory::MemoryObjects;
    use afterwrite_model::clock::Clock as _;

    use super::*;
    use crate::delta::TableChange;
    use crate::fixed_clock::FixedClock;
    use crate::paths::day_application;
    use crate::schema::arrow_schema;

    const NOW: Timestamp = Timestamp::from_epoch_seconds(1_770_422_400);

    /// Commits a file of a day to the log at a time, or the derivation of a day.
    fn commit(
        bucket: &Arc<MemoryObjects>,
        dataset: &Dataset,
        root: String,
        (application, version): (String, i64),
        (day, at): (&str, Timestamp),
    ) {
        let path = format!("dt={day}/{version}.parquet");
        let file = DataFile { path, day: day.to_owned(), size: 1, modified: at, statistics: None };
        let change = TableChange {
            add: vec![file],
            transactions: BTreeMap::from([(application, version)]),
            ..TableChange::new("TEST", arrow_schema(dataset))
        };
        let (table, clock) = (DeltaTable::new(Arc::clone(bucket), root), FixedClock(at));
        let deadline = clock.now().plus(Duration::from_secs(1));
        let committed = table.update(&clock, deadline, |_| Ok(Some(change.clone())));
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(committed).unwrap();
    }

    #[test]
    fn a_new_day_does_not_hide_how_fresh_the_other_days_are() {
        let model = Model::load("glad").unwrap();
        let dataset = &model.datasets[0];
        let bucket = Arc::new(MemoryObjects::default());
        let later = |minutes: u64| NOW.plus(Duration::from_secs(60 * minutes));
        let freshness = || {
            let read = dataset_freshness(Arc::clone(&bucket), &model);
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(read).unwrap().remove(0)
        };
        let log = |day: &'static str, version, minutes| {
            let application = (day_application(day), version);
            commit(&bucket, dataset, log_root(dataset), application, (day, later(minutes)));
        };
        log("2026-02-06", 0, 0);
        let derived = (derived_application("2026-02-06"), 0);
        commit(&bucket, dataset, current_root(dataset), derived, ("2026-02-06", later(1)));
        let all = freshness();
        assert_eq!((all.current_log_version, all.as_of), (Some(0), Some(NOW.epoch_ms())));
        log("2026-02-07", 1, 10);
        let new_day = freshness();
        assert_eq!((new_day.log_version, new_day.current_log_version), (Some(1), None));
        assert_eq!(new_day.pending_days, ["2026-02-07"]);
        assert_eq!(new_day.as_of, Some(later(10).epoch_ms()), "everything before the new day's first rows");
        log("2026-02-06", 2, 20);
        assert_eq!(freshness().as_of, Some(NOW.epoch_ms()), "the older day lacks a change");
    }
}
