//! The stream of the state table, where rollups are sources: only their items may reach a function, never the ledger's own writes.

use std::collections::BTreeSet;

use afterwrite_deployment::stream_filters::{MAX_PATTERNS, StreamFilter};
use afterwrite_mapping::{FilterCriteria, MappingSettings};
use afterwrite_model::Result;
use afterwrite_model::table::Model;
use afterwrite_services::config::ProjectionKind;

/// The settings of a mapping of one table's stream to a function that hosts these projections. Of the state table, it delivers the items of
/// rollups that the function uses; `None` if the function uses none.
///
/// # Errors
/// A filter that Lambda would refuse.
pub(crate) fn table_settings(
    model: &Model,
    table: usize,
    hosted: &BTreeSet<ProjectionKind>,
    settings: MappingSettings,
) -> Result<Option<MappingSettings>> {
    if Some(table) != model.state_source() {
        return Ok(Some(settings));
    }
    if !StreamFilter::is_needed(model, table, hosted) {
        return Ok(None);
    }
    let filter = StreamFilter::new(model, table, hosted, MAX_PATTERNS);
    let filters = FilterCriteria::from_patterns(filter.patterns.iter().map(String::as_str))?;
    Ok(Some(MappingSettings { filters, ..settings }))
}
