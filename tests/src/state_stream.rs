//! The stream of a state table whose rollups are sources.

use std::sync::Arc;

use afterwrite_memory::ItemChange;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::table::Model;

/// The names of a model's tables, as declared; if rollups are sources, the state table has the name `state`.
#[must_use]
pub fn table_names(model: &Model, state: &str) -> Vec<Arc<str>> {
    let mut names: Vec<Arc<str>> = model.tables.iter().map(|table| Arc::clone(&table.name)).collect();
    if let Some(name) = model.state_source().and_then(|table| names.get_mut(table)) {
        *name = Arc::from(state);
    }
    names
}

/// Whether a change of the state table is of a rollup that is a source. A filter keeps all others away from the functions.
#[must_use]
pub fn is_of_source(model: &Model, change: &ItemChange) -> bool {
    let item = change.new.as_ref().or(change.old.as_ref());
    let source = model.state_source().zip(item);
    let source = source.and_then(|(table, item)| SourceKey::of_item(model, table, item));
    source.is_some_and(|source| !source.candidates(model).is_empty())
}
