//! The cache keys that a change makes stale, computed without code of the product.

use afterwrite_model::record::{AttributeValue, Item};

use super::numbers::stored;
use super::source_rollups::SourceRollup;
use super::store::MAIN;
use super::stream::StreamRecord;

/// The cache keys with a copy of a changed item, computed without code of the product.
pub(crate) fn stale_keys(record: &StreamRecord) -> Vec<String> {
    let sort = record.sort.as_deref().unwrap_or_default();
    if let Some(source) = record.source() {
        return keys_of_rollup(record, source);
    }
    let parts = (record.partition.split_once('#'), sort.split_once('#'));
    match parts {
        (Some(("OWNER", owner)), Some(("PROJECT", project))) if record.table == MAIN => {
            vec![format!("project:{project}"), format!("owner:{owner}:projects")]
        }
        (Some(("PROJECT", project)), Some(("TASK", task))) if record.table == MAIN => {
            let mut keys = vec![format!("task:{project}/{task}")];
            let status = |image: &Option<Item>| image.as_ref().and_then(|item| item.get("status").cloned());
            let is_moved =
                record.old.is_none() || record.new.is_none() || status(&record.old) != status(&record.new);
            if is_moved {
                keys.push(format!("project:{project}:board"));
            }
            let is_done = |image: &Option<Item>| {
                status(image).as_ref().and_then(AttributeValue::as_text) == Some("DONE")
            };
            if is_done(&record.old) || is_done(&record.new) {
                keys.push(format!("project:{project}:done"));
            }
            keys
        }
        _ => Vec::new(),
    }
}

/// The keys with a copy of a changed rollup. An item whose measures are all zero is absent.
fn keys_of_rollup(record: &StreamRecord, source: SourceRollup) -> Vec<String> {
    let user = record.partition.split('#').nth(1).unwrap_or_default();
    let present =
        [&record.old, &record.new].map(|image| image.as_ref().filter(|item| source.is_present(item)));
    if present.iter().all(Option::is_none) {
        return Vec::new();
    }
    match source {
        SourceRollup::UserTotal => vec![format!("user:{user}:dashboard")],
        SourceRollup::UserDay => {
            let [before, after] = present.map(|item| item.map(|item| stored(item, "sessions")));
            let sort = record.sort.as_deref().unwrap_or_default();
            let day = sort.strip_prefix("ROLLUP#DAY#").unwrap_or_default();
            if before == after { Vec::new() } else { vec![format!("user:{user}:{day}")] }
        }
        SourceRollup::Day | SourceRollup::ShopKind | SourceRollup::City | SourceRollup::VisitKind => {
            Vec::new()
        }
    }
}
