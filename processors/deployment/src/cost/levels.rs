//! The writes and the stream of rollups that are sources, as lines of an estimate.

use afterwrite_operations::jobs::approximate;

use super::level_stream::LevelTotals;
use super::line::{CostLine, line};
use super::month::{MonthTotals, ratio};

/// The writes of each level. The writes of level 1, which count the changes of the source tables, come first; their line names no level.
pub(super) fn write_lines(month: &MonthTotals<'_>, unit_price: f64) -> Vec<CostLine> {
    let of_levels: f64 = month.trial.levels.iter().map(|level| level.write_units).sum();
    let first = month.monthly_units(approximate(month.trial.write_units) - of_levels);
    let mut lines = vec![line("DynamoDB writes", "write units", first, unit_price)];
    lines.extend(month.trial.levels.iter().map(|level| {
        let units = month.monthly_units(level.write_units);
        line(format!("DynamoDB writes: level {}", level.level), "write units", units, unit_price)
    }));
    lines
}

/// The reads of the state table's stream, which Lambda does not charge for.
pub(super) fn stream_line(month: &MonthTotals<'_>) -> Option<CostLine> {
    let reads = month.level_batches * 2.0;
    (reads > 0.0).then(|| line("state table: stream, read by Lambda", "reads", reads, 0.0))
}

/// The levels in words.
pub(super) fn assumption(month: &MonthTotals<'_>) -> Option<String> {
    let of_level = |level: &LevelTotals| {
        format!(
            "level {} counts {:.0} changes of rollups, with {:.2} write units each",
            level.level,
            month.monthly(level.records),
            ratio(level.write_units, approximate(level.records))
        )
    };
    let levels: Vec<String> = month.trial.levels.iter().map(of_level).collect();
    (!levels.is_empty()).then(|| {
        format!(
            "Rollups are sources. The state table's stream has each write of such a rollup: a month, {}. Write units of a record include all levels. Larger batches have fewer writes of a rollup, and so fewer changes.",
            levels.join("; ")
        )
    })
}
