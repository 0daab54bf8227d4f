//! Everything that follows from one item, computed by the code that processes every record. Nothing is read or written.
//!
//! ```text
//! item ─▶ the record of its creation ─▶ entity ─▶ contributions, lookups, mirrors
//!                                          ├────▶ stale cache keys and paths, events, rows
//!                                          └────▶ the conditions that leave it out
//! ```

mod consequences;
mod events;
mod explainer;
mod left_out;
mod lookups;

use std::sync::Arc;

use afterwrite_input::item_json::ItemJson;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::projection::{EventChange, ItemContributions, RollupTargets};
use afterwrite_model::record::RecordDecoder;
use afterwrite_model::table::{Model, Table};
use afterwrite_model::{Error, Result};

pub use self::consequences::{
    Consequences, DatasetRow, ItemProblem, LeftOut, LookupResult, MirroredValue, RollupContribution,
    StaleCacheKey,
};
pub use self::events::ItemEvent;
pub use self::lookups::{ExplainedLookups, GuessedOutputs, LookupValues};

use self::events::events_of_creation;
use self::explainer::{ExplainedCount, ItemExplainer};

/// The consequences of the item in this table; `None` if it matches no entity there. The contributions that are counted now, whose targets are
/// in `targets`, decide about shards.
///
/// # Errors
/// The item could not be in a stream.
pub fn consequences(
    model: &Arc<Model>,
    table: usize,
    item: &ItemJson,
    lookups: &impl ExplainedLookups,
    (counted_now, targets): (&ItemContributions, &mut RollupTargets),
) -> Result<Option<Consequences>> {
    let record = |table: &Table| item.insert_record(table, &table.name, 1, None);
    let Some(line) = model.tables.get(table).and_then(record) else { return Ok(None) };
    let decode = |vocabulary| RecordDecoder::new(vocabulary).record(line.as_bytes()).map_err(|bad| bad.error);
    let (record, row_record) = (decode(&model.attributes)?, decode(&model.row_attributes)?);
    let Some(source) = SourceKey::of_keys(model, table, &record.keys) else { return Ok(None) };
    let candidates = source.candidates(model);
    let (Some(image), Some(row_image)) = (&record.new, &row_record.new) else { return Ok(None) };
    let Some(identity) = candidates.in_state(image) else { return Ok(None) };
    let explained =
        ItemExplainer { model, source: &source, candidates: &candidates, identity, lookups, counted_now };
    let mut found = Consequences {
        table: model.tables.get(table).map(|table| table.name.to_string()).unwrap_or_default(),
        entity: identity.entity.name.to_string(),
        key: explained.key(),
        secret: identity.entity.secrets.iter().map(ToString::to_string).collect(),
        answers: explained.offered_results(image),
        shows: explained.shown(image),
        rows: explained.rows(&row_record, row_image),
        left_out: explained.left_out(image, row_image),
        notes: explained.slashes_in_paths(image),
        ..Consequences::default()
    };
    let mut problems = Vec::new();
    let mut report = |error: Error| problems.push(ItemProblem::from(error));
    explained.lookup_results(image).map(|results| found.asks = results).unwrap_or_else(&mut report);
    let counted = explained.explained_count(image, targets);
    counted.map(|counted| add_counted(&mut found, counted, lookups)).unwrap_or_else(&mut report);
    explained.stale(image, &mut found);
    let change = EventChange { source: &source, candidates: Some(&candidates), record: &record, json: &line };
    events_of_creation(model, &change).map(|events| found.events = events).unwrap_or_else(&mut report);
    problems.dedup();
    if !problems.is_empty() {
        found.notes.extend(placeholder_note(&found.asks, lookups));
    }
    found.problems = problems;
    Ok(Some(found))
}

fn add_counted(found: &mut Consequences, counted: ExplainedCount, lookups: &impl ExplainedLookups) {
    (found.counted, found.skipped) = (counted.rollups, counted.skipped);
    if counted.is_unknown {
        found.unknown_outputs = unknown_outputs(&found.asks, lookups);
    }
}

/// The outputs whose names stand for their values.
fn unknown_outputs(asks: &[LookupResult], lookups: &impl ExplainedLookups) -> Vec<String> {
    let outputs = asks.iter().flat_map(|ask| ask.gives.names());
    outputs.filter(|output| lookups.is_placeholder(output)).cloned().collect()
}

/// The options that state outputs: `--given city=VALUE --given zone=VALUE`.
#[must_use]
pub fn given_options(outputs: &[String]) -> String {
    outputs.iter().map(|output| format!("--given {output}=VALUE")).collect::<Vec<_>>().join(" ")
}

/// An error can come from the name of an output, where another value is needed.
fn placeholder_note(asks: &[LookupResult], lookups: &impl ExplainedLookups) -> Option<String> {
    let unknown = unknown_outputs(asks, lookups);
    (!unknown.is_empty()).then(|| {
        format!(
            "the lookups are not read here, and the names of their outputs stand for the values; an error that a name causes goes with {}",
            given_options(&unknown)
        )
    })
}
