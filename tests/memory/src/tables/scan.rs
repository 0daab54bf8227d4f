//! Parallel scans of stored tables.

use afterwrite_ledger::tables::{RecoveryState, ScanPage, ScanRequest, TableScan, TableSummary, item_bytes};
use afterwrite_model::Error;
use afterwrite_model::record::Item;

use super::{MemoryTables, read_error};

/// DynamoDB reads at most so many bytes for a page.
const MAX_PAGE_BYTES: usize = 1024 * 1024;
/// One strongly consistent read unit per started 4 KB.
const READ_UNIT_BYTES: usize = 4096;

/// The label that described streams have.
pub const MEMORY_STREAM_LABEL: &str = "2026-02-06T00:00:00.000";

impl MemoryTables {
    /// [`TableScan::scan`] as a plain function.
    ///
    /// # Errors
    /// As [`TableScan::scan`].
    pub fn scan_now(&self, request: &ScanRequest) -> Result<ScanPage, Error> {
        let start =
            request.start_after.as_ref().map(|start| self.key_of(&request.table, start)).transpose()?;
        let state = self.lock();
        let table = state.table(&request.table)?;
        let start = start.map(|start| table.locate(&start)).transpose().map_err(read_error)?;
        let limit =
            request.page_items.map_or(usize::MAX, |items| usize::try_from(items).unwrap_or(usize::MAX));
        let (mut items, mut bytes) = (Vec::new(), 0);
        let mut is_full = false;
        for (partition, item) in table.items_after(start.as_ref()) {
            if segment_of(&partition, request.segments) != request.segment {
                continue;
            }
            bytes += item_bytes(item);
            items.push(item.clone());
            is_full = items.len() >= limit || bytes >= MAX_PAGE_BYTES;
            if is_full {
                break;
            }
        }
        let keys = &table.definition.keys;
        let key_of = |item: &Item| -> Item {
            let names = keys.definitions().map(|key| key.name.as_str());
            names.filter_map(|name| Some((name.to_owned().into(), item.get(name)?.clone()))).collect()
        };
        // As in DynamoDB, a full page has a next one, which may be empty.
        let next = items.last().filter(|_| is_full).map(key_of);
        let units = bytes.div_ceil(READ_UNIT_BYTES).max(1);
        let units = if request.is_consistent { units } else { units.div_ceil(2) };
        Ok(ScanPage { items, read_units: u64::try_from(units).unwrap_or(u64::MAX), next })
    }

    /// [`TableScan::describe`] as a plain function: sizes are exact, and every table can be restored.
    ///
    /// # Errors
    /// As [`TableScan::describe`].
    pub fn describe_now(&self, table: &str) -> Result<TableSummary, Error> {
        let state = self.lock();
        let stored = state.table(table)?;
        let (mut items, mut bytes) = (0, 0);
        for item in stored.items() {
            items += 1;
            bytes += item_bytes(item);
        }
        Ok(TableSummary {
            id: None,
            arn: None,
            created_at: None,
            items,
            bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
            indexes: stored.definition.table_indexes(),
            stream_label: stored.definition.has_stream.then(|| MEMORY_STREAM_LABEL.to_owned()),
            recovery: RecoveryState::Enabled,
            described_at: state.now,
        })
    }
}

/// All items of a partition are in one segment (FNV-1a).
fn segment_of(partition: &str, segments: u32) -> u32 {
    let hash = partition.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    u32::try_from((hash >> 32) % u64::from(segments.max(1))).unwrap_or(0)
}

impl TableScan for MemoryTables {
    async fn scan(&self, request: &ScanRequest) -> Result<ScanPage, Error> {
        self.scan_now(request)
    }

    async fn describe(&self, table: &str) -> Result<TableSummary, Error> {
        self.describe_now(table)
    }
}
