//! The view of a dataset: the rows of the current table, computed from the log. It includes what was exported since the last
//! compaction, and reads more. It is exact even if rows are duplicated or late, because a row's key and position identify its change.
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
//! # Expired items
//!
//! If the entity keeps what expires (`on_expiry = "keep"`), every row of an expiry is in the view, one for each life of the item that
//! ended so, whatever happened to the key since; as rollups keep counting it. The key of a rollup shows when it expires, so that it has one
//! life, in whichever state table it expired: its newest row is in the view, also if it is of an expiry. Otherwise an expiry is like a removal.
//!
//! All rows of an item lie in one partition, so the newest row is determined by partition, and a condition on `dt` is pushed down
//! to the files.

use afterwrite_model::projection::RowOperation;
use afterwrite_model::table::{Dataset, ExpiredRows, Model};

use super::{PARTITION, log_name, view_name};
use crate::schema::{CHANGED_AT, GENERATION, OPERATION, POSITION, RESCUED, SNAPSHOT_LAG_MINUTES};

/// The `CREATE OR REPLACE VIEW` of a dataset.
///
/// It has the columns of the table of current rows: the model's and `_key_<variable>`, then `dt`, `_position`, `_operation` (`EXPIRE` marks an
/// item that time to live deleted and that the model keeps), `_changed_at`, `_rescued` and `_generation`.
///
/// Rows of one position are equal, with two exceptions: if the dataset was exported again with a corrected model, the row of the
/// greatest generation wins, then a row without `_rescued`; if a lookup's output became known in between, the row that has it wins.
#[must_use]
pub fn create_view(model: &Model, dataset: &Dataset) -> String {
    let columns = dataset.columns.iter().map(|column| &*column.name);
    let shown: Vec<String> = columns
        .chain([PARTITION, POSITION, OPERATION, CHANGED_AT, RESCUED, GENERATION])
        .map(|name| format!("  {}", quoted(name)))
        .collect();
    let key = dataset.key.iter().filter_map(|index| dataset.columns.get(*index));
    let item: Vec<String> =
        [quoted(PARTITION)].into_iter().chain(key.map(|column| quoted(&column.name))).collect();
    let looked_up = dataset.columns.iter().filter(|column| column.from.output_lookup().is_some());
    let first_with = |name: &str| format!(r#"CASE WHEN "{name}" IS NULL THEN 1 ELSE 0 END"#);
    let best_copy: Vec<String> = [
        format!(r#""{GENERATION}" DESC NULLS LAST"#),
        format!(r#"CASE WHEN "{RESCUED}" IS NULL THEN 0 ELSE 1 END"#),
    ]
    .into_iter()
    .chain(looked_up.map(|column| first_with(&column.name)))
    .collect();
    let best_copy = best_copy.join(",\n        ");
    let expired = dataset.expired_rows(model);
    let copies = match expired {
        ExpiredRows::EachLife => format!(
            r#",
    row_number() OVER (
      PARTITION BY {item}, "{POSITION}"
      ORDER BY
        {best_copy}
    ) AS "_copy""#,
            item = item.join(", "),
        ),
        ExpiredRows::NewestLife | ExpiredRows::NoLife => String::new(),
    };
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
        {best_copy}
    ) AS "_newest"{copies}
  FROM (
    SELECT
      *,
      max(CASE WHEN "{OPERATION}" = '{snapshot}' THEN "{CHANGED_AT}" END)
        OVER (PARTITION BY {item}) AS "_read_at"
    FROM {log}
  )
)
WHERE {condition}"#,
        name = quoted(&view_name(dataset)),
        shown = shown.join(",\n"),
        item = item.join(", "),
        snapshot = RowOperation::Snapshot.name(),
        log = quoted(&log_name(dataset)),
        condition = condition(expired),
    )
}

/// The condition on the rows that are in the view.
fn condition(expired: ExpiredRows) -> String {
    let (remove, expire) = (RowOperation::Remove.name(), RowOperation::Expire.name());
    let newest = format!(r#""_newest" = 1 AND "{OPERATION}" NOT IN ('{remove}', '{expire}')"#);
    match expired {
        ExpiredRows::EachLife => format!(r#"{newest} OR "_copy" = 1 AND "{OPERATION}" = '{expire}'"#),
        ExpiredRows::NewestLife => format!(r#""_newest" = 1 AND "{OPERATION}" <> '{remove}'"#),
        ExpiredRows::NoLife => newest,
    }
}

/// A quoted name. Names in a model consist of letters, digits and `_`.
fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}
