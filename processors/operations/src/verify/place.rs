//! The keys of rollups.

use afterwrite_model::table::Model;

/// `PK` and `SK` of a rollup.
pub(crate) type RollupPlace = (String, String);

/// Whether a rollup of the model has this key.
pub(crate) fn is_rollup(model: &Model, (partition, sort): &RollupPlace) -> bool {
    model.rollups.iter().any(|rollup| rollup.has_stored_key(partition, sort))
}
