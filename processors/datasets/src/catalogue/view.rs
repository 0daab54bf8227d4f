//! The view of a dataset: the newest row of each item, without deleted items. It is exact even if rows are duplicated or late and
//! while files are being compacted, because a row's key and position identify its change.
//!
//! # The newest row
//!
//! A row comes from the stream, where `_position` gives its exact place among the changes of its item, or from a reading of the
//! table (`SNAPSHOT`), of which only the time is known. Let *s* be the time of the newest snapshot of the item:
//!
//! ```text
//!         … s − 15 min            s                     time ─▶
//!  stream rows │  stream rows                 the greatest position wins among the stream rows that beat s;
//!  lose to s   │  beat s                      without such a row, the snapshot wins
//! ```
//!
//! Without a snapshot every stream row counts. A stream row without a time always counts. The 15 minutes allow for the difference
//! between a record's approximate time and what the reading saw.
//!
//! All rows of an item lie in one partition, so the newest row is determined by partition, and a condition on `dt` is pushed down
//! to the files.

use afterwrite::projection::RowOperation;
use afterwrite::table::{Dataset, Model, NO_DAY, OnExpiry};

use super::{PARTITION, log_name};
use crate::schema::{CHANGED_AT, GENERATION, OPERATION, POSITION, RESCUED, SNAPSHOT_LAG_MINUTES};

/// The prefix of columns that exist only because the item's key has the variable.
const KEY_ONLY: &str = "_key_";

/// The `CREATE OR REPLACE VIEW` of a dataset.
///
/// Its columns are the model's, then `dt`, `_operation` (`EXPIRE` marks an item that time to live deleted and that the model keeps),
/// `_changed_at` and `_rescued`. It reads only days that have partitions: the range of the table's days begins two thousand years
/// ago, with the partition of rows without a day.
///
/// Rows of one position are equal, with two exceptions: if the dataset was exported again with a corrected model, the row of the
/// greatest generation wins; if a lookup's output became known in between, a row without `_rescued` wins.
#[must_use]
pub fn create_view(model: &Model, dataset: &Dataset) -> String {
    let shown = dataset.columns.iter().map(|column| &*column.name).filter(|name| !name.starts_with(KEY_ONLY));
    let shown: Vec<String> = shown
        .chain([PARTITION, OPERATION, CHANGED_AT, RESCUED])
        .map(|name| format!("  {}", quoted(name)))
        .collect();
    let key = dataset.key.iter().filter_map(|index| dataset.columns.get(*index));
    let item: Vec<String> =
        [quoted(PARTITION)].into_iter().chain(key.map(|column| quoted(&column.name))).collect();
    let on_expiry = model.entities.get(dataset.of).map_or(OnExpiry::Keep, |entity| entity.on_expiry);
    let deletions: &[RowOperation] = match on_expiry {
        OnExpiry::Keep => &[RowOperation::Remove],
        OnExpiry::Subtract => &[RowOperation::Remove, RowOperation::Expire],
    };
    let deletions: Vec<String> =
        deletions.iter().map(|operation| format!("'{}'", operation.name())).collect();
    let (first, last) = &dataset.days;
    format!(
        r#"CREATE OR REPLACE VIEW {name} AS
SELECT
{shown}
FROM (
  SELECT
    *,
    row_number() OVER (
      PARTITION BY {item}
      ORDER BY
        CASE
          WHEN "{OPERATION}" = '{snapshot}' THEN 2
          WHEN "_read_at" IS NULL OR "{CHANGED_AT}" IS NULL THEN 1
          WHEN "{CHANGED_AT}" > "_read_at" - interval '{SNAPSHOT_LAG_MINUTES}' minute THEN 1
          ELSE 3
        END,
        CASE WHEN "{OPERATION}" = '{snapshot}' THEN "{CHANGED_AT}" END DESC NULLS LAST,
        "{POSITION}" DESC,
        "{GENERATION}" DESC NULLS LAST,
        CASE WHEN "{RESCUED}" IS NULL THEN 0 ELSE 1 END
    ) AS "_newest"
  FROM (
    SELECT
      *,
      max(CASE WHEN "{OPERATION}" = '{snapshot}' THEN "{CHANGED_AT}" END)
        OVER (PARTITION BY {item}) AS "_read_at"
    FROM {log}
    WHERE "{PARTITION}" = '{NO_DAY}' OR "{PARTITION}" BETWEEN '{first}' AND '{last}'
  )
)
WHERE "_newest" = 1 AND "{OPERATION}" NOT IN ({deletions})"#,
        name = quoted(&dataset.name),
        shown = shown.join(",\n"),
        item = item.join(", "),
        snapshot = RowOperation::Snapshot.name(),
        log = quoted(&log_name(dataset)),
        deletions = deletions.join(", "),
    )
}

/// A quoted name. Names in a model consist of letters, digits and `_`.
fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}
