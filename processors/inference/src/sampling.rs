//! Reads a sample of a deployed table: some items of each of several segments, because a scan from its beginning may see a few
//! partitions only.

use std::sync::Arc;

use afterwrite_ledger::tables::{ScanRequest, TableScan};
use afterwrite_model::Result;
use afterwrite_model::record::Item;

/// Segments that the items are taken from. With many, the sample has the first items of many partitions, and so rare kinds of items.
const MOST_SEGMENTS: u32 = 256;

/// Reads about `most` items of a table, never more.
///
/// # Errors
/// As [`TableScan::scan`].
pub async fn sample_items(tables: &impl TableScan, table: &Arc<str>, most: u32) -> Result<Vec<Item>> {
    let segments = most.clamp(1, MOST_SEGMENTS);
    let whole = || ScanRequest::whole(Arc::clone(table));
    let mut open: Vec<ScanRequest> =
        (0..segments).map(|segment| ScanRequest { segment, segments, ..whole() }).collect();
    let (most, mut items) = (usize::try_from(most).unwrap_or(usize::MAX), Vec::new());
    while items.len() < most && !open.is_empty() {
        let missing = most - items.len();
        let share = u32::try_from(missing.div_ceil(open.len())).unwrap_or(u32::MAX);
        let mut unfinished = Vec::new();
        for request in open {
            let page = tables.scan(&ScanRequest { page_items: Some(share), ..request.clone() }).await?;
            items.extend(page.items);
            unfinished.extend(page.next.map(|next| ScanRequest { start_after: Some(next), ..request }));
        }
        open = unfinished;
    }
    items.truncate(most);
    Ok(items)
}
