//! The consequences of an item, as numbers.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_input::item_json::ItemJson;
use afterwrite_model::projection::{ItemContributions, RollupTargets};
use afterwrite_model::table::Model;

use crate::explain::{LookupValues, consequences};

/// The consequences of an item of one table, counted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ItemSummary {
    /// Its entity.
    pub(super) entity: String,
    /// The problems that keep it from being counted, invalidated or exported.
    pub(super) problems: usize,
    /// The measures that it contributes to.
    pub(super) measures: usize,
    /// The lookups that it needs.
    pub(super) lookups: usize,
    /// Its rows that have no day.
    pub(super) undated_rows: usize,
    /// The outputs that it gives to lookups, by name.
    pub(super) gives: BTreeMap<String, String>,
}

impl ItemSummary {
    /// Of an item as JSON, whose lookups have these outputs; `None` if it is of no entity of this table.
    pub(super) fn of(
        model: &Arc<Model>,
        table: usize,
        item: &str,
        given: &BTreeMap<String, String>,
    ) -> Option<Self> {
        let item = ItemJson::parse(item)?;
        let lookups = LookupValues::of(model, given);
        let nothing = (&ItemContributions::NOTHING, &mut RollupTargets::of(model));
        let found = consequences(model, table, &item, &lookups, nothing).ok()??;
        Some(Self {
            entity: found.entity,
            problems: found.problems.len(),
            measures: found.counted.iter().map(|rollup| rollup.measures.iter().count()).sum(),
            lookups: found.asks.len(),
            undated_rows: found.rows.iter().filter(|row| row.has_no_day).count(),
            gives: found
                .answers
                .iter()
                .flat_map(|answer| answer.gives.iter().map(|(name, value)| (name.clone(), value.clone())))
                .collect(),
        })
    }
}
