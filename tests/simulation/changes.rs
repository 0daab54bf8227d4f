//! Changes of the state table: which of them are delivered, and what is special of them.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use afterwrite_deployment::stream_filters::{MAX_PATTERNS, StreamFilter};
use afterwrite_mapping::FilterCriteria;
use afterwrite_memory::ItemChange;
use afterwrite_services::config::ProjectionKind;

use super::model::model;
use super::source_rollups::SourceRollup;
use super::store::text;
use super::stream::StreamRecord;

/// The filter of the state table's stream for the function `aggregator` with the model of a generation.
pub(crate) fn state_filter(generation: u64) -> &'static FilterCriteria {
    static FILTERS: OnceLock<[FilterCriteria; 2]> = OnceLock::new();
    let filter = |generation| {
        let (model, projections) = (model(generation), BTreeSet::from([ProjectionKind::Aggregate]));
        let table = model.state_source().expect("rollups of the model are sources");
        let filter = StreamFilter::new(&model, table, &projections, MAX_PATTERNS);
        FilterCriteria::from_patterns(filter.patterns.iter().map(String::as_str)).unwrap()
    };
    let filters = FILTERS.get_or_init(|| [1, 2].map(filter));
    &filters[usize::from(generation == 2)]
}

/// Whether a change is one of an item of a rollup that the model of this generation uses as a source.
pub(crate) fn is_of_source(change: &ItemChange, generation: u64) -> bool {
    let item = change.new.as_ref().or(change.old.as_ref());
    let source = item.and_then(|item| SourceRollup::of_key(text(item, "PK"), text(item, "SK")));
    source.is_some_and(|source| source.first_generation() <= generation)
}

/// The event of a change of a source rollup.
pub(crate) fn source_event(source: SourceRollup, record: &StreamRecord) -> &'static str {
    let [before, after] =
        [&record.old, &record.new].map(|image| image.as_ref().map(|item| source.is_present(item)));
    match (before, after) {
        (Some(true), Some(false)) => "source rollup returned to zero",
        (Some(false), Some(true)) => "source rollup left zero again",
        (Some(true), None) if source.is_kept() => "source rollup expired and kept",
        (Some(true), None) => "source rollup expired and subtracted",
        (Some(false), None) => "source rollup expired at zero",
        _ if source.level() > 1 => "source rollup of a higher level changed",
        _ => "source rollup changed",
    }
}
