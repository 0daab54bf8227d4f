//! The keys of ledger entries and expiry markers, by their documented format and without code of the product.

use sha2::{Digest as _, Sha256};

use super::source_rollups::STATE_IN_ENTRIES;
use super::store::STATE;

/// `PK` and `SK` of an item of the state table.
pub(crate) type StateKey = (String, String);

/// DynamoDB's limits on key values, in bytes.
const MAX_PARTITION_KEY: usize = 2048;
const MAX_SORT_KEY: usize = 1024;
const EXPIRED: &str = "#EXPIRED#";
const HASHED: &str = "#SHA256#";

/// The key of the ledger entry of an item.
pub(crate) fn entry_key(table: &str, partition: &str, sort: Option<&str>) -> StateKey {
    let sort = sort.unwrap_or("-");
    let is_natural = sort.len() <= MAX_SORT_KEY && !sort.contains(HASHED) && !sort.contains(EXPIRED);
    let sort = if is_natural { sort.to_owned() } else { hashed(sort, sort, MAX_SORT_KEY) };
    (ledger_partition(table, partition), sort)
}

/// The key of the marker of an expiry at this position.
pub(crate) fn marker_key(table: &str, partition: &str, sort: Option<&str>, position: &str) -> StateKey {
    let sort = sort.unwrap_or("-");
    let marker = format!("{sort}{EXPIRED}{position}");
    let is_natural = marker.len() <= MAX_SORT_KEY && !sort.contains(HASHED);
    let whole = format!("{EXPIRED}{marker}");
    let marker = if is_natural { marker } else { hashed(&marker, &whole, MAX_SORT_KEY) };
    (ledger_partition(table, partition), marker)
}

fn ledger_partition(table: &str, partition: &str) -> String {
    let table = if table == STATE { STATE_IN_ENTRIES } else { table };
    let key = format!("LEDGER#{table}#{partition}");
    let is_natural = key.len() <= MAX_PARTITION_KEY && !key.contains(HASHED);
    if is_natural { key } else { hashed(&key, &key, MAX_PARTITION_KEY) }
}

/// The beginning of a key of ASCII characters, and the hash of `whole`.
fn hashed(key: &str, whole: &str, limit: usize) -> String {
    let hash: String = Sha256::digest(whole.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let kept = key.len().min(limit - hash.len() - HASHED.len());
    format!("{}{HASHED}{hash}", &key[..kept])
}
