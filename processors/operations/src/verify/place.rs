//! The keys of rollups.

use afterwrite::table::Model;

/// `PK` and `SK` of a rollup.
pub(crate) type RollupPlace = (String, String);

/// Whether a rollup of the model has this key.
pub(crate) fn is_rollup(model: &Model, (partition, sort): &RollupPlace) -> bool {
    model.rollups.iter().any(|rollup| {
        let partition = if rollup.shards > 1 { without_shard(partition) } else { partition };
        rollup.has_key(partition, sort)
    })
}

/// The partition key without a shard.
pub(crate) fn without_shard(partition: &str) -> &str {
    match partition.rsplit_once("#SHARD#") {
        Some((rest, number)) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => {
            rest
        }
        _ => partition,
    }
}
