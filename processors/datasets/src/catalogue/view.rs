//! The view of a dataset: of every item the newest row, those that are gone left out. Exact at any time, whatever comes twice
//! or late and whatever is being compacted, because a row's key and position say all that is needed to tell.
//!
//! # Which row is the newest
//!
//! A row comes from the stream, and then its `_position` says exactly where it stands among its item's changes; or from a reading
//! of the table (`SNAPSHOT`), and then only the time of the reading is known. Let *s* be the newest reading of the item:
//!
//! ```text
//!         … s − 15 min            s                     time ─▶
//!  stream rows │  stream rows                 greatest position wins
//!  lose to s   │  beat s                      of those that beat s; else s itself
//! ```
//!
//! Without a reading every stream row stands, and one that does not say when it was made always does. The 15 minutes are those by
//! which a record's time may differ from what the reading could see.
//!
//! All of an item's rows lie in one partition, so it is told partition by partition, and a condition on `dt` goes through to the
//! files.

use afterwrite::table::{Dataset, Model, NO_DAY, OnExpiry};

use super::{PARTITION, log_name};
use crate::schema::{CHANGED_AT, GENERATION, OPERATION, POSITION, RESCUED};

/// What the names of columns begin with that are in the rows only because the item's key is.
const KEY_ONLY: &str = "_key_";

/// The `CREATE OR REPLACE VIEW` of a dataset.
#[must_use]
pub fn view(model: &Model, dataset: &Dataset) -> String {
    format!("CREATE OR REPLACE VIEW {} AS\n{}", quoted(&dataset.name), select(model, dataset))
}

/// What the view selects.
///
/// Its columns are the model's, then `dt`, `_operation` (`EXPIRE` tells an item that time to live took and that is kept all the same),
/// `_changed_at` and `_rescued`. Only days that have partitions are asked for: the
/// range of the table's days begins two thousand years ago, with the partition of rows without a day.
///
/// Rows of one position are equal, unless a dataset was exported again under a corrected model: then that of the model's latest
/// generation is taken. Or unless what a lookup gives became known in between: then one that says all it must.
#[must_use]
pub fn select(model: &Model, dataset: &Dataset) -> String {
    let shown = dataset.columns.iter().map(|column| &*column.name).filter(|name| !name.starts_with(KEY_ONLY));
    let shown: Vec<String> = shown
        .chain([PARTITION, OPERATION, CHANGED_AT, RESCUED])
        .map(|name| format!("  {}", quoted(name)))
        .collect();
    let key = dataset.key.iter().filter_map(|index| dataset.columns.get(*index));
    let item: Vec<String> =
        [quoted(PARTITION)].into_iter().chain(key.map(|column| quoted(&column.name))).collect();
    let kept = model.entities.get(dataset.of).is_none_or(|entity| entity.on_expiry == OnExpiry::Keep);
    let gone = if kept { "'REMOVE'" } else { "'REMOVE', 'EXPIRE'" };
    let (first, last) = &dataset.days;
    format!(
        r#"SELECT
{shown}
FROM (
  SELECT
    *,
    row_number() OVER (
      PARTITION BY {item}
      ORDER BY
        CASE
          WHEN "{OPERATION}" = 'SNAPSHOT' THEN 2
          WHEN "_read_at" IS NULL OR "{CHANGED_AT}" IS NULL THEN 1
          WHEN "{CHANGED_AT}" > "_read_at" - interval '15' minute THEN 1
          ELSE 3
        END,
        CASE WHEN "{OPERATION}" = 'SNAPSHOT' THEN "{CHANGED_AT}" END DESC NULLS LAST,
        "{POSITION}" DESC,
        "{GENERATION}" DESC NULLS LAST,
        CASE WHEN "{RESCUED}" IS NULL THEN 0 ELSE 1 END
    ) AS "_newest"
  FROM (
    SELECT
      *,
      max(CASE WHEN "{OPERATION}" = 'SNAPSHOT' THEN "{CHANGED_AT}" END)
        OVER (PARTITION BY {item}) AS "_read_at"
    FROM {log}
    WHERE "{PARTITION}" = '{NO_DAY}' OR "{PARTITION}" BETWEEN '{first}' AND '{last}'
  )
)
WHERE "_newest" = 1 AND "{OPERATION}" NOT IN ({gone})"#,
        shown = shown.join(",\n"),
        item = item.join(", "),
        log = quoted(&log_name(dataset)),
    )
}

/// A name as a query has it. Names of a model are letters, digits and `_`.
fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}
