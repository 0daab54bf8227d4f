//! A hash of keys that is the same in every process and version.

/// FNV-1a of a partition key and a sort key.
pub(crate) fn stable_hash(partition: &str, sort: &str) -> u64 {
    let bytes = partition.bytes().chain(std::iter::once(0)).chain(sort.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
