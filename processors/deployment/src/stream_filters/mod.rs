//! The filter patterns of event source mappings: only records that a function uses invoke it.
//!
//! A pattern tests the beginnings of the item's key, as the model's entities have them:
//!
//! ```text
//! entities that a projection uses ─▶ key areas ─▶ combined until few and short enough ─▶ patterns
//!                                                 └─ too many, or too long: broader ones
//! ```
//!
//! A filter never loses a record that has an effect. It has no condition on the operation or the identity, so deletions by time to
//! live pass. The heartbeat passes. A record whose key has other attributes than the model's passes as well: the function
//! fails on it and reports the wrong set-up, instead of a stream that is silently skipped.
//!
//! An archive of every change (`archive = "all"`) and an event rule of every item need every record, so a function that hosts one of them has no
//! filter.

mod combination;
mod key_area;

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite_model::table::{ArchiveScope, Model, ModelDescription, NamedList, Table};
use afterwrite_services::config::ProjectionKind;
use serde::Serialize;

use self::key_area::{HeartbeatKey, KeyArea};

/// The most patterns of a mapping without a quota increase.
pub const MAX_PATTERNS: usize = 5;
/// The most characters of a pattern.
pub const MAX_PATTERN_LENGTH: usize = 4096;

/// The sets of projections that a function can host. Terraform finds a set's filters by its names, so a new kind needs its sets here.
const HOSTED_SETS: [&[ProjectionKind]; 15] = {
    use ProjectionKind::{Aggregate, Archive, Invalidate, Notify};
    [
        &[Aggregate],
        &[Invalidate],
        &[Archive],
        &[Notify],
        &[Aggregate, Invalidate],
        &[Aggregate, Archive],
        &[Aggregate, Notify],
        &[Invalidate, Archive],
        &[Invalidate, Notify],
        &[Archive, Notify],
        &[Aggregate, Invalidate, Archive],
        &[Aggregate, Invalidate, Notify],
        &[Aggregate, Archive, Notify],
        &[Invalidate, Archive, Notify],
        &[Aggregate, Invalidate, Archive, Notify],
    ]
};

/// Which records a filter delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterBreadth {
    /// Those whose key begins like the keys of an entity that is used.
    UsedKeys,
    /// The same, and some whose partition and sort key begin like the keys of different entities: the patterns would be too many.
    CombinedKeys,
    /// Those whose partition key begins like that of an entity that is used: the patterns would be too long.
    PartitionKeys,
    /// The same, with shortened beginnings.
    ShortenedKeys,
    /// All, because the archive has every change.
    ArchivesAll,
    /// All, because an event rule forwards every change.
    ForwardsAll,
    /// All, because keys of an entity that is used can begin with any text.
    AnyKey,
}

impl FilterBreadth {
    /// The breadth, in words.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::UsedKeys => "keys of entities that it uses",
            Self::CombinedKeys => {
                "broader: the patterns would be too many, so the keys of some entities are combined"
            }
            Self::PartitionKeys => {
                "broader: the patterns would be too long, so only the partition key is tested"
            }
            Self::ShortenedKeys => {
                "broader: the patterns would be too long, so only short beginnings of the partition key are tested"
            }
            Self::ArchivesAll => "every record: the archive has every change (archive = \"all\")",
            Self::ForwardsAll => "every record: an event rule forwards every change (of = \"*\")",
            Self::AnyKey => "every record: keys of an entity can begin with any text",
        }
    }
}

impl Serialize for FilterBreadth {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.description())
    }
}

/// The filter of the mapping of one table's stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StreamFilter {
    /// The patterns, each as JSON; a record is delivered if it matches any of them. Empty: every record is delivered.
    pub patterns: Vec<String>,
    /// Which records these are.
    pub delivers: FilterBreadth,
}

impl StreamFilter {
    /// The filter of a table's stream for a function that hosts these projections, with at most `max_patterns` patterns.
    ///
    /// `table` is an index into [`Model::tables`].
    #[must_use]
    pub fn new(
        model: &Model,
        table: usize,
        projections: &BTreeSet<ProjectionKind>,
        max_patterns: usize,
    ) -> Self {
        let Some(schema) = model.tables.get(table) else {
            return Self::of_every_record(FilterBreadth::AnyKey);
        };
        // Of the state table, only items of datasets are archived, and none is forwarded: writes of the ledger must never feed a function.
        if let Some(breadth) = needs_all(model, projections).filter(|_| !schema.is_state()) {
            return Self::of_every_record(breadth);
        }
        let entities = model.entities.iter().filter(|entity| entity.table == table);
        let used = entities.filter(|entity| projections.iter().any(|kind| kind.uses(entity)));
        let areas: Vec<KeyArea> = used.map(|entity| KeyArea::of_entity(entity, schema)).collect();
        let heartbeat = HeartbeatKey::of_table(schema);
        if areas.iter().any(KeyArea::is_everything) || (areas.is_empty() && heartbeat.is_none()) {
            return Self::of_every_record(FilterBreadth::AnyKey);
        }
        Self::of_areas(areas, schema, heartbeat.as_ref(), max_patterns.max(1))
    }

    /// Whether a function that hosts these projections reads a table's stream. It reads the stream of the state table only if it uses items
    /// of a rollup.
    #[must_use]
    pub fn is_needed(model: &Model, table: usize, projections: &BTreeSet<ProjectionKind>) -> bool {
        let mut entities = model.entities.iter().filter(|entity| entity.table == table);
        model.tables.get(table).is_some_and(|table| !table.is_state())
            || entities.any(|entity| projections.iter().any(|kind| kind.uses(entity)))
    }

    fn of_every_record(delivers: FilterBreadth) -> Self {
        Self { patterns: Vec::new(), delivers }
    }

    /// The narrowest patterns within Lambda's limits.
    fn of_areas(
        areas: Vec<KeyArea>,
        table: &Table,
        heartbeat: Option<&HeartbeatKey>,
        max_patterns: usize,
    ) -> Self {
        let mut areas = key_area::joined(areas);
        let mut delivers = FilterBreadth::UsedKeys;
        if areas.len() > max_patterns {
            areas = combination::combined(areas, max_patterns);
            delivers = FilterBreadth::CombinedKeys;
        }
        let (mut patterns, mut length) = (written(&areas, table, heartbeat), usize::MAX);
        while patterns.iter().any(|pattern| pattern.chars().count() > MAX_PATTERN_LENGTH) {
            let is_first = length == usize::MAX;
            delivers = if is_first { FilterBreadth::PartitionKeys } else { FilterBreadth::ShortenedKeys };
            areas = key_area::partition_areas(&areas, max_patterns, length);
            if areas.iter().any(KeyArea::is_everything) {
                return Self::of_every_record(FilterBreadth::AnyKey);
            }
            patterns = written(&areas, table, heartbeat);
            let longest = areas.iter().map(KeyArea::longest_beginning).max().unwrap_or(0);
            length = longest.saturating_sub(1);
        }
        if patterns.is_empty() {
            Self::of_every_record(FilterBreadth::AnyKey)
        } else {
            Self { patterns, delivers }
        }
    }
}

/// The areas as patterns; the first of them also accepts the heartbeat, and keys that the model does not have.
fn written(areas: &[KeyArea], table: &Table, heartbeat: Option<&HeartbeatKey>) -> Vec<String> {
    let nothing = KeyArea::default();
    let (first, rest) = areas.split_first().map_or((None, areas), |(first, rest)| (Some(first), rest));
    let first = match (first, heartbeat) {
        (Some(area), heartbeat) => Some(area.guarding_pattern(table, heartbeat)),
        // Nothing but the heartbeat is used.
        (None, Some(heartbeat)) => Some(nothing.guarding_pattern(table, Some(heartbeat))),
        (None, None) => None,
    };
    first.into_iter().chain(rest.iter().map(|area| area.pattern(table))).collect()
}

/// Why a function that hosts these projections needs every record of the application's tables; `None` if it does not.
fn needs_all(model: &Model, projections: &BTreeSet<ProjectionKind>) -> Option<FilterBreadth> {
    let archives_all = match model.archive {
        ArchiveScope::All => projections.contains(&ProjectionKind::Archive),
        ArchiveScope::Matched => false,
    };
    let forwards_all = model.forwards_records() && projections.contains(&ProjectionKind::Notify);
    match (archives_all, forwards_all) {
        (true, _) => Some(FilterBreadth::ArchivesAll),
        (false, true) => Some(FilterBreadth::ForwardsAll),
        (false, false) => None,
    }
}

/// A model in words, and the filters of its streams: what a deployment is made from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeploymentDescription {
    /// The model.
    #[serde(flatten)]
    pub model: ModelDescription,
    /// By the table's name, and then by the projections that a function hosts (as in `AFTERWRITE_PROJECTIONS`): the patterns. The state table
    /// is named if rollups are sources; projections that use none of them are left out.
    pub filters: NamedList<NamedList<Vec<String>>>,
}

impl DeploymentDescription {
    /// Describes a model.
    #[must_use]
    pub fn of(model: &Model) -> Self {
        let tables = model.tables.iter().enumerate();
        let filters = tables.map(|(index, table)| (Arc::clone(&table.name), table_filters(model, index)));
        Self { model: model.describe(), filters: filters.collect() }
    }
}

/// The filters of a table's stream for each set of projections.
fn table_filters(model: &Model, table: usize) -> NamedList<Vec<String>> {
    let of_set = |hosted: &&[ProjectionKind]| {
        let names: Vec<&str> = hosted.iter().map(|kind| kind.name()).collect();
        let hosted = hosted.iter().copied().collect();
        let is_needed = StreamFilter::is_needed(model, table, &hosted);
        is_needed.then(|| (names.join(","), StreamFilter::new(model, table, &hosted, MAX_PATTERNS).patterns))
    };
    HOSTED_SETS.iter().filter_map(of_set).collect()
}

#[cfg(test)]
mod tests;
