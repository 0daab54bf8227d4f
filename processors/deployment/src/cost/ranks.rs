//! The indexes of ranks in an estimate.

use afterwrite_operations::jobs::approximate;

use super::figures as f;
use super::line::{CostLine, line};
use super::month::{MonthTotals, ratio};
use super::trial::BusyRank;

const GIGABYTE: f64 = 1e9;

/// The storage of the indexes of ranks, if the model has some.
pub(super) fn storage_line(month: &MonthTotals<'_>, gigabyte_month: f64) -> Option<CostLine> {
    month.trial.busiest_rank.as_ref()?;
    let ranked = month.stored(month.trial.rank_bytes) / GIGABYTE;
    Some(line("indexes of ranks: storage", "GB", ranked, gigabyte_month))
}

/// A partition of a rank's index that takes more writes than DynamoDB allows; then writes of its rollups are throttled.
pub(super) fn hot(rank: &BusyRank, seconds: f64) -> Option<String> {
    let units = ratio(approximate(rank.write_units), seconds);
    (units > f::PARTITION_WRITE_UNITS).then(|| {
        format!(
            "A group of the index {} takes {units:.0} write units a second, and a partition takes {:.0}: writes are throttled. Give the rank `shards`, about {:.0} times as many as it has.",
            rank.index,
            f::PARTITION_WRITE_UNITS,
            (units / f::PARTITION_WRITE_UNITS).ceil()
        )
    })
}
